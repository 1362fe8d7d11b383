# SPDX-License-Identifier: Apache-2.0
"""Rules that change nothing for any pod, node and address that could exist: proved by Z3, rule by rule.

Removing a rule can change the verdict only of ends that its policy selects, so only policies that can
select those ends too are considered. First the rule's own tier is checked, with everything after it as
one mark. If that is not enough, all tiers are checked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from policyc.ir.bounds import RulePlace
from policyc.ir.peers import ANY_PEER, EndpointPeer, Network, NodePeer, Peer
from policyc.ir.policy import (
    ALWAYS,
    EVERY_ENDPOINT,
    NEVER,
    Action,
    AnyService,
    Direction,
    Limit,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.spans import NOWHERE, Origin
from policyc.verifier.cluster.redundancy import Uselessness
from policyc.verifier.diff.end_changes import EndQuery
from policyc.verifier.diff.symbolic import (
    Group,
    end_queries,
)
from policyc.verifier.redundancy.inclusion import may_meet
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
)

MARK = Limit(-1, -1)
"""A limit that no rule can have: it marks the flows that get so far."""
_NO_ORIGIN = Origin(NOWHERE, "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule that seems useless among representatives, and in which way."""

    place: RulePlace
    why: Uselessness


@dataclass(frozen=True, slots=True)
class Proved:
    """The solver's answer on a candidate: how it is useless, None if it is needed.

    `undecided` is the reason if there is no answer; then `why` is None as well.
    """

    place: RulePlace
    why: Uselessness | None
    queries: int
    undecided: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The common data of all questions; picklable, for other processes."""

    policies: PolicySet
    networks: tuple[Network, ...] = ()
    choice: Choice = Choice.Z3
    timeout_ms: int | None = None


class UndecidedError(Exception):
    """A solver gave up, and why."""


def prove_candidates(asked: Asked, candidates: Sequence[Candidate]) -> tuple[Proved, ...]:
    """The answer for each candidate, in order."""
    prover = Prover(asked)
    return tuple(prover.answer(candidate) for candidate in candidates)


def prove_groups(asked: Asked, groups: Sequence[Group]) -> tuple[int, Answer, str]:
    """(queries, UNSAT if all groups are equal, why not decided); the first unequal group ends it."""
    queries = 0
    for group in groups:
        for direction in Direction:
            for is_host in (False, True):
                if is_host and not _has_hosts(group.before):
                    continue
                query = EndQuery(
                    group.before, group.after, direction, is_host, group.subjects, group.focus,
                    asked.networks, base=group.base)  # fmt: skip
                decision = decide(query.assertions(), asked.choice, asked.timeout_ms)
                queries += 1
                if decision.answer is not Answer.UNSAT:
                    return queries, decision.answer, decision.reason
    return queries, Answer.UNSAT, ""


@dataclass
class Prover:
    """Checks the rules of one policy set, some of which may be removed already."""

    asked: Asked
    queries: int = 0
    _by_namespace: list[dict[str | None, list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        self._by_namespace = []
        for tier in self.asked.policies.tiers:
            found: dict[str | None, list[int]] = {}
            for at, policy in enumerate(tier.policies):
                found.setdefault(policy.subject.namespace, []).append(at)
            self._by_namespace.append(found)

    def answer(self, candidate: Candidate) -> Proved:
        """Whether a candidate is useless, and in which way."""
        before = self.queries
        place = candidate.place
        try:
            why = self._how_useless(candidate) if self.is_removable(place, frozenset()) else None
        except UndecidedError as failure:
            return Proved(place, None, self.queries - before, str(failure))
        return Proved(place, why, self.queries - before)

    def is_removable(self, place: RulePlace, gone: frozenset[RulePlace]) -> bool:
        """No verdict changes if the rule is removed, too. Raises UndecidedError."""
        policy = self.policy(place)
        tiers = self._near(policy)
        more = gone | {place}
        has_others = any(part for at, part in enumerate(tiers) if at != place.tier)
        if has_others and self._are_equal(_only(tiers, place.tier), gone, more, place):
            return True
        if policy.subject.namespace is None and has_others:
            return self._is_removable_anywhere(place, gone, tiers)
        return self._are_equal(tiers, gone, more, place, has_mark=False)

    def _is_removable_anywhere(
        self, place: RulePlace, gone: frozenset[RulePlace], tiers: list[list[int]]
    ) -> bool:
        """For a policy of many namespaces: the tiers up to its own, then one namespace at a time."""
        up_to = [part if at <= place.tier else [] for at, part in enumerate(tiers)]
        if self._are_equal(up_to, gone, gone | {place}, place):
            return True
        asked = self.asked
        every = [list(range(len(tier.policies))) for tier in asked.policies.tiers]
        sets = (self._trimmed(every, gone), self._trimmed(every, gone | {place}))
        for _, query in end_queries(*sets, False, asked.networks):
            if query.direction is place.direction and not self._is_unsat(query):
                return False
        return True

    def _how_useless(self, candidate: Candidate) -> Uselessness:
        """The reason that representatives show, as far as a solver confirms it."""
        place = candidate.place
        if candidate.why is Uselessness.REDUNDANT:
            return Uselessness.REDUNDANT
        only = [[] for _ in self.asked.policies.tiers]  # type: list[list[int]]
        only[place.tier] = [place.policy]
        alone = self._trimmed(only, frozenset(), place)
        if candidate.why is Uselessness.DEAD and self._is_never_hit(alone, place):
            return Uselessness.DEAD
        tiers = self._near(self.policy(place))
        up_to = [part if at <= place.tier else [] for at, part in enumerate(tiers)]
        if self._is_never_hit(self._trimmed(up_to, frozenset()), place, up_to):
            return Uselessness.SHADOWED
        return Uselessness.REDUNDANT

    def _is_never_hit(
        self, policies: PolicySet, place: RulePlace, indices: list[list[int]] | None = None
    ) -> bool:
        """No flow reaches the rule and matches it: a mark on it changes nothing."""
        if indices is None:
            marked = PolicySet(tuple(_with_mark(tier, 0, place, 0) for tier in policies.tiers))
        else:
            at = indices[place.tier].index(place.policy)
            marked = PolicySet(
                tuple(
                    _with_mark(tier, at, place, place.index) if number == place.tier else tier
                    for number, tier in enumerate(policies.tiers)
                )
            )
        return self._same(policies, marked, place)

    def _are_equal(
        self,
        indices: list[list[int]],
        gone: frozenset[RulePlace],
        more: frozenset[RulePlace],
        place: RulePlace,
        has_mark: bool = True,
    ) -> bool:
        rest = (_REST,) if has_mark else ()
        before, after = (
            PolicySet((*self._trimmed(indices, each).tiers, *rest)) for each in (gone, more)
        )
        return self._same(before, after, place)

    def _same(self, before: PolicySet, after: PolicySet, place: RulePlace) -> bool:
        """Every end that the rule's policy selects has the same verdicts."""
        policy = self.policy(place)
        sides: list[tuple[bool, Peer]] = [(False, EndpointPeer(policy.subject))]
        if policy.hosts != NEVER:
            sides.append((True, NodePeer(policy.hosts)))
        return all(
            self._is_unsat(
                EndQuery(
                    before,
                    after,
                    place.direction,
                    is_host,
                    (subject,),
                    pod_networks=self.asked.networks,
                )
            )
            for is_host, subject in sides
        )

    def _is_unsat(self, query: EndQuery) -> bool:
        decision = decide(query.assertions(), self.asked.choice, self.asked.timeout_ms)
        self.queries += 1
        if decision.answer is Answer.UNKNOWN:
            raise UndecidedError(decision.reason)
        return decision.answer is Answer.UNSAT

    def policy(self, place: RulePlace) -> Policy:
        """The policy of a rule."""
        return self.asked.policies.tiers[place.tier].policies[place.policy]

    def _near(self, policy: Policy) -> list[list[int]]:
        """Per tier the policies that can select an end that this one selects, in order."""
        return [
            [at for at in self._in_namespace(number, policy) if may_meet(policy, tier.policies[at])]
            for number, tier in enumerate(self.asked.policies.tiers)
        ]

    def _in_namespace(self, tier: int, policy: Policy) -> Sequence[int]:
        namespace = policy.subject.namespace
        if namespace is None or policy.hosts != NEVER:
            return range(len(self.asked.policies.tiers[tier].policies))
        found = self._by_namespace[tier]
        return sorted((*found.get(namespace, ()), *found.get(None, ())))

    def _trimmed(
        self, indices: list[list[int]], gone: frozenset[RulePlace], only: RulePlace | None = None
    ) -> PolicySet:
        """Some policies of each tier, without the removed rules; or with one rule alone."""
        tiers = []
        for number, (tier, ats) in enumerate(zip(self.asked.policies.tiers, indices, strict=True)):
            if ats:
                kept = tuple(_without(tier.policies[at], number, at, gone, only) for at in ats)
                tiers.append(replace(tier, policies=kept))
            elif only is None:
                tiers.append(replace(tier, policies=()))
        return PolicySet(tuple(tiers))


