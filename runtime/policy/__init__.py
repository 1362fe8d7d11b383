# SPDX-License-Identifier: Apache-2.0
"""Policy on the node: classes, tables, diagrams and tiers for pods that the compiler never saw."""
