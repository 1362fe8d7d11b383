# SPDX-License-Identifier: Apache-2.0
"""How many examples a property is tried on: all of them under `make test-all`, else a slice."""

import os

AT_LENGTH = "POLICYC_TESTS_AT_LENGTH"
"""Set by `make test-all`."""


def examples(at_length: int, slice_of: int = 16) -> int:
    """So many under `make test-all`; under `make test` one for each `slice_of` of them."""
    return at_length if os.environ.get(AT_LENGTH) else max(1, at_length // slice_of)
