# SPDX-License-Identifier: Apache-2.0
"""Observes a node: status, events and attestation."""
