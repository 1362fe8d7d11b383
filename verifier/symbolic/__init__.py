# SPDX-License-Identifier: Apache-2.0
"""Connections that could exist in any cluster, and verdicts on them, as terms."""
