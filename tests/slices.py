# SPDX-License-Identifier: Apache-2.0
"""A slice of a long list of cases for `make test`; `make test-all` runs all of them."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters. Those that are not the first of each `step` are marked `slow`."""
    return [
        pytest.param(value, marks=pytest.mark.slow if at % step else ())
        for at, value in enumerate(values)
    ]
