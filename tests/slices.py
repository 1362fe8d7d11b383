# SPDX-License-Identifier: Apache-2.0
"""What `make test` leaves to `make test-all`: cases of a long list, and marks."""

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from tests.property.length import AT_LENGTH


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters. Those that are not the first of each `step` are marked `slow`."""
    return [
        pytest.param(value, marks=pytest.mark.slow if at % step else ())
        for at, value in enumerate(values)
    ]


FAMILY = "family"
"""The parameter that is an address family."""
BOTH = "both_families"
"""The mark of tests whose code differs by family: `make test` runs them with both."""


def at_length(mark: pytest.MarkDecorator) -> list[pytest.MarkDecorator]:
    """The mark under `make test-all`, nothing under `make test`."""
    return [mark] if os.environ.get(AT_LENGTH) else []


PAIRS = 2
ATTACKS = "attacks"
"""The folder whose tests keep each pair of values."""
FEW = 2
"""So many cases of one test always run."""
Case = tuple[int, ...]
"""The index of a test case's value on each axis: in each list of parameters."""


def mark_beyond_covering(items: Iterable[pytest.Item]) -> None:
    """Mark cases of kernel tests `slow` whose values other cases cover.

    Each value of each list of parameters still runs. Of attacks with three or more lists each pair of
    values does, too; pairs with an address family count only where a test is marked as one of both.
    """
    if os.environ.get(AT_LENGTH):
        return
    groups: defaultdict[tuple[object, ...], list[pytest.Function]] = defaultdict(list)
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "kernel" not in marks or "slow" in marks:
            continue
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            groups[item.path, item.originalname].append(item)
    for group in groups.values():
        if len(group) > FEW:
            names, cases = _cases(group)
            both = any(item.get_closest_marker(BOTH) for item in group)
            alone = set() if both else {at for at, name in enumerate(names) if name == FAMILY}
            kept = covering(cases, alone, PAIRS if ATTACKS in group[0].path.parts else 1)
            for at, item in enumerate(group):
                if at not in kept:
                    item.add_marker(pytest.mark.slow)


def _cases(group: Sequence[pytest.Function]) -> tuple[list[str], list[Case]]:
    """The names of the axes, and the cases."""
    numbers: defaultdict[str, dict[object, int]] = defaultdict(dict)
    names = sorted(group[0].callspec.params)
    found = []
    for item in group:
        params = item.callspec.params
        assert sorted(params) == names, f"{item.nodeid} has other parameters than its test"
        found.append(
            tuple(
                numbers[name].setdefault(hashed(params[name]), len(numbers[name])) for name in names
            )
        )
    return names, found


def hashed(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def covering(cases: Sequence[Case], alone: Collection[int] = (), size: int = PAIRS) -> set[int]:
    """The positions of few cases that have every value, or of three and more axes every pair of values.

    With a `size` of 1 each value is enough for any number of axes.

    Axes that always change together count as one, and one that never changes as none. No pairs are
    wanted with the axes in `alone`. Of cases that cover equally much, the one with the values used least
    so far is taken, so that values of a short axis take turns.
    """
    columns = list(zip(*cases, strict=True))
    apart = {columns[at] for at in alone}
    paired = sorted({axis for axis in columns if axis not in apart and len(set(axis)) > 1})
    single = sorted(apart) if paired else sorted(set(columns))
    axes = [*paired, *single]
    size = 1 if len(paired) < 3 else size
    chosen = [*_sets(len(paired), size), *((at,) for at in range(len(paired), len(axes)))]
    wanted = [
        {(each, tuple(axes[axis][at] for axis in each)) for each in chosen}
        for at in range(len(cases))
    ]
    used: Counter[object] = Counter()
    kept: set[int] = set()
    left = set[object]().union(*wanted)
    while left:
        best = max(
            range(len(cases)),
            key=lambda at: (len(wanted[at] & left), -_uses(used, axes, at), -at),
        )
        kept.add(best)
        left -= wanted[best]
        used.update((axis, values[best]) for axis, values in enumerate(axes))
    return kept


def _sets(n_axes: int, size: int) -> Iterable[tuple[int, ...]]:
    return itertools.combinations(range(n_axes), min(size, n_axes))


def _uses(used: Counter[object], axes: Sequence[tuple[int, ...]], at: int) -> int:
    return sum(used[axis, values[at]] for axis, values in enumerate(axes))
