# SPDX-License-Identifier: Apache-2.0
"""The reference semantics: what a Policy IR means, one flow at a time. The oracle.

A direct transcription of the API documents (docs/semantics.md numbers the clauses, A1 to A28),
slow and short on purpose. Nothing else may define what a policy means; every other stage is tested
and proved against this module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import assert_never

from policyc.ir.policy import (
    Action,
    AddressPeer,
    AnyPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    LabelSelector,
    NamedPort,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import is_neighbour_discovery
from policyc.ir.universe import Address, End, Endpoint, Flow, end_address


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
    """Nothing isolates this end, or it is not evaluated; `why` says which (A1, A3, A21-A23)."""

    why: str


Decider = DecidedByRule | DeniedByDefault | AllowedByDefault


@dataclass(frozen=True, slots=True)
class EndVerdict:
    """What one end of a flow says: ALLOW, DENY or REJECT, and who decided it."""

    action: Action
    decider: Decider


@dataclass(frozen=True, slots=True)
class Verdict:
    """A connection needs egress allowed at the source and ingress at the destination (A4)."""

    egress: EndVerdict
    ingress: EndVerdict

    @property
    def action(self) -> Action:
        """The combined action; a denied end decides, the source's first."""
        return self.egress.action if self.egress.action.is_deny else self.ingress.action


NOT_ISOLATED = EndVerdict(Action.ALLOW, AllowedByDefault("not isolated"))
OUTSIDE = EndVerdict(Action.ALLOW, AllowedByDefault("not an endpoint"))
TO_ITSELF = EndVerdict(Action.ALLOW, AllowedByDefault("the pod itself"))
LINK_MULTICAST = IPv6Network("ff02::/16")
NEIGHBOURS = EndVerdict(Action.ALLOW, AllowedByDefault("IPv6 neighbour discovery"))
FROM_ITS_NODE = EndVerdict(Action.ALLOW, AllowedByDefault("from its own node"))


def verdict(policies: PolicySet, flow: Flow) -> Verdict:
    """The verdict on a flow at both ends.

    hostNetwork pods are their nodes: no subjects, and matched by address only (A21); what a node
    generates for a pod of its own always passes (A22); so do a pod's traffic to itself (A23) and IPv6
    neighbour discovery (A26).
    """
    if is_between_neighbours(flow):
        return Verdict(NEIGHBOURS, NEIGHBOURS)
    src, dst = _as_seen(flow.src, flow.family), _as_seen(flow.dst, flow.family)
    if isinstance(src, Endpoint) and isinstance(dst, Endpoint) and src == dst:
        return Verdict(TO_ITSELF, TO_ITSELF)
    egress = end_verdict(policies, Direction.EGRESS, src, dst, flow)
    if is_from_its_node(flow.src, flow.dst):
        return Verdict(egress, FROM_ITS_NODE)
    return Verdict(egress, end_verdict(policies, Direction.INGRESS, dst, src, flow))


def is_between_neighbours(flow: Flow) -> bool:
    """IPv6 neighbour discovery on the link (A26). What a router would forward is plain ICMPv6."""
    destination = end_address(flow.dst, 6)
    return (
        flow.family == 6
        and isinstance(destination, IPv6Address)
        and (destination.is_link_local or destination in LINK_MULTICAST)
        and is_neighbour_discovery(flow.service)
    )


def end_verdict(
    policies: PolicySet, direction: Direction, subject: End | None, peer: End | None, flow: Flow
) -> EndVerdict:
    """The verdict of one end, from its tiers in order. An end that is no endpoint has none (A3)."""
    if not isinstance(subject, Endpoint):
        return OUTSIDE
    for tier in policies.tiers:
        decided = _tier_verdict(tier, direction, subject, peer, flow)
        if decided is not None:
            return decided
    return NOT_ISOLATED