def _only(tiers: list[list[int]], tier: int) -> list[list[int]]:
    return [part if at == tier else [] for at, part in enumerate(tiers)]


def without(policies: PolicySet, gone: Iterable[RulePlace]) -> PolicySet:
    """The policies without some rules; isolation stays as it is."""
    by_policy: dict[tuple[int, int], set[RulePlace]] = {}
    for place in gone:
        by_policy.setdefault((place.tier, place.policy), set()).add(place)
    tiers = []
    for number, tier in enumerate(policies.tiers):
        kept = tuple(
            _without(policy, number, at, frozenset(by_policy[number, at]), None)
            if (number, at) in by_policy
            else policy
            for at, policy in enumerate(tier.policies)
        )
        tiers.append(replace(tier, policies=kept))
    return PolicySet(tuple(tiers))


def places_of_rules(policies: PolicySet) -> Mapping[tuple[int, Direction, int], RulePlace]:
    """(id of the policy, direction, index) of a rule -> its place."""
    return {
        (id(policy), direction, index): RulePlace(number, at, direction is Direction.EGRESS, index)
        for number, tier in enumerate(policies.tiers)
        for at, policy in enumerate(tier.policies)
        for direction in Direction
        for index in range(len(policy.rules(direction)))
    }


def _without(
    policy: Policy, tier: int, at: int, gone: frozenset[RulePlace], only: RulePlace | None
) -> Policy:
    def kept(direction: Direction) -> Iterator[Rule]:
        for index, rule in enumerate(policy.rules(direction)):
            place = RulePlace(tier, at, direction is Direction.EGRESS, index)
            if place not in gone and (only is None or place == only):
                yield rule

    ingress, egress = tuple(kept(Direction.INGRESS)), tuple(kept(Direction.EGRESS))
    if (ingress, egress) == (policy.ingress, policy.egress):
        return policy
    return replace(policy, ingress=ingress, egress=egress)


def _with_mark(tier: Tier, at: int, place: RulePlace, index: int) -> Tier:
    """The tier with a mark on one of its rules."""
    policies = list(tier.policies)
    rules = list(policies[at].rules(place.direction))
    rules[index] = replace(rules[index], limit=MARK)
    changed = (
        replace(policies[at], egress=tuple(rules))
        if place.is_egress
        else replace(policies[at], ingress=tuple(rules))
    )
    policies[at] = changed
    return replace(tier, policies=tuple(policies))


def _has_hosts(policies: PolicySet) -> bool:
    return any(p.hosts != NEVER for tier in policies.tiers for p in tier.policies)


def _rest() -> Tier:
    """A tier that stands for all later ones: every flow that reaches it is marked."""
    rule = Rule(Action.ALLOW, (ANY_PEER,), (AnyService(),), _NO_ORIGIN, limit=MARK)
    policy = Policy(
        "", "", "", EVERY_ENDPOINT, frozenset(), (rule,), (rule,), _NO_ORIGIN, hosts=ALWAYS
    )
    return Tier("the rest", TierMode.FIRST_MATCH, Action.DENY, (policy,))


_REST = _rest()
