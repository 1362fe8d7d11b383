# SPDX-License-Identifier: Apache-2.0
"""Which Z3 is installed, without loading it: a run that has nothing to prove does not need it."""

from policyc.compiler.driver.installed import release_of


def z3_release() -> str:
    """The release of the package."""
    return release_of("z3-solver")
