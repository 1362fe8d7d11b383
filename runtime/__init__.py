# SPDX-License-Identifier: Apache-2.0
"""The runtime on a node: loads a bundle, attaches its hooks, keeps its maps, and reports."""
