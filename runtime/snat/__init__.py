# SPDX-License-Identifier: Apache-2.0
"""SNAT of pods that leave the cluster: address, ports and their reservation."""
