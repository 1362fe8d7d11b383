# SPDX-License-Identifier: Apache-2.0
"""SNAT of pods that leave the cluster: its addresses, its ports and their reservation."""
