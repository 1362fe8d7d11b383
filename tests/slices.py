# SPDX-License-Identifier: Apache-2.0
"""What `make test` leaves to `make test-all`: cases of a long list, and marks."""

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
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


FEW = 4
"""So many cases of one test always run."""
Case = tuple[int, ...]
"""The index of a test case's value on each axis: in each list of parameters."""


def mark_beyond_covering(items: Iterable[pytest.Item]) -> None:
    """Mark cases of kernel tests `slow` whose values other cases cover.

    Of two lists of parameters each value still runs, of three or more each pair of values.
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
            kept = covering(_cases(group))
            for at, item in enumerate(group):
                if at not in kept:
                    item.add_marker(pytest.mark.slow)


def _cases(group: Sequence[pytest.Function]) -> list[Case]:
    numbers: defaultdict[str, dict[object, int]] = defaultdict(dict)
    found = []
    for item in group:
        params = sorted(item.callspec.params.items())
        found.append(
            tuple(
                numbers[name].setdefault(hashed(value), len(numbers[name]))
                for name, value in params
            )
        )
    return found


def hashed(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def covering(cases: Sequence[Case]) -> set[int]:
    """The positions of few cases that have every value of two axes, or every pair of more axes.

    Axes that always change together count as one. Of cases that cover equally much, the one with the
    values used least so far is taken, so that values of a short axis take turns.
    """
    axes = sorted(set(zip(*cases, strict=True)))
    size = 1 if len(axes) < 3 else 2
    wanted = [
        {(chosen, tuple(axes[axis][at] for axis in chosen)) for chosen in _sets(len(axes), size)}
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
