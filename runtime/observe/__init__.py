# SPDX-License-Identifier: Apache-2.0
"""What runs on the node: status, events and attestation."""
