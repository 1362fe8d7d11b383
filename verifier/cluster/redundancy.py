# SPDX-License-Identifier: Apache-2.0
"""Rules that change nothing: dead, shadowed by earlier rules, or redundant beside the others.

A rule is *dead* if it matches no flow, *shadowed* if it never decides, and *redundant* if other rules
and defaults would decide its flows in the same way without it. Each row and segment is read once
forwards (the flows that reach a rule) and once backwards (the decision those flows would get later).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from policyc.ir.bits import union
from policyc.ir.policy import Action, Direction, Policy, PolicySet
from policyc.ir.services import Kind
from policyc.verifier.cluster.outcomes import (
    Active,
    Outcome,
    Segment,
    active_in,
    add,
    segments_of,
)
from policyc.verifier.cluster.own_node import OwnNodeComparison, binds_own_node
from policyc.verifier.cluster.rows import Matching, Row, RowTier, RuleId, Rules
from policyc.verifier.cluster.space import Space


class Uselessness(Enum):
    """The reason why a rule changes nothing."""

    DEAD = "dead"
    SHADOWED = "shadowed"
    REDUNDANT = "redundant"


@dataclass(frozen=True, slots=True)
class Useless:
    """A rule that may be removed, and the rules and isolating policies that decide its flows instead."""

    rule: RuleId
    why: Uselessness
    instead: tuple[RuleId, ...] = ()
    defaults: tuple[Policy, ...] = ()


Key = tuple[int, bool, int]
"""(id of the policy, whether it is for ingress, index) of a rule."""


def key_of(rule: RuleId) -> Key:
    """The identity of a rule."""
    return id(rule.policy), rule.direction is Direction.INGRESS, rule.index


@dataclass
class Redundancy:
    """The rules of one policy set over one space. `ignore_effects`: only actions count."""

    space: Space
    policies: PolicySet
    ignore_effects: bool = False
    impossible: int = 0
    """Columns that no flow can have."""
    rows: dict[Direction, list[tuple[Row, int]]] = field(init=False)
    """Distinct rows, with the columns that flows of their classes can have as peers."""
    classes_of: dict[int, list[int]] = field(init=False)
    """The classes of each row, by its id."""

    def __post_init__(self) -> None:
        rules = Rules(self.space, self.space.after, {})
        self.rows, self.classes_of = {}, {}
        for direction in Direction:
            families: dict[int, frozenset[int]] = {}
            distinct: dict[int, Row] = {}
            for at, row in enumerate(rules.rows(self.policies, direction)):
                distinct[id(row)] = row
                self.classes_of.setdefault(id(row), []).append(at)
                mine = self.space.classes[at].families
                families[id(row)] = families.get(id(row), frozenset()) | mine
            self.rows[direction] = [
                (row, union(self.space.of_family[f] for f in families[key]) & ~self.impossible)
                for key, row in distinct.items()
                if row.evaluated
            ]
        self._binds_own_node = binds_own_node(self.policies)
        self._matched: set[Key] = set()
        self._deciding: set[Key] = set()
        self._needed: set[Key] = set()
        self._where: dict[Key, list[tuple[Row, int]]] = {}
        self._known: dict[int, list[tuple[Active, int]]] = {}
        self._becomes: dict[object, Outcome] = {}
        self._places: dict[int, dict[Key, list[tuple[int, int]]]] = {}

    def useless(self) -> list[Useless]:
        """Every rule that may be removed on its own, in canonical order."""
        for direction in Direction:
            for row, real in self.rows[direction]:
                self._examine(row, real)
        return [
            self._explained(rule)
            for rule in self.all_rules()
            if key_of(rule) not in self._needed and not self._is_for_own_node({key_of(rule)})
        ]

    def _is_for_own_node(self, gone: set[Key]) -> bool:
        """Whether without these rules some flow of a node to its own pods has another verdict."""
        if not self._binds_own_node:
            return False
        after = self._without(gone)
        found = OwnNodeComparison(self.space, self.policies, after, self.ignore_effects)
        return bool(found.changes())

    def all_rules(self) -> Iterator[RuleId]:
        """Every rule, tier by tier."""
        for tier, each in enumerate(self.policies.tiers):
            for policy in each.policies:
                for direction in Direction:
                    for index in range(len(policy.rules(direction))):
                        yield RuleId(tier, policy, direction, index)

    def _examine(self, row: Row, real: int) -> None:
        for tier in row.tiers:
            for rule in tier.rules:
                self._where.setdefault(key_of(rule), []).append((row, real))
        for active, mine in self._situations(row, real):
            self._examine_segment(row, active, mine)

    def _situations(self, row: Row, real: int) -> list[tuple[Active, int]]:
        """The active matchings of each distinct segment, with the columns that its flows can have."""
        if id(row) not in self._known:
            distinct: dict[object, tuple[Active, int]] = {}
            for active in active_in(row, segments_of((row,))):
                mine = real & self._of_segment(active.segment)
                if not active.is_failsafe:
                    distinct.setdefault((active.tiers, mine), (active, mine))
            self._known[id(row)] = list(distinct.values())
        return self._known[id(row)]

    def _situations_with(self, row: Row, real: int, key: Key) -> Iterator[tuple[Active, int]]:
        """The situations in which a rule is active: in others it makes no difference."""
        places = self._places_in(row)[key]
        for active, mine in self._situations(row, real):
            if any(index in active.tiers[tier] for tier, index in places):
                yield active, mine

    def _places_in(self, row: Row) -> dict[Key, list[tuple[int, int]]]:
        """(tier, index) of each rule among the matchings of a row."""
        if id(row) not in self._places:
            places: dict[Key, list[tuple[int, int]]] = {}
            for at, tier in enumerate(row.tiers):
                for index, rule in enumerate(tier.rules):
                    places.setdefault(key_of(rule), []).append((at, index))
            self._places[id(row)] = places
        return self._places[id(row)]

    def _of_segment(self, segment: Segment) -> int:
        """ICMP is of IPv4 and ICMPv6 of IPv6; all other services are of both."""
        for kind, family in ((Kind.ICMP, 4), (Kind.ICMPV6, 6)):
            if segment.lo >> 16 == kind == segment.hi >> 16:
                return self.space.of_family[family]
        return self.space.all

    def _examine_segment(self, row: Row, active: Active, real: int) -> None:
        """Mark the rules that match, decide, and are needed, given these active matchings."""
        after = self._backwards(row, active)
        waiting = {0: real}
        for tier, indices, outcomes in zip(row.tiers, active.tiers, after, strict=True):
            passed: dict[int, int] = {}
            for place, index in enumerate(indices):
                matching, key = tier.matchings[index], key_of(tier.rules[index])
                if matching.columns & real:
                    self._matched.add(key)
                hits = [
                    (e, c & matching.columns) for e, c in waiting.items() if c & matching.columns
                ]
                if hits:
                    self._deciding.add(key)
                if key not in self._needed and any(
                    self._differs(outcomes[place], outcomes[place + 1], effects, columns)
                    for effects, columns in hits
                ):
                    self._needed.add(key)
                self._advance(waiting, passed, matching, hits)
            if tier.unmatched is None:
                for effects, columns in waiting.items():
                    passed[effects] = passed.get(effects, 0) | columns
            waiting = passed
            if not waiting:
                break

    def _advance(
        self,
        waiting: dict[int, int],
        passed: dict[int, int],
        matching: Matching,
        hits: list[tuple[int, int]],
    ) -> None:
        for effects, columns in hits:
            noted = effects | self._effects(matching)
            rest = waiting[effects] & ~columns
            if rest:
                waiting[effects] = rest
            else:
                del waiting[effects]
            if matching.action.goes_on:
                waiting[noted] = waiting.get(noted, 0) | columns
            elif matching.action is Action.PASS:
                passed[noted] = passed.get(noted, 0) | columns

    def _effects(self, matching: Matching) -> int:
        return 0 if self.ignore_effects else matching.effects

    def _differs(self, one: Outcome, other: Outcome, effects: int, columns: int) -> bool:
        """Two outcomes differ on some columns, after these effects."""
        if one is other:
            return False
        mine, theirs = (_noted(outcome, effects, columns) for outcome in (one, other))
        return mine != theirs

    def _backwards(self, row: Row, active: Active) -> list[list[Outcome]]:
        """For each tier and position among its active matchings: the decision of flows that reach it."""
        everything = self.space.all
        following: Outcome = {(row.fallback, 0): everything}
        found: list[list[Outcome]] = []
        for tier, indices in zip(reversed(row.tiers), reversed(active.tiers), strict=True):
            end = following if tier.unmatched is None else {(tier.unmatched, 0): everything}
            outcomes = [end]
            for index in reversed(indices):
                matching = tier.matchings[index]
                outcomes.append(self._before(matching, outcomes[-1], following))
            outcomes.reverse()
            found.append(outcomes)
            following = outcomes[0]
        found.reverse()
        return found

    def _before(self, matching: Matching, otherwise: Outcome, following: Outcome) -> Outcome:
        """The decision of flows that reach a matching, if its tier continues as `otherwise`."""
        out: Outcome = {}
        for key, columns in otherwise.items():
            if rest := columns & ~matching.columns:
                out[key] = rest
        noted = self._effects(matching)
        if not matching.action.goes_on and matching.action is not Action.PASS:
            add(out, (matching.action, noted), matching.columns)
            return out
        then = following if matching.action is Action.PASS else otherwise
        for (action, effects), columns in then.items():
            if hit := columns & matching.columns:
                add(out, (action, effects | noted), hit)
        return out

    def _explained(self, rule: RuleId) -> Useless:
        key = key_of(rule)
        if key not in self._matched:
            return Useless(rule, Uselessness.DEAD)
        why = Uselessness.REDUNDANT if key in self._deciding else Uselessness.SHADOWED
        instead: dict[Key, RuleId] = {}
        defaults: dict[int, Policy] = {}
        for row, real in self._where.get(key, ()):
            for active, mine in self._situations_with(row, real, key):
                self._stand_ins(row, active, mine, key, instead, defaults)
        return Useless(rule, why, tuple(instead.values()), tuple(defaults.values()))

    def _stand_ins(
        self,
        row: Row,
        active: Active,
        real: int,
        key: Key,
        instead: dict[Key, RuleId],
        defaults: dict[int, Policy],
    ) -> None:
        """The rules that decide the rule's flows without it."""
        mine = self._places_in(row)[key]
        active_ones = (row.tiers[t].matchings[i] for t, i in mine if i in active.tiers[t])
        left = real & union(matching.columns for matching in active_ones)
        for tier, indices in zip(row.tiers, active.tiers, strict=True):
            passed = 0
            for index in indices:
                matching, rule = tier.matchings[index], tier.rules[index]
                hit = left & matching.columns
                if not hit or key_of(rule) == key or matching.action.goes_on:
                    continue
                instead.setdefault(key_of(rule), rule)
                left &= ~hit
                passed |= hit if matching.action is Action.PASS else 0
            if left and tier.unmatched is not None:
                defaults |= {id(policy): policy for policy in tier.isolating}
                left = 0
            left |= passed

    def together(self, candidates: Iterable[Useless]) -> list[RuleId]:
        """A maximal set of rules that may all be removed at once: the narrowest are removed first."""
        waiting = sorted((u.rule for u in candidates), key=lambda rule: self._reach(rule))
        removed: set[Key] = set()
        out: list[RuleId] = []
        while True:
            kept = []
            for rule in waiting:
                if self._may_go(rule, removed):
                    removed.add(key_of(rule))
                    out.append(rule)
                else:
                    kept.append(rule)
            if len(kept) == len(waiting):
                return out
            waiting = kept

    def _reach(self, rule: RuleId) -> tuple[int, int]:
        """The size of a rule's matches: columns, then services."""
        found = [
            (m.columns.bit_count(), m.services.size)
            for row, _ in self._where.get(key_of(rule), ())[:1]
            for tier in row.tiers
            for m, other in zip(tier.matchings, tier.rules, strict=True)
            if key_of(other) == key_of(rule)
        ]
        return max(found, default=(0, 0))

    def _may_go(self, rule: RuleId, removed: set[Key]) -> bool:
        key = key_of(rule)
        gone = {*removed, key}
        return all(
            self._is_same_without(row, active, mine, gone)
            for row, real in self._where.get(key, ())
            for active, mine in self._situations_with(row, real, key)
        ) and not self._is_for_own_node(gone)

    def _is_same_without(self, row: Row, active: Active, real: int, gone: set[Key]) -> bool:
        place = (id(row), active.tiers, real)
        if place not in self._becomes:
            self._becomes[place] = _noted(self._backwards(row, active)[0][0], 0, real)
        less = self._backwards(row, _without(row, active, gone))
        return _noted(less[0][0], 0, real) == self._becomes[place]

    def without(self, gone: Iterable[RuleId]) -> PolicySet:
        """The policies without some rules; isolation stays as it is."""
        return self._without(set(map(key_of, gone)))

    def _without(self, keys: set[Key]) -> PolicySet:
        return PolicySet(
            tuple(
                replace(tier, policies=tuple(_trimmed(p, keys) for p in tier.policies))
                for tier in self.policies.tiers
            )
        )


def _noted(outcome: Outcome, effects: int, columns: int) -> Outcome:
    """An outcome after some effects, on some columns."""
    out: Outcome = {}
    for (action, more), mine in outcome.items():
        if hit := mine & columns:
            add(out, (action, more | effects), hit)
    return out


def _without(row: Row, active: Active, gone: set[Key]) -> Active:
    def kept(tier: RowTier, indices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i for i in indices if key_of(tier.rules[i]) not in gone)

    tiers = tuple(kept(t, i) for t, i in zip(row.tiers, active.tiers, strict=True))
    return Active(active.segment, tiers, active.is_failsafe)


def _trimmed(policy: Policy, gone: set[Key]) -> Policy:
    ingress, egress = (
        tuple(
            r
            for i, r in enumerate(policy.rules(d))
            if (id(policy), d is Direction.INGRESS, i) not in gone
        )
        for d in (Direction.INGRESS, Direction.EGRESS)
    )
    return replace(policy, ingress=ingress, egress=egress)