def _tier_verdict(
    tier: Tier, direction: Direction, subject: Endpoint, peer: End | None, flow: Flow
) -> EndVerdict | None:
    """The tier's verdict, or None where the flow goes on to the next tier."""
    selecting = [p for p in tier.policies if selects(p.subject, subject)]
    for policy, index, rule in _in_order(tier.mode, selecting, direction):
        if rule_matches(rule, direction, subject, peer, flow):
            if rule.action is Action.PASS:
                return None
            return EndVerdict(rule.action, DecidedByRule(tier.name, policy, direction, index))
    isolating = tuple(p for p in selecting if direction in p.isolates)
    if isolating and tier.unmatched is not Action.PASS:
        return EndVerdict(tier.unmatched, DeniedByDefault(tier.name, direction, isolating))
    return None


def _in_order(
    mode: TierMode, policies: list[Policy], direction: Direction
) -> Iterator[tuple[Policy, int, Rule]]:
    """The rules in the order in which the first match decides: under DENY_WINS, denies first."""
    rules = [(p, i, r) for p in policies for i, r in enumerate(p.rules(direction))]
    if mode is TierMode.DENY_WINS:
        rules.sort(key=lambda item: not item[2].action.is_deny)
    yield from rules


def rule_matches(
    rule: Rule, direction: Direction, subject: Endpoint, peer: End | None, flow: Flow
) -> bool:
    """Peers AND ports (A9). Ports, also named ones, are always the destination's (A19, A20)."""
    destination = subject if direction is Direction.INGRESS else peer
    return any(peer_matches(p, peer, flow.family) for p in rule.peers) and any(
        ports_match(p, destination, flow) for p in rule.ports
    )


def peer_matches(peer: Peer, other: End | None, family: int) -> bool:
    """Whether the other side of a flow is one of a rule's peers."""
    match peer:
        case AnyPeer():
            return True
        case EndpointPeer(selector):  # never an address that is no pod's (A12)
            return isinstance(other, Endpoint) and selects(selector, other)
        case AddressPeer():  # pod addresses too (A15); families never cross (A14)
            address = None if other is None else end_address(other, family)
            return address is not None and in_block(peer, address)
        case _:
            assert_never(peer)


def in_block(block: AddressPeer, address: Address) -> bool:
    """Inside the CIDR and in none of its excepts (A14)."""
    if address.version != block.network.version:
        return False
    return address in block.network and not any(address in hole for hole in block.excepts)


def ports_match(ports: Ports, destination: End | None, flow: Flow) -> bool:
    """Whether the flow's service is among a port entry's (A17 to A20)."""
    service = flow.service
    match ports:
        case AnyService():
            return True
        case EveryPort(protocol):
            return service.number == protocol.value
        case PortRange(protocol, lo, hi):
            return service.number == protocol.value and lo <= service.value <= hi
        case NamedPort(protocol, name):
            if not isinstance(destination, Endpoint) or service.number != protocol.value:
                return False
            return service.value in destination.named_ports(name, protocol)
        case _:
            assert_never(ports)


def selects(selector: EndpointSelector, endpoint: Endpoint) -> bool:
    """Whether a selector selects an endpoint: namespace AND pod labels (A2, A5, A10)."""
    if selector.namespace is not None and selector.namespace != endpoint.namespace:
        return False
    return labels_match(selector.namespace_labels, endpoint.namespace_labels) and labels_match(
        selector.labels, endpoint.labels
    )


def labels_match(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """All requirements hold (A13)."""
    return all(requirement_holds(r, labels) for r in selector.requirements)


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One requirement; NotIn also holds where the key is absent (A13)."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value is None or value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case _:
            assert_never(requirement.operator)


def _as_seen(end: End, family: int) -> End | None:
    """A hostNetwork pod is seen as its node's address (A21)."""
    if not isinstance(end, Endpoint) or not end.host_network:
        return end
    return end.address(family)


def is_from_its_node(src: End, dst: End) -> bool:
    """The source is the node that the destination runs on, seen as a hostNetwork pod of it (A22)."""
    return (
        isinstance(src, Endpoint)
        and isinstance(dst, Endpoint)
        and src.host_network
        and bool(src.node)
        and src.node == dst.node
    )
