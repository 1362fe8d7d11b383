# SPDX-License-Identifier: Apache-2.0
"""The keys of a diagram that the program can look up: it reads ports, or types, of some kinds only.

A service of a kind that is not distinguished is looked up by its protocol number
(docs/bundle-format.md). The seeds' answer for that one key is their answer for every service of the
kind.
"""

from collections.abc import Iterator, Set

from policyc.ir.services import Kind, kind_span
from policyc.verifier.translation.steps import Piece, Steps, cropped, joined, value_at

NUMBER_OF = {Kind.TCP: 6, Kind.UDP: 17, Kind.SCTP: 132, Kind.ICMP: 1, Kind.ICMPV6: 58}
"""The IP protocol numbers of the kinds that have ports or types."""

_NEVER = 0
"""A placeholder for a word that no service looks up."""


def as_asked(seen: Steps, distinguished: Set[Kind]) -> Steps:
    """The words for every service key, from the words `seen` under the keys of lookups."""
    return joined(_as_asked(seen, distinguished))


def _as_asked(seen: Steps, distinguished: Set[Kind]) -> Iterator[Piece]:
    for kind, number in NUMBER_OF.items():
        (first, last), *_ = kind_span(kind).spans
        if kind in distinguished:
            yield from cropped(seen, first, last)
        else:
            yield first, value_at(seen, Kind.OTHER << 16 | number)
    yield from _numbers(seen)


def as_wanted(wanted: Steps) -> Steps:
    """A diagram over all service keys, without impossible keys: a kind's number as another protocol."""
    first, _ = kind_span(Kind.OTHER).spans[0]
    return joined([*cropped(wanted, 0, first - 1), *_numbers(wanted)])


def _numbers(steps: Steps) -> Iterator[Piece]:
    """The protocols without ports, by their numbers."""
    (at, end), *_ = kind_span(Kind.OTHER).spans
    for number in sorted(NUMBER_OF.values()):
        of_kind = Kind.OTHER << 16 | number
        yield from cropped(steps, at, of_kind - 1)
        yield of_kind, _NEVER
        at = of_kind + 1
    yield from cropped(steps, at, end)
