# SPDX-License-Identifier: Apache-2.0
"""Which solvers decide; known to the command line before any is loaded."""

from enum import Enum


class Choice(Enum):
    """Which solvers decide."""

    Z3 = "z3"
    BITWUZLA = "bitwuzla"
    BOTH = "both"
