# SPDX-License-Identifier: Apache-2.0
"""Rules that another rule covers: proved by comparing what both say, without a solver.

Rule `b` covers rule `a` if `b` matches every flow that `a` matches, at every end that the policy of `a`
selects. Three lemmas, for rules of one tier:

- If `b` decides and precedes `a`, no flow gets as far as `a`. So all rules that are covered so can be
  removed together: none of them is the first to match a flow.
- In a tier where order has no effect (`is_unordered`), a rule with the same action changes nothing
  beside a rule that covers it and stays.
- A rule changes nothing if the later rules that stay and may match its flows have its action, up to one
  that covers it or up to the end of the tier, where the default has its outcome.

Each holds for a part of a rule, too: for each of its peers and ports another lemma may do. The
comparison is sound and not complete: a solver decides the other rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from policyc.ir.bounds import RulePlace
from policyc.ir.passes.cancel import is_unordered
from policyc.ir.policy import NEVER, Action, Policy, PolicySet, Rule, Tier, TierMode
from policyc.verifier.redundancy.inclusion import (
    matches_may_meet,
    matches_within,
    may_meet,
    selects_within,
)


@dataclass
class Covers:
    """The covered rules of one policy set."""

    policies: PolicySet
    _by_namespace: list[dict[str | None, list[int]]] = field(init=False)
    _unordered: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self._by_namespace = []
        self._unordered = [is_unordered(tier) for tier in self.policies.tiers]
        for tier in self.policies.tiers:
            found: defaultdict[str | None, list[int]] = defaultdict(list)
            for at, policy in enumerate(tier.policies):
                found[policy.subject.namespace].append(at)
            self._by_namespace.append(found)

    def is_reached(self, place: RulePlace) -> bool:
        """False: earlier rules of its tier decide all that it matches, so no flow reaches it."""
        return not all(self._is_decided_before(place, part) for part in self._parts(place))

    def changes_nothing(self, place: RulePlace, gone: Collection[RulePlace] = ()) -> bool:
        """Whether no verdict and no effect changes without it. Rules in `gone` are removed as well."""
        return all(
            self._is_decided_before(place, part)
            or self._is_covered(place, part, gone)
            or self._is_repeated(place, part, gone)
            for part in self._parts(place)
        )

    def removable(self, chosen: Iterable[RulePlace]) -> set[RulePlace]:
        """Chosen rules that change nothing if all of them, and no others, are removed."""
        gone, before = set(chosen), -1
        while len(gone) != before:  # rules that stay may be in the way of others
            before = len(gone)
            gone = {each for each in gone if self.changes_nothing(each, gone)}
        return gone

    def _parts(self, place: RulePlace) -> Iterator[Rule]:
        """The rule for one peer and one port at a time: a flow that it matches is one of a part."""
        rule = self._rule(place)
        if len(rule.peers) == len(rule.ports) == 1:
            yield rule
            return
        for peer in rule.peers:
            for port in rule.ports:
                yield replace(rule, peers=(peer,), ports=(port,))

    def _is_decided_before(
        self, place: RulePlace, part: Rule, since: RulePlace | None = None
    ) -> bool:
        """A rule that covers the part decides before this rule, or before the rule `since`."""
        order = self._order(since or place)
        return any(
            self._order(other) < order and _decides_for(self._rule(other), part)
            for other in self._covering(place, part)
        )

    def _is_covered(self, place: RulePlace, part: Rule, gone: Collection[RulePlace]) -> bool:
        """A rule with the same action covers the part, and stays."""
        return self._unordered[place.tier] and any(
            other not in gone and self._rule(other).action is part.action
            for other in self._covering(place, part)
        )

    def _is_repeated(self, place: RulePlace, part: Rule, gone: Collection[RulePlace]) -> bool:
        """Later rules that stay, and the default of the tier, give the part's flows its outcome.

        A later rule does not count if rules before this one decide all that it matches.
        """
        policy = self._policy(place)
        if self._unordered[place.tier] or _has_effect(part):
            return False
        for other in self._later(place):
            theirs, each = self._policy(other), self._rule(other)
            if other in gone or not (may_meet(policy, theirs) and matches_may_meet(part, each)):
                continue
            if each.action is not part.action or _has_effect(each):
                if all(self._is_decided_before(other, one, place) for one in self._parts(other)):
                    continue
                return False
            if _applies_within(policy, theirs) and matches_within(part, each):
                return True
        return _is_default(self._tier(place), policy, place, part.action)

    def _covering(self, place: RulePlace, part: Rule) -> Iterator[RulePlace]:
        """The other rules of its tier and direction that match all that the part matches."""
        tier, policy = self._tier(place), self._policy(place)
        for at in self._near(place.tier, policy):
            other = tier.policies[at]
            rules = other.rules(place.direction)
            if not rules or not _applies_within(policy, other):
                continue
            for index, each in enumerate(rules):
                where = RulePlace(place.tier, at, place.is_egress, index)
                if where != place and matches_within(part, each):
                    yield where

    def _later(self, place: RulePlace) -> list[RulePlace]:
        """The rules of its tier and direction that are evaluated after it, in order."""
        own = self._order(place)
        found = [
            where
            for at, policy in enumerate(self._tier(place).policies)
            for index in range(len(policy.rules(place.direction)))
            if self._order(where := RulePlace(place.tier, at, place.is_egress, index)) > own
        ]
        return sorted(found, key=self._order)

    def _near(self, tier: int, policy: Policy) -> list[int]:
        """The policies of the tier that may select all ends of this one, by their namespaces."""
        found = self._by_namespace[tier]
        anywhere = found.get(None, [])
        namespace = policy.subject.namespace
        return anywhere if namespace is None else [*found.get(namespace, ()), *anywhere]

    def _order(self, place: RulePlace) -> tuple[int, int, int]:
        """The position in the order of evaluation within the tier."""
        denies_win = self._tier(place).mode is TierMode.DENY_WINS
        first = self._rule(place).action.place if denies_win else 0
        return first, place.policy, place.index

    def _tier(self, place: RulePlace) -> Tier:
        return self.policies.tiers[place.tier]

    def _policy(self, place: RulePlace) -> Policy:
        return self._tier(place).policies[place.policy]

    def _rule(self, place: RulePlace) -> Rule:
        return self._policy(place).rules(place.direction)[place.index]


def _applies_within(policy: Policy, other: Policy) -> bool:
    """Whether the other policy selects every end that this one selects, host interfaces included."""
    return policy.hosts in (NEVER, other.hosts) and selects_within(policy.subject, other.subject)


def _has_effect(rule: Rule) -> bool:
    """Whether it makes a note, has a limit, or lets evaluation continue."""
    return rule.log or rule.limit is not None or rule.action.goes_on or rule.opaque is not None


def _is_default(tier: Tier, policy: Policy, place: RulePlace, action: Action) -> bool:
    """Whether the subjects' flows that no rule of the tier decides have this outcome."""
    if action is Action.PASS:
        return tier.unmatched is Action.PASS or not any(
            place.direction in each.isolates for each in tier.policies
        )
    return action is tier.unmatched and place.direction in policy.isolates


def _decides_for(first: Rule, later: Rule) -> bool:
    """Only DENY_OWN_NODE decides about flows that the pod's own node generates (A22)."""
    if later.action is Action.DENY_OWN_NODE and first.action is not Action.DENY_OWN_NODE:
        return False
    return not first.action.goes_on
