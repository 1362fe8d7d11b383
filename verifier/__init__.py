# SPDX-License-Identifier: Apache-2.0
"""Proofs about the IRs, with Z3."""
