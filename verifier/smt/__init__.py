# SPDX-License-Identifier: Apache-2.0
"""Solvers and terms: Z3 and bitwuzla behind one interface."""
