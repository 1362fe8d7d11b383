# SPDX-License-Identifier: Apache-2.0
"""Checks across policies, APIs and the cluster, after each object was read."""
