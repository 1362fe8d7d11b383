# SPDX-License-Identifier: Apache-2.0
"""Policy IR, reference semantics, atoms, Decision IR and lookup plan: what policies mean."""
