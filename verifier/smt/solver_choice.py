# SPDX-License-Identifier: Apache-2.0
"""The choice of solvers; the command line knows it before any solver is loaded."""

from enum import Enum


class Choice(Enum):
    """The solvers that decide."""

    Z3 = "z3"
    BITWUZLA = "bitwuzla"
    BOTH = "both"
