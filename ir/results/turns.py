# SPDX-License-Identifier: Apache-2.0
"""Selection of the regions that are shown if there is no room for all: every kind gets its share."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from policyc.ir.results.diff import DifferenceKind

Each = TypeVar("Each")


def in_turns(found: Sequence[Each], kind_of: Callable[[Each], DifferenceKind]) -> list[int]:
    """The positions in `found`, in display order.

    The kinds take turns, so regions that open do not crowd out regions that close. A latent region
    changes no flow, so it comes after all others.
    """
    seen: dict[DifferenceKind, int] = defaultdict(int)
    turns: list[tuple[bool, int, int]] = []
    for at, each in enumerate(found):
        kind = kind_of(each)
        turns.append((kind is DifferenceKind.LATENT, seen[kind], at))
        seen[kind] += 1
    return [at for _, _, at in sorted(turns)]


def first_in_turns(
    found: Sequence[Each], kind_of: Callable[[Each], DifferenceKind], limit: int | None
) -> list[Each]:
    """At most `limit` of `found`, chosen in turns and given in their order; None: all."""
    return [found[at] for at in sorted(in_turns(found, kind_of)[:limit])]
