# SPDX-License-Identifier: Apache-2.0
"""Proofs that a Decision IR means what its Policy IR means, lemma by lemma."""
