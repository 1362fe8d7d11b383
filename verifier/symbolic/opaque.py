# SPDX-License-Identifier: Apache-2.0
"""Opaque rules in comparisons and checks: the cases that together cover every reading of them.

An opaque rule matches an unknown set of flows between `certain` and `widest`. Two sides *share* an
opaque rule if its text, its subject and its precedence are the same: then it matches the same flows on
both sides. So a flow is compared with a shared rule taken as `certain` on both sides, and as `widest` on
both. All other opaque rules are taken as the bounds of `ir/bounds.py`.

Each shared rule may or may not match a flow, independently of the others. Rules of one *bundle* are
always taken alike where that is exact: the rules never apply to the same end, or it matters only whether
any of them matches.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from policyc.ir.bounds import (
    OpaqueRule,
    RulePlace,
    Taken,
    chosen,
    lower_bound,
    lower_rule,
    opaque_rules,
    rule_action,
    taken_rule,
    upper_bound,
    upper_rule,
)
from policyc.ir.passes.cancel import (
    aligned,
    changed_policies,
    is_unordered,
    may_overlap,
    skeleton,
)
from policyc.ir.policy import NEVER, Direction, PolicySet, Rule

MOST_BUNDLES = 4
"""The limit of shared bundles: each doubles the cases, and a case is a whole comparison."""
Bound = Callable[[Rule], Rule]


@dataclass(frozen=True, slots=True)
class Case:
    """Both sides of a comparison, without opaque rules.

    `opens`: opened flows (NEW allows, OLD does not) count as differences. `closes`: closed flows (OLD
    allows, NEW does not) count.
    """

    before: PolicySet
    after: PolicySet
    opens: bool = True
    closes: bool = True


@dataclass(frozen=True, slots=True)
class Cases:
    """A comparison of two policy sets with opaque rules.

    The sides are certainly equal if no case of `possible` has a difference. A flow that a case of
    `certain` opens or closes is opened or closed under every reading of the opaque rules.
    """

    possible: tuple[Case, ...]
    certain: tuple[Case, ...]


@dataclass
class _Bundle:
    """Rules of one direction that are taken alike."""

    direction: Direction
    members: list[OpaqueRule] = field(default_factory=list)

    def meets(self, rule: OpaqueRule) -> bool:
        """Whether the rule and one of these may apply to the same end."""
        return any(_may_meet(each, rule) for each in self.members)


def comparison(before: PolicySet, after: PolicySet, *, same_ends: bool = True) -> Cases:
    """The cases of a comparison; one if no rule is opaque.

    `same_ends`: both sides have the same pods and nodes, so equal policies never differ.
    """
    if same_ends and not changed_policies(before, after):
        return Cases((Case(lower_bound(before), lower_bound(after)),), ())
    shared = _Shared.of(before, after)
    bundles = _bundles([one for one, _ in shared.rules], shared.unordered)
    partner = {one.place: other.place for one, other in shared.rules}
    of_before = _numbers(bundles)
    of_after = {partner[place]: number for place, number in of_before.items()}
    possible: list[Case] = []
    for taken in product(Taken, repeat=len(bundles)):
        possible += _bounded(before, after, (of_before, of_after), taken)
    return Cases(
        tuple(possible),
        (
            Case(upper_bound(before), lower_bound(after), closes=False),
            Case(lower_bound(before), upper_bound(after), opens=False),
        ),
    )


def readings(policies: PolicySet) -> list[PolicySet] | None:
    """The policies under every reading of their opaque rules; None if these are too many."""
    found = list(opaque_rules(policies))
    unordered = {at for at, tier in enumerate(policies.tiers) if is_unordered(tier)}
    bundles = _bundles(found, unordered)
    numbers = _numbers(bundles)
    if len(numbers) < len(found):
        return None
    return [
        _read(policies, numbers, taken, lower_rule) for taken in product(Taken, repeat=len(bundles))
    ]


def _read(
    policies: PolicySet, numbers: Mapping[RulePlace, int], taken: Sequence[Taken], bound: Bound
) -> PolicySet:
    """The rules of bundles as they are taken, the others at their bound."""

    def choose(place: RulePlace, rule: Rule) -> Rule:
        number = numbers.get(place)
        return bound(rule) if number is None else taken_rule(rule, taken[number])

    return chosen(policies, choose)


def _bounded(
    before: PolicySet,
    after: PolicySet,
    bundles: tuple[Mapping[RulePlace, int], Mapping[RulePlace, int]],
    taken: Sequence[Taken],
) -> Iterator[Case]:
    """The shared rules as taken, the others at their bounds: the most that may open, or close."""
    lower = (
        _read(before, bundles[0], taken, lower_rule),
        _read(after, bundles[1], taken, lower_rule),
    )
    upper = (
        _read(before, bundles[0], taken, upper_rule),
        _read(after, bundles[1], taken, upper_rule),
    )
    if lower == upper:
        yield Case(*lower)
    else:
        yield Case(lower[0], upper[1], closes=False)
        yield Case(upper[0], lower[1], opens=False)


def _numbers(bundles: Sequence[_Bundle]) -> dict[RulePlace, int]:
    """The number of each rule's bundle."""
    return {rule.place: at for at, bundle in enumerate(bundles) for rule in bundle.members}


