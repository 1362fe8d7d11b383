# SPDX-License-Identifier: Apache-2.0
"""Namespaces, nodes, pods, service accounts and Services: the universe of the policies."""
