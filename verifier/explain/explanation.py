# SPDX-License-Identifier: Apache-2.0
"""The verdict on a flow, walked tier by tier: the decision of `ir/semantics.py`, with the reasons.

The walk decides on its own, from the parts of rules that match and those that do not. Every walk is
checked: the reference semantics must give the same verdict.
"""

from dataclasses import dataclass, replace

from policyc.ir.describe import describe_rule
from policyc.ir.errors import InternalError
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Rule, Tier, TierMode
from policyc.ir.results.explain import (
    EndWalk,
    Explanation,
    PolicyWalk,
    RuleRole,
    RuleWalk,
    TierOutcome,
    TierWalk,
)
from policyc.ir.results.places import place_of_policy, place_of_rule
from policyc.ir.semantics import (
    FAILSAFE,
    FAILSAFE_PORTS,
    FROM_ITS_NODE,
    NEIGHBOURS,
    NOT_ISOLATED,
    OUTSIDE,
    TO_ITSELF,
    DecidedByRule,
    Decider,
    DeniedByDefault,
    DeniedByHost,
    EndVerdict,
    as_seen,
    denies_own_node,
    end_verdict,
    is_between_neighbours,
    is_from_its_node,
    is_subject,
    own_node_verdict,
    verdict,
)
from policyc.ir.universe import End, Endpoint, Flow, Node, end_name
from policyc.verifier.explain.changes import changes_of
from policyc.verifier.explain.choices import choices_of
from policyc.verifier.explain.mismatches import mismatches

Subject = Endpoint | Node


def explain(policies: PolicySet, flow: Flow) -> Explanation:
    """Both ends of a flow, walked; InternalError where the walk and the semantics differ."""
    decided = verdict(policies, flow)
    egress = explain_end(policies, Direction.EGRESS, flow)
    ingress = explain_end(policies, Direction.INGRESS, flow)
    if (egress.verdict, ingress.verdict) != (decided.egress, decided.ingress):
        raise InternalError(f"the explanation of {flow} is not its verdict")
    return Explanation(flow, decided, egress, ingress)


def explain_end(policies: PolicySet, direction: Direction, flow: Flow) -> EndWalk:
    """One end: why no policy applied, or the walk of its tiers; InternalError as `explain`."""
    own, other = (flow.src, flow.dst) if direction is Direction.EGRESS else (flow.dst, flow.src)
    subject, peer = as_seen(own), as_seen(other)
    walk = _unasked(policies, direction, flow, own)
    if walk is None and isinstance(subject, Endpoint | Node):
        walk = _asked(policies, direction, subject, peer, flow)
        walk = replace(walk, subject=end_name(own))
    if walk is None:
        raise InternalError(f"no policy set decides {flow}")
    walk = replace(walk, choices=choices_of(walk, policies, flow))
    return replace(walk, changes=changes_of(walk))


def _unasked(policies: PolicySet, direction: Direction, flow: Flow, own: End) -> EndWalk | None:
    """The decision without any policy; None if the tiers are evaluated."""
    src, dst, subject = as_seen(flow.src), as_seen(flow.dst), as_seen(own)

    def decided(end: EndVerdict, why: str) -> EndWalk:
        return EndWalk(direction, end_name(own), end, (), why)

    if is_between_neighbours(flow):
        return decided(NEIGHBOURS, "IPv6 neighbour discovery on the link always passes (A26)")
    if isinstance(src, Endpoint) and isinstance(dst, Endpoint) and src == dst:
        return decided(TO_ITSELF, "a pod's traffic to itself always passes (A23)")
    is_host = isinstance(subject, Endpoint) or (isinstance(subject, Node) and subject.host)
    if is_host and is_from_its_node(flow.src, flow.dst):
        denied = denies_own_node(own_node_verdict(policies, dst, src, flow))
        if denied and direction is Direction.INGRESS:
            return None
        why = (
            "traffic that a node generates for its own pod always passes,"
            " unless a rule denies exactly that (A22)"
        )
        return decided(FROM_ITS_NODE, why)
    if isinstance(subject, Endpoint):
        return None
    if not isinstance(subject, Node):
        return decided(
            OUTSIDE, "no policy applies to an address that no pod has, so it allows (A4)"
        )
    host = subject.host
    if host is None:
        return decided(OUTSIDE, "no policy applies to a node without a host interface (A4, A21)")
    service = (flow.service.number, flow.service.value)
    if host.has_failsafes and service in FAILSAFE_PORTS[direction]:
        return decided(FAILSAFE, f"{flow.service} is a failsafe port of hosts (D43)")
    return None


def _asked(
    policies: PolicySet, direction: Direction, subject: Subject, peer: End, flow: Flow
) -> EndWalk:
    """The tiers in order, until one decides; the others are listed as not evaluated."""
    walks: list[TierWalk] = []
    decided: tuple[Action, Decider] | None = None
    for tier in policies.tiers:
        if decided is not None:
            walks.append(TierWalk(tier.name, len(tier.policies), (), TierOutcome.NOT_ASKED, ""))
            continue
        walked = _Walked.of(tier, direction, subject, peer, flow)
        decided = walked.decided()
        walks.append(walked.to_result())
    action, decider = decided or _undecided(subject)
    meant = end_verdict(policies, direction, subject, peer, flow)
    if (meant.action, meant.decider) != (action, decider):
        raise InternalError(f"the walk of {direction.value} of {flow} is not its verdict")
    return EndWalk(direction, end_name(subject), meant, tuple(walks))


