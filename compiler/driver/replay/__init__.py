# SPDX-License-Identifier: Apache-2.0
"""Replay: observed flows asked of policies, and of a change."""
