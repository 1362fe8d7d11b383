# SPDX-License-Identifier: Apache-2.0
"""Differential fuzzing: every stage of the chain evaluates random policies, and all must agree."""
