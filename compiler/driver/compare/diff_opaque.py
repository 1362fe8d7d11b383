# SPDX-License-Identifier: Apache-2.0
"""Diff with opaque rules: the certain changes, and the possible changes.

Each case (`verifier/symbolic/opaque.py`) is compared as a policy set of its own. If no case differs, the
sides are equal. The certain changes are found between the bounds of the two sides.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from policyc.compiler.driver.compile.compile import Read
from policyc.ir.bounds import opaque_rules
from policyc.ir.policy import PolicySet
from policyc.ir.results.common import Evidence, OpaquePart
from policyc.ir.results.diff import (
    Counts,
    Difference,
    DifferenceKind,
    DiffOutcome,
    DiffResult,
    counts_of,
)
from policyc.ir.results.opaque import blamed_for, part_of, words_of
from policyc.ir.results.regions import EndGroups
from policyc.ir.results.turns import first_in_turns, subject_of
from policyc.ir.semantics import verdict
from policyc.verifier.symbolic.differences import (
    kind_between,
    outcome_of,
)
from policyc.verifier.symbolic.opaque import (
    Case,
    Cases,
    comparison,
)

Compare = Callable[[Read, Read], DiffResult]
"""A comparison of two sides without opaque rules, with every difference."""


def diff_opaque(
    old: Read, new: Read, compare: Compare, ignore_effects: bool, limit: int | None
) -> DiffResult:
    """The certain and the possible differences of two sides with opaque rules.

    `limit`: the number of regions of each kind that are shown; the rest is counted.
    """
    cases = cases_of(old, new)
    results = [compare(*_sides(old, new, case)) for case in cases.possible]
    parts = opaque_parts(old.policies.policies, new.policies.policies)
    gave_up = next((each for each in results if each.outcome is DiffOutcome.UNDECIDED), None)
    if gave_up is not None:
        return replace(gave_up, differences=(), opaque=parts)
    found = list(_found(cases.possible, results))
    if not found:
        return replace(results[0], evidence=_evidence(results), opaque=parts)
    surely = [compare(*_sides(old, new, case)) for case in cases.certain]
    certain = list(_found(cases.certain, surely, only_ways=True))
    judge = _Judge(cases, ignore_effects)
    certain += (each for each in found if judge.is_certain_otherwise(each))
    certain = _unique(certain)
    possible = [each for each in _unique(found) if not judge.is_certain(each)]
    sides = (old.policies.policies, new.policies.policies)

    return replace(
        results[0],
        outcome=_outcome(certain, possible),
        evidence=_evidence([*results, *surely]),
        differences=tuple(map(_unnumbered, first_in_turns(certain, subject_of, limit))),
        counts=_counts(certain, [*results, *surely]),
        possible=tuple(map(_unnumbered, first_in_turns(possible, subject_of, limit))),
        groups=(),
        possible_counts=_counts(possible, results),
        undecided=_why(sides, possible) if possible else "",
        opaque=parts,
    )


def _unnumbered(difference: Difference) -> Difference:
    """Without numbers of groups, which another comparison has given."""
    parts = difference.parts
    is_numbered = parts is not None and isinstance(parts.src, EndGroups)
    return replace(difference, parts=None) if is_numbered else difference


def cases_of(old: Read, new: Read) -> Cases:
    """The cases of a comparison of two sides."""
    sides = old.policies.policies, new.policies.policies
    return comparison(*sides, same_ends=old.cluster is new.cluster)


def opaque_parts(old: PolicySet, new: PolicySet) -> tuple[OpaquePart, ...]:
    """The undecidable requirements of both sides."""
    return (*_parts("OLD", old), *_parts("NEW", new))


def _parts(side: str, policies: PolicySet) -> Iterator[OpaquePart]:
    for each in opaque_rules(policies):
        yield part_of(each, side)


def _sides(old: Read, new: Read, case: Case) -> tuple[Read, Read]:
    return with_policies(old, case.before), with_policies(new, case.after)


def with_policies(read: Read, policies: PolicySet) -> Read:
    """The input with other policies in place of its own."""
    return replace(read, policies=replace(read.policies, policies=policies))


def _found(
    cases: Sequence[Case], results: Iterable[DiffResult], only_ways: bool = False
) -> Iterator[Difference]:
    """The differences that count in each case; `only_ways`: only opened or closed flows."""
    for case, result in zip(cases, results, strict=True):
        ways = {DifferenceKind.WIDENED: case.opens, DifferenceKind.NARROWED: case.closes}
        for each in result.differences:
            if ways.get(each.kind, not only_ways):
                yield each


def _unique(differences: Iterable[Difference]) -> list[Difference]:
    found: dict[str, Difference] = {}
    for each in differences:
        found.setdefault(each.key, each)
    order = list(DifferenceKind)
    return sorted(found.values(), key=lambda each: order.index(each.kind))


def _counts(found: Sequence[Difference], results: Sequence[DiffResult]) -> Counts:
    """The numbers of each kind; lower bounds if some case was not counted completely."""
    cut = {n.kind for each in results for n in each.counts if not n.is_complete}
    return counts_of((each.kind for each in found), cut)


def _outcome(certain: Sequence[Difference], possible: Sequence[Difference]) -> DiffOutcome:
    """The outcome of the certain differences; undecided if there are none and some flow may change."""
    sure, may_be = (outcome_of({each.kind for each in found}) for found in (certain, possible))
    is_open = sure is DiffOutcome.EQUAL and may_be is not DiffOutcome.EQUAL
    return DiffOutcome.UNDECIDED if is_open else sure


def _evidence(results: Sequence[DiffResult]) -> Evidence:
    """The evidence of all cases together."""
    asked = max((each.evidence for each in results), key=lambda evidence: evidence.queries)
    return replace(
        asked,
        queries=sum(each.evidence.queries for each in results),
        replayed_witnesses=sum(each.evidence.replayed_witnesses for each in results),
    )


class _Judge:
    """Checks with the reference semantics whether a witness differs under every reading."""

    def __init__(self, cases: Cases, ignore_effects: bool) -> None:
        self._cases, self._ignore_effects = cases, ignore_effects

    def is_certain(self, difference: Difference) -> bool:
        """Under every reading of the opaque rules, the witness changes in this way."""
        ways = (DifferenceKind.WIDENED, DifferenceKind.NARROWED)
        if difference.kind in ways:
            return self._shows(difference, self._cases.certain[ways.index(difference.kind)])
        return all(self._shows(difference, case) for case in self._cases.possible)

    def is_certain_otherwise(self, difference: Difference) -> bool:
        """The change is certain, and neither opens nor closes a flow."""
        is_way = difference.kind in (DifferenceKind.WIDENED, DifferenceKind.NARROWED)
        return not is_way and self.is_certain(difference)

    def _shows(self, difference: Difference, case: Case) -> bool:
        flow = difference.witness.flow
        one, other = verdict(case.before, flow), verdict(case.after, flow)
        return kind_between(one, other, self._ignore_effects) is difference.kind


# Reasons why something is undecided.


def _why(sides: tuple[PolicySet, PolicySet], possible: Sequence[Difference]) -> str:
    """The opaque rules that may decide the witnesses, in words."""
    blamed: dict[str, None] = {}
    for difference in possible:
        for policies in sides:
            for rule in blamed_for(policies, difference.witness.flow):
                blamed[words_of(part_of(rule))] = None
    everything = (words_of(part) for part in opaque_parts(*sides))
    return "; ".join(blamed or dict.fromkeys(everything))
