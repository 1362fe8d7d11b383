# SPDX-License-Identifier: Apache-2.0
"""The reference semantics: the meaning of a Policy IR, one flow at a time. The oracle.

A direct transcription of the API documents (docs/semantics.md numbers the clauses, A1 to F47), slow and
short on purpose. Nothing else may define what a policy means. Every other stage is tested and proved
against this module. `ir/matching.py` has the part below rules: how peers and services match.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from ipaddress import IPv6Address, IPv6Network

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.matching import condition_holds, peer_matches, selects, service_matches
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Rule, Tier, TierMode
from policyc.ir.services import Protocol, is_neighbour_discovery
from policyc.ir.universe import End, Endpoint, Flow, Node, Subject, end_address


@dataclass(frozen=True, slots=True)
class DecidedByRule:
    """The first rule, in canonical order, that decides the flow."""

    tier: str
    policy: Policy
    direction: Direction
    index: int

    @property
    def rule(self) -> Rule:
        """The rule itself."""
        return self.policy.rules(self.direction)[self.index]


@dataclass(frozen=True, slots=True)
class DeniedByDefault:
    """No rule allowed it; `policies` isolate the endpoint, in canonical order (A1, A7)."""

    tier: str
    direction: Direction
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class AllowedByDefault:
    """No policy isolates this end, or policies do not apply; `why` says which (A1, A3, A21-A23)."""

    why: str


@dataclass(frozen=True, slots=True)
class DeniedByHost:
    """A host interface with default deny (Calico's HostEndpoint) that no policy selects denies (D43)."""

    host: str


Decider = DecidedByRule | DeniedByDefault | AllowedByDefault | DeniedByHost


class EffectKind(Enum):
    """The effect of a rule beside its action. Effects never change a verdict."""

    LOG = "log"
    AUDIT = "audit"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect on a flow, and the rule that has it."""

    kind: EffectKind
    by: DecidedByRule


@dataclass(frozen=True, slots=True)
class EndVerdict:
    """The verdict of one end of a flow: ALLOW, DENY or REJECT, the decider, and the effects."""

    action: Action
    decider: Decider
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict at both ends.

    A connection needs egress at the source and ingress at the destination (A4).
    """

    egress: EndVerdict
    ingress: EndVerdict

    @property
    def action(self) -> Action:
        """The combined action; an end that denies decides, the source before the destination."""
        return self.egress.action if self.egress.action.is_deny else self.ingress.action


NOT_ISOLATED = EndVerdict(Action.ALLOW, AllowedByDefault("not isolated"))
OUTSIDE = EndVerdict(Action.ALLOW, AllowedByDefault("not an endpoint"))
TO_ITSELF = EndVerdict(Action.ALLOW, AllowedByDefault("the pod itself"))
LINK_MULTICAST = IPv6Network("ff02::/16")
NEIGHBOURS = EndVerdict(Action.ALLOW, AllowedByDefault("IPv6 neighbour discovery"))
FROM_ITS_NODE = EndVerdict(Action.ALLOW, AllowedByDefault("from its own node"))
FAILSAFE = EndVerdict(Action.ALLOW, AllowedByDefault("a failsafe port of the host"))

_TCP, _UDP = Protocol.TCP.value, Protocol.UDP.value
_CONTROL_PLANE = {(_TCP, port) for port in (179, 2379, 2380, 5473, 6443, 6666, 6667)}
FAILSAFE_PORTS = {
    Direction.INGRESS: frozenset(_CONTROL_PLANE | {(_TCP, 22), (_UDP, 68)}),
    Direction.EGRESS: frozenset(_CONTROL_PLANE | {(_UDP, 53), (_UDP, 67)}),
}
"""Felix's FailsafeInboundHostPorts and FailsafeOutboundHostPorts, with their default values (D43)."""


def verdict(policies: PolicySet, flow: Flow) -> Verdict:
    """The verdict on a flow at both ends.

    hostNetwork pods are their nodes: they are not subjects, and rules match them by address only (A21).
    Flows that a node generates for a pod of its own pass, unless a rule of the pod denies exactly these
    flows (A22). A pod's traffic to itself (A23) and IPv6 neighbour discovery (A26) always pass.
    """
    if is_between_neighbours(flow):
        return Verdict(NEIGHBOURS, NEIGHBOURS)
    src, dst = as_seen(flow.src), as_seen(flow.dst)
    if isinstance(src, Endpoint) and isinstance(dst, Endpoint) and src == dst:
        return Verdict(TO_ITSELF, TO_ITSELF)
    if is_from_its_node(flow.src, flow.dst):
        is_host = isinstance(src, Node) and src.host is not None
        egress = FROM_ITS_NODE if is_host else OUTSIDE
        return Verdict(egress, own_node_verdict(policies, dst, src, flow))
    egress = end_verdict(policies, Direction.EGRESS, src, dst, flow)
    return Verdict(egress, end_verdict(policies, Direction.INGRESS, dst, src, flow))


def own_node_verdict(policies: PolicySet, subject: End, node: End, flow: Flow) -> EndVerdict:
    """The subject's verdict on a flow that its own node generates: a rule may deny exactly that (A22).

    A flow that passes has no effects.
    """
    found = end_verdict(policies, Direction.INGRESS, subject, node, flow)
    return found if denies_own_node(found) else FROM_ITS_NODE


def denies_own_node(verdict: EndVerdict) -> bool:
    """Whether a decision about the subject's own node also covers flows that the node generates."""
    by = verdict.decider
    return isinstance(by, DecidedByRule) and by.rule.action is Action.DENY_OWN_NODE


def is_between_neighbours(flow: Flow) -> bool:
    """IPv6 neighbour discovery on the link (A26).

    A packet that a router would forward is plain ICMPv6.
    """
    destination = end_address(flow.dst, 6)
    return (
        flow.family == 6
        and isinstance(destination, IPv6Address)
        and (destination.is_link_local or destination in LINK_MULTICAST)
        and is_neighbour_discovery(flow.service)
    )


def end_verdict(
    policies: PolicySet, direction: Direction, subject: End, peer: End, flow: Flow
) -> EndVerdict:
    """The verdict of one end, from its tiers in order.

    An end that is neither an endpoint nor a node with a host interface has no tiers (A3).
    """
    subject, peer = as_seen(subject), as_seen(peer)
    if isinstance(subject, Node):
        return _host_verdict(policies, direction, subject, peer, flow)
    if not isinstance(subject, Endpoint):
        return OUTSIDE
    return _from_tiers(policies, direction, subject, peer, flow) or NOT_ISOLATED


def _host_verdict(
    policies: PolicySet, direction: Direction, subject: Node, peer: End, flow: Flow
) -> EndVerdict:
    """Failsafe ports, then the tiers; a default-deny host that no policy selects is closed (D43)."""
    host = subject.host
    if host is None:
        return OUTSIDE
    if (
        host.has_failsafes
        and (flow.service.number, flow.service.value) in FAILSAFE_PORTS[direction]
    ):
        return FAILSAFE
    decided = _from_tiers(policies, direction, subject, peer, flow) or NOT_ISOLATED
    if host.denies_unmatched and decided.decider == NOT_ISOLATED.decider:  # effects decide nothing
        return EndVerdict(Action.DENY, DeniedByHost(host.name), decided.effects)
    return decided


def _from_tiers(
    policies: PolicySet, direction: Direction, subject: Subject, peer: End, flow: Flow
) -> EndVerdict | None:
    """The decision of the tiers, None if no tier decides; the effects of every tier are collected."""
    effects: list[Effect] = []
    for tier in policies.tiers:
        decided = _tier_verdict(tier, direction, subject, peer, flow, effects)
        if decided is not None:
            return EndVerdict(decided.action, decided.decider, tuple(effects))
    if effects:
        return EndVerdict(NOT_ISOLATED.action, NOT_ISOLATED.decider, tuple(effects))
    return None


def _tier_verdict(
    tier: Tier,
    direction: Direction,
    subject: Subject,
    peer: End,
    flow: Flow,
    effects: list[Effect],
) -> EndVerdict | None:
    """The tier's verdict, or None if the flow passes on to the next tier."""
    selecting = [p for p in tier.policies if is_subject(p, subject)]
    for policy, index, rule in _in_order(tier.mode, selecting, direction):
        if not rule_matches(rule, direction, subject, peer, flow):
            continue
        by = DecidedByRule(tier.name, policy, direction, index)
        effects += _effects(rule, by)
        if rule.action is Action.PASS:
            return None
        if not rule.action.goes_on:
            return EndVerdict(rule.action.outcome, by)
    isolating = tuple(p for p in selecting if direction in p.isolates)
    if isolating and tier.unmatched is not Action.PASS:
        return EndVerdict(tier.unmatched, DeniedByDefault(tier.name, direction, isolating))
    return None


def _effects(rule: Rule, by: DecidedByRule) -> Iterator[Effect]:
    """The effects of the rule once it has matched."""
    if rule.log or rule.action is Action.LOG:
        yield Effect(EffectKind.LOG, by)
    if rule.action is Action.AUDIT:
        yield Effect(EffectKind.AUDIT, by)
    if rule.limit is not None:
        yield Effect(EffectKind.LIMIT, by)


def _in_order(
    mode: TierMode, policies: list[Policy], direction: Direction
) -> Iterator[tuple[Policy, int, Rule]]:
    """The rules in evaluation order for first match: under DENY_WINS sorted by action (`place`)."""
    rules = [(p, i, r) for p in policies for i, r in enumerate(p.rules(direction))]
    if mode is TierMode.DENY_WINS:
        rules.sort(key=lambda item: item[2].action.place)
    yield from rules


def rule_matches(rule: Rule, direction: Direction, subject: Subject, peer: End, flow: Flow) -> bool:
    """Own side AND peers AND ports (A9). Ports, also named ones, are the destination's (A19, A20)."""
    destination = subject if direction is Direction.INGRESS else peer
    return (
        peer_matches(rule.own, subject, flow.family, subject)
        and any(peer_matches(p, peer, flow.family, subject) for p in rule.peers)
        and any(service_matches(p, destination, flow.service) for p in rule.ports)
        and not any(service_matches(p, destination, flow.service) for p in rule.except_ports)
        and (rule.source_ports is None or _has_source_port(rule, flow))
    )


def _has_source_port(rule: Rule, flow: Flow) -> bool:
    ports = rule.source_ports
    return ports is not None and flow.source_port is not None and flow.source_port in ports


def is_subject(policy: Policy, subject: Subject) -> bool:
    """Whether a policy applies to an endpoint, or to a node's host interface."""
    if isinstance(subject, Endpoint):
        return selects(policy.subject, subject)
    return condition_holds(policy.hosts, subject)


def as_seen(end: End) -> End:
    """A hostNetwork pod counts as its node (A21)."""
    if not isinstance(end, Endpoint) or not end.host_network:
        return end
    if end.its_node is None:
        return Node(end.node, addresses=end.addresses)
    return replace(end.its_node, addresses=end.addresses or end.its_node.addresses)


def is_from_its_node(src: End, dst: End) -> bool:
    """The source is the node that the destination runs on, itself or a hostNetwork pod of it (A22)."""
    if not isinstance(dst, Endpoint) or not dst.node:
        return False
    if isinstance(src, Node):
        return src.speaks and src.name == dst.node
    return isinstance(src, Endpoint) and src.host_network and src.node == dst.node
