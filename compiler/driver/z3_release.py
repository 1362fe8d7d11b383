# SPDX-License-Identifier: Apache-2.0
"""The installed release of Z3, without loading it: a run that has nothing to prove does not load it."""

from policyc.compiler.driver.installed import release_of


def z3_release() -> str:
    """The release of the package."""
    return release_of("z3-solver")