# The shared rules of both sides.


@dataclass(frozen=True, slots=True)
class _Shared:
    """Opaque rules with the same text, subject and precedence on both sides.

    `unordered` are the tiers of the first side in which order does not matter, on either side.
    """

    rules: tuple[tuple[OpaqueRule, OpaqueRule], ...]
    unordered: frozenset[int]

    @staticmethod
    def of(before: PolicySet, after: PolicySet) -> "_Shared":
        """The shared rules of two sides."""
        ours, theirs = list(opaque_rules(before)), list(opaque_rules(after))
        found: list[tuple[OpaqueRule, OpaqueRule]] = []
        unordered = set()
        tiers = aligned([skeleton(t) for t in before.tiers], [skeleton(t) for t in after.tiers])
        for i, j in tiers:
            one = [rule for rule in ours if rule.place.tier == i]
            other = [rule for rule in theirs if rule.place.tier == j]
            if is_unordered(before.tiers[i]) and is_unordered(after.tiers[j]):
                unordered.add(i)
                found += _matched(one, other)
            else:
                pairs = aligned(list(map(_content, one)), list(map(_content, other)))
                found += ((one[a], other[b]) for a, b in pairs)
        return _Shared(tuple(found), frozenset(unordered))


def _matched(
    one: Sequence[OpaqueRule], other: Sequence[OpaqueRule]
) -> Iterator[tuple[OpaqueRule, OpaqueRule]]:
    """Pairs of equal rules where order does not matter."""
    left: dict[Hashable, list[OpaqueRule]] = {}
    for rule in other:
        left.setdefault(_content(rule), []).append(rule)
    for rule in one:
        same = left.get(_content(rule))
        if same:
            yield rule, same.pop(0)


def _content(rule: OpaqueRule) -> Hashable:
    """Everything that determines the flows that the rule matches, and its subjects."""
    policy = rule.policy
    return policy.subject, policy.hosts, rule.place.is_egress, rule.rule


# The rules that may be taken alike.


def _bundles(rules: Sequence[OpaqueRule], unordered: Collection[int]) -> list[_Bundle]:
    """The rules in few bundles, found by simple tests; rules beyond `MOST_BUNDLES` are in none.

    In a tier in which order does not matter, it counts only whether any of the allows matches, or any of
    the denies.
    """
    found: list[_Bundle] = []
    of_sort: dict[Hashable, _Bundle] = {}
    apart: list[_Bundle] = []
    for rule in rules:
        place = rule.place
        sort = place.tier, place.is_egress, rule_action(rule.rule)
        is_plain = place.tier in unordered
        bundle = of_sort.get(sort) if is_plain else _not_met(apart, rule)
        if bundle is None:
            if len(found) == MOST_BUNDLES:
                continue
            bundle = _Bundle(place.direction)
            found.append(bundle)
            if is_plain:
                of_sort[sort] = bundle
            else:
                apart.append(bundle)
        bundle.members.append(rule)
    return found


def _not_met(bundles: Iterable[_Bundle], rule: OpaqueRule) -> _Bundle | None:
    """A bundle whose rules never apply to an end to which this rule applies."""
    for bundle in bundles:
        if bundle.direction is rule.place.direction and not bundle.meets(rule):
            return bundle
    return None


def _may_meet(one: OpaqueRule, other: OpaqueRule) -> bool:
    if NEVER not in (one.policy.hosts, other.policy.hosts):
        return True
    return may_overlap(one.policy.subject, other.policy.subject)
