# SPDX-License-Identifier: Apache-2.0
"""A node, its pods and an external client as network namespaces, with real traffic."""
