# SPDX-License-Identifier: Apache-2.0
"""Which Z3 is installed, without loading it: a run that has nothing to prove does not need it."""

from importlib import metadata


def z3_release() -> str:
    """The release of the package."""
    return metadata.version("z3-solver")
