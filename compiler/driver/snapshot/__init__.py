# SPDX-License-Identifier: Apache-2.0
"""Snapshots: what policyc reads of a live cluster, as files."""
