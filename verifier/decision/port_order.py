# SPDX-License-Identifier: Apache-2.0
"""Renaming of a question's ports by their order, so that equal questions about other ports are one.

A question reads three things of its free service key: its kind; whether it is at or above certain keys,
the *cuts* (`lo` and `hi + 1` of each range, the first key of each step of a diagram); and, for a key
that is not a port, the ICMP type and code or the protocol number. So only the order of the ports
matters. The cuts among TCP ports become 1, 2, 3 and so on, and likewise for UDP and for SCTP. The first
key of each kind stays, and so do all keys above SCTP.

Why the answer stays the same. The renaming is strictly increasing on the cuts, and no cut leaves its
kind. A key that is not a port corresponds to the same key in the other question. A port corresponds to
the renamed last cut at or below it (or to the first key of its kind). The two keys are of one kind and
at or above the same cuts, so every comparison has the same result. With the same truth values for the
other free variables (selectors, blocks, nodes, named ports), one key violates its question if and only
if the other key does.

The cuts of both sides are one set, and both sides are renamed by it. A table that is off by one port has
a cut that the policies do not have, and keeps it. No two cuts become one, and no ranges are computed: Z3
compares the policies and the tables as before.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from policyc.ir.decision import Diagram
from policyc.ir.errors import InternalError
from policyc.ir.services import ALL_SERVICES, Kind
from policyc.verifier.decision.cell_question import CellQuestion
from policyc.verifier.decision.rule_question import RuleQuestion
from policyc.verifier.decision.service_questions import (
    AskedWords,
    PortWords,
)
from policyc.verifier.smt.terms import KIND_OF_PROTOCOL

KIND_SIZE = 1 << 16
"""Keys of one kind."""
NOT_PORTS = Kind.ICMP * KIND_SIZE
"""The first key that is not a port; no port is above it."""
END = ALL_SERVICES.spans[-1][1] + 1
"""The key after the last."""
_FIRST_KEY = {p.value: kind * KIND_SIZE for p, kind in KIND_OF_PROTOCOL.items()}

_NAMES_AT_ONCE = 256
"""Sets of cuts whose names are cached: each may be long, and equal sets come in sequence."""

Places = dict[int, int]
"""The new name of each cut of a question whose ports are renamed."""
ServiceQuestion = CellQuestion | RuleQuestion
"""The questions that have a service key."""


def in_order(question: ServiceQuestion) -> tuple[ServiceQuestion, Places]:
    """The question with its ports renamed, and the renaming."""
    return PortOrder().renamed(question)


class PortOrder:
    """Renames the ports of many questions; common parts are computed once."""

    def __init__(self) -> None:
        self._names = lru_cache(_NAMES_AT_ONCE)(_Names)
        self._cuts: dict[AskedWords, tuple[int, ...]] = {}

    def renamed(self, question: ServiceQuestion) -> tuple[ServiceQuestion, Places]:
        """The question with its ports renamed, and the renaming."""
        match question:
            case CellQuestion():
                return self._cell(question)
            case RuleQuestion():
                return _rule(question)
            case _:
                assert_never(question)

    def _cell(self, question: CellQuestion) -> tuple[CellQuestion, Places]:
        cuts = {lo for diagram in (question.action, question.rule) for lo, _ in diagram}
        for _, rules in question.tiers:
            for asked, _, _ in rules:
                cuts.update(self._cuts_of(asked))
        names = self._names(tuple(sorted(cuts)))
        tiers = tuple(
            (default, tuple([(names.asked(asked), does, rule) for asked, does, rule in rules]))
            for default, rules in question.tiers
        )
        action, rule = (_diagram(each, names.places) for each in (question.action, question.rule))
        return CellQuestion(tiers, action, rule), names.places

    def _cuts_of(self, asked: AskedWords) -> tuple[int, ...]:
        found = self._cuts.get(asked)
        if found is None:
            found = tuple(cut for entries in asked for each in entries for cut in _cuts(each))
            self._cuts[asked] = found
        return found


class _Names:
    """The new names of the ports of questions with these cuts, and the rules' renamed services."""

    def __init__(self, cuts: tuple[int, ...]) -> None:
        self.places = places_of(cuts)
        self._asked: dict[AskedWords, AskedWords] = {}

    def asked(self, words: AskedWords) -> AskedWords:
        found = self._asked.get(words)
        if found is None:
            found = self._asked[words] = _asked(words, self.places)
        return found


def places_of(cuts: Collection[int]) -> Places:
    """Each cut of a port gets the lowest free place in its kind, never above its own."""
    if cuts and not 0 <= min(cuts) <= max(cuts) <= END:
        raise InternalError("a question is about services that there are not")
    places: Places = {}
    last = 0
    for cut in sorted(cuts):
        number = cut % KIND_SIZE
        last = max(last, cut - number) + 1 if number and cut < NOT_PORTS else cut
        places[cut] = last
    return places


def original(key: int, places: Places) -> int:
    """The key of the question that corresponds to a key of the renamed one."""
    if key >= NOT_PORTS:
        return key
    first = key - key % KIND_SIZE
    return max((first, *(cut for cut, place in places.items() if place <= key)))


def _rule(question: RuleQuestion) -> tuple[RuleQuestion, Places]:
    cuts: set[int] = set()
    for entries in (*question.asked, question.table_services, question.table_excepts):
        cuts.update(*map(_cuts, entries))
    places = places_of(cuts)
    renamed = replace(
        question,
        asked=_asked(question.asked, places),
        table_services=_entries(question.table_services, places),
        table_excepts=_entries(question.table_excepts, places),
    )
    return renamed, places


def _diagram(diagram: Diagram, places: Places) -> Diagram:
    return tuple([(places[lo], leaf) for lo, leaf in diagram])


def _asked(words: AskedWords, places: Places) -> AskedWords:
    return _entries(words[0], places), _entries(words[1], places)


def _entries(words: tuple[PortWords, ...], places: Places) -> tuple[PortWords, ...]:
    return tuple([_entry(each, places) for each in words])


def _cuts(words: PortWords) -> tuple[int, ...]:
    """The keys where the services of a rule begin, and where they have ended."""
    match words:
        case ("range", protocol, lo, hi):
            if not (0 <= lo < KIND_SIZE and 0 <= hi < KIND_SIZE):
                raise InternalError(f"ports {lo}-{hi} got past the front end")
            first = _FIRST_KEY[protocol]
            return first + lo, first + hi + 1
        case ("keys", lo, hi):
            return lo, hi + 1
        case _:
            return ()


def _entry(words: PortWords, places: Places) -> PortWords:
    """An entry with its ports renamed. Unknown words could hold a port: InternalError."""
    match words:
        case ("range", protocol, lo, hi):
            first = _FIRST_KEY[protocol]
            return "range", protocol, places[first + lo] - first, places[first + hi + 1] - 1 - first
        case ("keys", lo, hi):
            return "keys", places[lo], places[hi + 1] - 1
        case ("any" | "all" | "every" | "icmp" | "protocol" | "free", *_):
            return words
        case _:
            raise InternalError(f"{words} are no port entry")
