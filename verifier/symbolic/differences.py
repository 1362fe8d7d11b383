# SPDX-License-Identifier: Apache-2.0
"""The relation of two policy sets' verdicts on one connection, and the policies that decided."""

from collections.abc import Collection, Iterable, Iterator

from policyc.ir.describe_verdict import describe_verdict
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action, Direction, Limit
from policyc.ir.results.common import Place, Step
from policyc.ir.results.diff import DifferenceKind, DiffOutcome
from policyc.ir.results.places import places_of
from policyc.ir.semantics import EffectKind, EndVerdict, Verdict
from policyc.ir.services import ALL_SERVICES, Kind, kind_span

_NOT_OF = {4: kind_span(Kind.ICMPV6), 6: kind_span(Kind.ICMP)}
Said = tuple[Action, frozenset[tuple[EffectKind, Limit | None]]]
"""The outcome of an end, or a connection: the action, and the effects without their rules."""


def said(end: EndVerdict, ignore_effects: bool) -> Said:
    """An end's verdict, as far as it is compared."""
    if ignore_effects:
        return end.action, frozenset()
    limited = EffectKind.LIMIT
    effects = ((e.kind, e.by.rule.limit if e.kind is limited else None) for e in end.effects)
    return end.action, frozenset(effects)


def together(verdict: Verdict, ignore_effects: bool) -> Said:
    """The outcome of a connection; a flow that its source's end denies never reaches the other end."""
    egress, ingress = said(verdict.egress, ignore_effects), said(verdict.ingress, ignore_effects)
    if egress[0].is_deny:
        return egress
    return ingress[0], egress[1] | ingress[1]


def kind_between(one: Verdict, other: Verdict, ignore_effects: bool) -> DifferenceKind | None:
    """The kind of change from the first verdict to the second; None if both ends are equal."""
    before, after = (together(v, ignore_effects) for v in (one, other))
    if before != after:
        if before[0].is_deny == after[0].is_deny:
            return DifferenceKind.CHANGED
        return DifferenceKind.NARROWED if after[0].is_deny else DifferenceKind.WIDENED
    differs = any(
        said(end_of(one, d), ignore_effects) != said(end_of(other, d), ignore_effects)
        for d in Direction
    )
    return DifferenceKind.LATENT if differs else None


def plain_services(keys: IntervalSet, families: Collection[int]) -> IntervalSet:
    """Service keys of flows of some families in plain form: without the other family's ICMP.

    All services of a family become all services.
    """
    absent = [_NOT_OF[family] for family in _NOT_OF if set(families) == {family}]
    for other in absent:
        return ALL_SERVICES if keys | other == ALL_SERVICES else keys - other
    return keys


def outcome_of(kinds: set[DifferenceKind]) -> DiffOutcome:
    """The outcome if regions of these kinds were found; a latent region changes no flow."""
    if {DifferenceKind.WIDENED, DifferenceKind.NARROWED} <= kinds:
        return DiffOutcome.BOTH
    if DifferenceKind.WIDENED in kinds:
        return DiffOutcome.WIDENED
    if DifferenceKind.NARROWED in kinds:
        return DiffOutcome.NARROWED
    return DiffOutcome.CHANGED if DifferenceKind.CHANGED in kinds else DiffOutcome.EQUAL


def end_of(verdict: Verdict, direction: Direction) -> EndVerdict:
    """The verdict of one end."""
    return verdict.ingress if direction is Direction.INGRESS else verdict.egress


def ends_that_differ(one: Verdict, other: Verdict, ignore_effects: bool) -> list[Direction]:
    """The ends at which two verdicts differ."""
    return [
        d
        for d in Direction
        if said(end_of(one, d), ignore_effects) != said(end_of(other, d), ignore_effects)
    ]


def deciders(verdict: Verdict, ends: Iterable[Direction]) -> tuple[Place, ...]:
    """The rules, or the policies that isolate, that decided at some ends."""
    found: dict[Place, None] = {}
    for direction in ends:
        found |= dict.fromkeys(places_of(end_of(verdict, direction).decider))
    return tuple(found)


def steps(label: str, verdict: Verdict) -> Iterator[Step]:
    """The verdict of both ends, source first, as steps of a witness."""
    for direction in (Direction.EGRESS, Direction.INGRESS):
        end = end_of(verdict, direction)
        places = places_of(end.decider)
        text = f"{label}: {direction.value} {describe_verdict(end)}"
        yield Step(places[0] if places else None, text)
