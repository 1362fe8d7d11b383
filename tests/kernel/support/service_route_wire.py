# SPDX-License-Identifier: Apache-2.0
"""Ranges of Services that a node routes."""

CIDRS = ("10.96.0.0/12", "fd96::/112")
