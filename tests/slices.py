# SPDX-License-Identifier: Apache-2.0
"""What `make test` leaves to `make test-all`: cases of a long list, and marks."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

from tests.property.length import AT_LENGTH


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters. Those that are not the first of each `step` are marked `slow`."""
    return [
        pytest.param(value, marks=pytest.mark.slow if at % step else ())
        for at, value in enumerate(values)
    ]


def at_length(mark: pytest.MarkDecorator) -> list[pytest.MarkDecorator]:
    """The mark under `make test-all`, nothing under `make test`."""
    return [mark] if os.environ.get(AT_LENGTH) else []
