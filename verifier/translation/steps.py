# SPDX-License-Identifier: Apache-2.0
"""Step functions over keys: the result of a search for all keys."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

Piece = tuple[int, int]
Steps = tuple[Piece, ...]
"""(lowest key, word), ascending, neighbours with different words."""


def joined(pieces: Iterable[Piece]) -> Steps:
    """Pieces in ascending order as steps."""
    found: list[Piece] = []
    for lowest, word in pieces:
        if not found or found[-1][1] != word:
            found.append((lowest, word))
    return tuple(found)


def cut(lo: int, hi: int, places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The parts (first, last) of lo..hi that begin at lo and at each of the places within."""
    starts = sorted({lo, *(place for place in places if lo < place <= hi)})
    return zip(starts, [*(start - 1 for start in starts[1:]), hi], strict=True)


def value_at(steps: Steps, key: int) -> int:
    """The word of a key, which is not below the first step."""
    return steps[bisect_right(steps, key, key=_lowest) - 1][1]


def first_difference(one: Steps, other: Steps) -> int:
    """The lowest key on which two step functions, which are not equal, differ."""
    places = sorted({at for at, _ in (*one, *other)})
    return next(key for key in places if value_at(one, key) != value_at(other, key))


def cropped(steps: Steps, first: int, last: int) -> Iterator[Piece]:
    """The steps from `first` to `last`; the first begins at `first`."""
    at = bisect_right(steps, first, key=_lowest)
    yield first, steps[at - 1][1]
    yield from steps[at : bisect_right(steps, last, lo=at, key=_lowest)]


_lowest = itemgetter(0)
