# SPDX-License-Identifier: Apache-2.0
"""Why a rule does not match a flow, part by part: `rule_matches` of the semantics, with reasons.

A part gets reasons exactly where `ir/matching.py` says that it does not match.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from policyc.ir.describe import describe_peer, describe_ports
from policyc.ir.matching import (
    attributes,
    condition_holds,
    node_matches,
    peer_matches,
    requirement_holds,
    service_matches,
)
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer
from policyc.ir.policy import (
    AnyService,
    Direction,
    EveryPort,
    IcmpType,
    NamedPort,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.results.explain import Mismatch, RulePart
from policyc.ir.results.reasons import (
    ConditionFails,
    ExceptedPort,
    Excluded,
    InsideExcept,
    NoAddress,
    NoAlternative,
    NotANode,
    NotAPod,
    NotDeclared,
    OtherIcmp,
    OtherNamespace,
    OtherProtocol,
    OutsideBlock,
    OutsidePorts,
    OutsideSourcePorts,
    Reason,
    RequirementFails,
    WrongNode,
)
from policyc.ir.selectors import (
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Not,
    OneOf,
)
from policyc.ir.services import Service
from policyc.ir.universe import End, Endpoint, Flow, Node, Subject, end_address, end_name

Reasons = tuple[Reason, ...]


def mismatches(
    rule: Rule, direction: Direction, subject: Subject, peer: End, flow: Flow
) -> tuple[Mismatch, ...]:
    """The parts of a rule that do not match; none exactly if the rule matches."""
    destination = subject if direction is Direction.INGRESS else peer
    own = peer_reasons(rule.own, subject, flow.family, subject)
    theirs = [(describe_peer(p), peer_reasons(p, peer, flow.family, subject)) for p in rule.peers]
    ports = [(describe_ports(p), service_reasons(p, destination, flow.service)) for p in rule.ports]
    excepted = next(
        (p for p in rule.except_ports if service_matches(p, destination, flow.service)), None
    )
    found = [_nearest(RulePart.OWN, [(describe_peer(rule.own), own)])]
    found += [_nearest(RulePart.PEER, theirs), _nearest(RulePart.PORTS, ports)]
    if excepted is not None:
        reason = ExceptedPort(flow.service, excepted)
        found.append(Mismatch(RulePart.EXCEPT_PORTS, describe_ports(excepted), (reason,)))
    if rule.source_ports is not None and (
        flow.source_port is None or flow.source_port not in rule.source_ports
    ):
        why = OutsideSourcePorts(flow.source_port, rule.source_ports)
        found.append(Mismatch(RulePart.SOURCE_PORTS, "source ports", (why,)))
    return tuple(mismatch for mismatch in found if mismatch is not None)


def _nearest(part: RulePart, alternatives: Sequence[tuple[str, Reasons]]) -> Mismatch | None:
    """The alternative with the fewest reasons against it; None if one matches."""
    if not alternatives:
        return Mismatch(part, "nothing", (NoAlternative(part.value),), 0)
    asked, reasons = min(alternatives, key=lambda alternative: _weight(alternative[1]))
    return Mismatch(part, asked, reasons, len(alternatives)) if reasons else None


def _weight(reasons: Reasons) -> int:
    """The number of reasons against an alternative: one of another sort altogether counts double."""
    return sum(2 if isinstance(reason, _OTHER_SORT) else 1 for reason in reasons)


_OTHER_SORT = (NotANode, NotAPod, NoAlternative, OtherProtocol)


def peer_reasons(peer: Peer, other: End, family: int, subject: Subject) -> Reasons:
    """Why an end is not one of a peer; empty if it is."""
    match peer:
        case AnyPeer():
            return ()
        case EndpointPeer(selector):
            if not isinstance(other, Endpoint):
                return (NotAPod(end_name(other)),)
            return selector_reasons(selector, other)
        case AddressPeer():
            return _block_reasons(peer, other, family)
        case NodePeer():
            return _node_reasons(peer, other, subject)
        case AllOf(parts):
            return _flat(peer_reasons(part, other, family, subject) for part in parts)
        case OneOf(parts):
            return _fewest(peer_reasons(part, other, family, subject) for part in parts)
        case Not(part):
            if peer_matches(part, other, family, subject):
                return (Excluded(end_name(other), part),)
            return ()
        case _:
            assert_never(peer)


def _flat(parts: Iterable[Reasons]) -> Reasons:
    return tuple(dict.fromkeys(reason for part in parts for reason in part))


def _fewest(parts: Iterable[Reasons]) -> Reasons:
    return min(parts, key=_weight, default=(NoAlternative(RulePart.PEER.value),))


def _block_reasons(block: AddressPeer, other: End, family: int) -> Reasons:
    address = end_address(other, family)
    if address is None:
        return (NoAddress(end_name(other), block),)
    if address.version != block.network.version or address not in block.network:
        return (OutsideBlock(address, block.network),)
    holes = [hole for hole in block.excepts if address in hole]
    return tuple(InsideExcept(address, block.network, hole) for hole in holes)


def _node_reasons(peer: NodePeer, other: End, subject: Subject) -> Reasons:
    if not isinstance(other, Node):
        return (NotANode(end_name(other)),)
    if node_matches(peer, other, subject):
        return ()
    reasons = condition_reasons(peer.condition, other)
    placed = node_matches(NodePeer(where=peer.where), other, subject)
    return reasons if placed else (*reasons, WrongNode(end_name(other), peer.where))


def selector_reasons(selector: EndpointSelector, endpoint: Endpoint) -> Reasons:
    """Why a selector does not select an endpoint: every part that fails."""
    name = endpoint.qualified_name
    found: list[Reason] = []
    if selector.namespace is not None and selector.namespace != endpoint.namespace:
        found.append(OtherNamespace(name, selector.namespace, endpoint.namespace))
    found += _labels(Attribute.NAMESPACE_LABEL, selector.namespace_labels, endpoint)
    found += _labels(Attribute.LABEL, selector.labels, endpoint)
    return (*found, *condition_reasons(selector.condition, endpoint))


def _labels(attribute: Attribute, selector: LabelSelector, endpoint: Endpoint) -> Reasons:
    tests = (AttributeTest(attribute, requirement) for requirement in selector.requirements)
    return _flat(condition_reasons(test, endpoint) for test in tests)


def condition_reasons(condition: Condition, subject: Subject) -> Reasons:
    """Why a condition does not hold; of alternatives, why the nearest does not."""
    match condition:
        case AttributeTest(attribute, requirement):
            values = attributes(attribute, subject)
            if requirement_holds(requirement, values):
                return ()
            has = values.get(requirement.key)
            return (RequirementFails(end_name(subject), attribute, requirement, has),)
        case AllOf(parts):
            return _flat(condition_reasons(part, subject) for part in parts)
        case OneOf(parts) if parts:
            return _fewest(condition_reasons(part, subject) for part in parts)
        case OneOf() | Not():
            holds = condition_holds(condition, subject)
            return () if holds else (ConditionFails(end_name(subject), condition),)
        case _:
            assert_never(condition)


def service_reasons(ports: Ports, destination: End, service: Service) -> Reasons:
    """Why a service is not among a port entry's; empty if it is."""
    if service_matches(ports, destination, service):
        return ()
    match ports:
        case EveryPort() | ProtocolNumber():
            return (OtherProtocol(service, ports),)
        case PortRange(protocol, lo, hi):
            if service.number != protocol.value:
                return (OtherProtocol(service, ports),)
            return (OutsidePorts(service.value, lo, hi),)
        case NamedPort(protocol, name):
            if service.number != protocol.value:
                return (OtherProtocol(service, ports),)
            pod = destination if isinstance(destination, Endpoint) else None
            has = tuple(sorted(pod.named_ports(name, protocol))) if pod else ()
            end = end_name(destination)
            return (NotDeclared(end, name, protocol, service.value, has, pod is not None),)
        case IcmpType(kind):
            if service.kind is not kind:
                return (OtherProtocol(service, ports),)
            return (OtherIcmp(service, ports),)
        case AnyService():
            return ()
        case _:
            assert_never(ports)
