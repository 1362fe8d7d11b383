# SPDX-License-Identifier: Apache-2.0
"""Which address family `make test` takes of a kernel test that runs once with each.

A test's twin in the other family is left to `make test-all`. A hash of the case's name chooses, so
that half of the cases run with IPv4 and half with IPv6, and a case with the same one everywhere.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import pytest

from tests.property.length import AT_LENGTH
from tests.slices import BOTH, FAMILY, hashed

FAMILIES: Final[dict[object, int]] = {4: 4, 6: 6, "4": 4, "6": 6}
"""The parameter's values, and what they mean."""


def mark_twins(items: Iterable[pytest.Item]) -> None:
    """Of two cases of a kernel test that differ in the family alone, mark one `slow`."""
    if os.environ.get(AT_LENGTH):
        return
    cases: defaultdict[tuple[object, ...], dict[int, pytest.Function]] = defaultdict(dict)
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "kernel" not in marks or marks & {"slow", BOTH}:
            continue
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            others = dict(item.callspec.params)
            family = FAMILIES.get(hashed(others.pop(FAMILY, None)))
            if family:
                values = [(name, hashed(others[name])) for name in sorted(others)]
                cases[item.path, item.parent, item.originalname, *values][family] = item
    for twins in cases.values():
        if len(twins) > 1:
            twins[10 - kept_family(twins[4].nodeid)].add_marker(pytest.mark.slow)


def kept_family(name: str) -> int:
    """4 or 6: what `make test` runs the case with whose twin in IPv4 has this name."""
    return 6 if zlib.crc32(name.encode()) & 1 else 4
