# SPDX-License-Identifier: Apache-2.0
"""Selection of the regions that are shown if there is no room for all: a fair share for each."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from policyc.ir.results.diff import Difference, DifferenceKind

Each = TypeVar("Each")
Subject = tuple[DifferenceKind, Hashable]
"""The kind of a region, and the subject whose flows change."""


def subject_of(difference: Difference) -> Subject:
    """The end whose policies changed: the destination of ingress, the source of egress, else both."""
    return difference.kind, difference.subject


def in_turns(found: Sequence[Each], subject_of: Callable[[Each], Subject]) -> list[int]:
    """The positions in `found`, in the order in which they are chosen.

    The kinds take turns, so regions that open do not crowd out regions that close. The subjects of a
    kind take turns, too. A latent region changes no flow, so it comes after all others.
    """
    of_subject: Counter[Subject] = Counter()
    rounds: dict[DifferenceKind, list[tuple[int, int]]] = {}
    for at, each in enumerate(found):
        subject = subject_of(each)
        rounds.setdefault(subject[0], []).append((of_subject[subject], at))
        of_subject[subject] += 1
    turns = [
        (kind is DifferenceKind.LATENT, turn, at)
        for kind, positions in rounds.items()
        for turn, (_, at) in enumerate(sorted(positions))
    ]
    return [at for _, _, at in sorted(turns)]


def first_in_turns(
    found: Sequence[Each], subject_of: Callable[[Each], Subject], limit: int | None
) -> list[Each]:
    """At most `limit` of `found`, chosen in turns and given in their order; None: all."""
    return [found[at] for at in sorted(in_turns(found, subject_of)[:limit])]