def _undecided(subject: Subject) -> tuple[Action, Decider]:
    """The default for a flow that no tier decides."""
    host = subject.host if isinstance(subject, Node) else None
    if host is not None and host.denies_unmatched:
        return Action.DENY, DeniedByHost(host.name)
    return NOT_ISOLATED.action, NOT_ISOLATED.decider


@dataclass(frozen=True, slots=True)
class _Asked:
    """A rule that was evaluated; `walk` has no role yet."""

    policy: Policy
    index: int
    rule: Rule
    walk: RuleWalk

    @property
    def matches(self) -> bool:
        return not self.walk.mismatches


@dataclass(frozen=True, slots=True)
class _Walked:
    """One tier as it was walked: `order` is the evaluation order for first match."""

    tier: Tier
    direction: Direction
    subject: Subject
    selecting: tuple[Policy, ...]
    order: tuple[_Asked, ...]
    is_from_own_node: bool

    @staticmethod
    def of(tier: Tier, direction: Direction, subject: Subject, peer: End, flow: Flow) -> "_Walked":
        """Evaluate every rule of every policy that selects the subject."""
        selecting = tuple(policy for policy in tier.policies if is_subject(policy, subject))
        asked = [
            _Asked(policy, index, rule, _ask(policy, rule, direction, subject, peer, flow))
            for policy in selecting
            for index, rule in enumerate(policy.rules(direction))
        ]
        if tier.mode is TierMode.DENY_WINS:
            asked.sort(key=lambda each: each.rule.action.place)
        own_node = is_from_its_node(flow.src, flow.dst)
        return _Walked(tier, direction, subject, selecting, tuple(asked), own_node)

    @property
    def decisive(self) -> _Asked | None:
        """The first rule that matches and does not merely make a note."""
        return next((a for a in self.order if a.matches and not a.rule.action.goes_on), None)

    @property
    def isolating(self) -> tuple[Policy, ...]:
        """The policies that isolate the subject in this direction."""
        return tuple(policy for policy in self.selecting if self.direction in policy.isolates)

    def decided(self) -> tuple[Action, Decider] | None:
        """The tier's decision; None if the flow passes on."""
        by = self.decisive
        if by is not None:
            if by.rule.action is Action.PASS:
                return None
            rule = DecidedByRule(self.tier.name, by.policy, self.direction, by.index)
            return by.rule.action.outcome, rule
        if self.isolating and self.tier.unmatched is not Action.PASS:
            default = DeniedByDefault(self.tier.name, self.direction, self.isolating)
            return self.tier.unmatched, default
        return None

    def to_result(self) -> TierWalk:
        """The walk, each rule with its role."""
        roles = self._roles()
        policies = tuple(
            PolicyWalk(
                place_of_policy(policy),
                self.direction in policy.isolates,
                tuple(
                    replace(asked.walk, role=roles[id(asked)])
                    for asked in sorted(self.order, key=lambda each: each.index)
                    if asked.policy is policy
                ),
            )
            for policy in self.selecting
        )
        outcome, words = self._outcome()
        return TierWalk(self.tier.name, len(self.tier.policies), policies, outcome, words)

    def _roles(self) -> dict[int, RuleRole]:
        """The role of each rule, by identity: rules after the first deciding rule are not evaluated."""
        roles: dict[int, RuleRole] = {}
        decisive, found, agrees = self.decisive, False, True
        for asked in self.order:
            if not asked.matches:
                roles[id(asked)] = RuleRole.NO_MATCH
            elif asked is decisive:
                passes = asked.rule.action is Action.PASS
                roles[id(asked)] = RuleRole.PASSES if passes else RuleRole.DECIDES
                found = True
            elif asked.rule.action.goes_on:
                roles[id(asked)] = RuleRole.COMES_LATER if found else RuleRole.NOTES
            else:
                agrees &= decisive is not None and self._agree(asked.rule, decisive.rule)
                roles[id(asked)] = RuleRole.AGREES if agrees else RuleRole.COMES_LATER
        return roles

    def _agree(self, rule: Rule, decisive: Rule) -> bool:
        """Whether the rule alone would decide the same: DENY does not deny the subject's own node."""
        if self.is_from_own_node:
            return rule.action is decisive.action
        return rule.action.outcome is decisive.action.outcome

    def _outcome(self) -> tuple[TierOutcome, str]:
        by = self.decisive
        if by is not None:
            passed = by.rule.action is Action.PASS
            outcome = TierOutcome.PASSED if passed else TierOutcome.DECIDED
            return outcome, f"{by.rule.action.outcome.value} by {by.walk.place.words}"
        names = ", ".join(policy.title for policy in self.isolating)
        if self.isolating and self.tier.unmatched is Action.PASS:
            return TierOutcome.PASSED, "no rule matches, so the tier passes the flow on"
        if self.isolating:
            word = self.tier.unmatched.value
            return TierOutcome.DEFAULT, f"{word} by default: no rule allows it; isolated by {names}"
        subject = end_name(self.subject)
        if not self.selecting:
            return TierOutcome.UNTOUCHED, f"no policy selects {subject}"
        return TierOutcome.UNTOUCHED, f"no rule decides, and no policy isolates {subject} here"


def _ask(
    policy: Policy, rule: Rule, direction: Direction, subject: Subject, peer: End, flow: Flow
) -> RuleWalk:
    return RuleWalk(
        place_of_rule(policy, rule),
        describe_rule(rule, direction),
        rule.action.outcome,
        RuleRole.NO_MATCH,
        mismatches(rule, direction, subject, peer, flow),
    )
