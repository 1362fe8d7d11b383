# SPDX-License-Identifier: Apache-2.0
"""What runs on a node: loads a bundle, attaches it, keeps its maps, reports."""
