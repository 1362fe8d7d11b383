# SPDX-License-Identifier: Apache-2.0
"""A valid NetworkPolicy -> Policy IR. Semantics A5 to A20 say what each field becomes."""

from policyc.compiler.frontend.kubernetes.addresses import parse_cidr
from policyc.compiler.frontend.kubernetes.selectors import lower_selector
from policyc.compiler.frontend.network_policy.policy import (
    EGRESS,
    INGRESS,
    NetworkPolicy,
    Peer,
    Port,
    Rule,
)
from policyc.ir import policy as ir
from policyc.ir.errors import InternalError
from policyc.ir.services import Protocol
from policyc.ir.spans import Origin

_ANY_PEER: tuple[ir.Peer, ...] = (ir.AnyPeer(),)
_ANY_SERVICE: tuple[ir.Ports, ...] = (ir.AnyService(),)


def lower_network_policy(policy: NetworkPolicy) -> ir.Policy:
    """One policy; its rules only allow, and selection isolates its policyTypes (A1, A7)."""
    meta = policy.metadata
    directions = frozenset(
        ir.Direction.INGRESS if name == INGRESS else ir.Direction.EGRESS
        for name in policy.policy_types
    )
    return ir.Policy(
        kind=ir.NETWORK_POLICY,
        namespace=meta.namespace,
        name=meta.name,
        subject=ir.EndpointSelector(meta.namespace, labels=lower_selector(policy.pod_selector)),
        isolates=directions,
        ingress=_rules(policy, ir.Direction.INGRESS, directions),
        egress=_rules(policy, ir.Direction.EGRESS, directions),
        origin=Origin(meta.span, "metadata.name"),
    )


def _rules(
    policy: NetworkPolicy, direction: ir.Direction, directions: frozenset[ir.Direction]
) -> tuple[ir.Rule, ...]:
    """The rules of one direction; none if policyTypes omits it: those are dead (A6)."""
    return _written(policy, direction) if direction in directions else ()


def left_out_egress(policy: NetworkPolicy) -> tuple[ir.Rule, ...]:
    """The egress rules of a policy whose policyTypes omits egress (A6)."""
    if EGRESS in policy.policy_types:
        return ()
    return _written(policy, ir.Direction.EGRESS)


def _written(policy: NetworkPolicy, direction: ir.Direction) -> tuple[ir.Rule, ...]:
    rules = policy.ingress if direction is ir.Direction.INGRESS else policy.egress
    return tuple(
        _rule(rule, policy.metadata.namespace, f"spec.{direction.value}[{index}]")
        for index, rule in enumerate(rules)
    )


def _rule(rule: Rule, namespace: str, path: str) -> ir.Rule:
    """Absent and empty lists mean any peer, any service (A9)."""
    return ir.Rule(
        ir.Action.ALLOW,
        tuple(_peer(peer, namespace) for peer in rule.peers) or _ANY_PEER,
        tuple(_port(port) for port in rule.ports) or _ANY_SERVICE,
        Origin(rule.node.span, path),
    )


def _peer(peer: Peer, namespace: str) -> ir.Peer:
    """A10: without namespaceSelector, the policy's own namespace."""
    if peer.ip_block is not None:
        return _address_peer(peer.ip_block.cidr or "", peer.ip_block.excepts)
    labels = lower_selector(peer.pod_selector)
    if peer.namespace_selector is None:
        return ir.EndpointPeer(ir.EndpointSelector(namespace, labels=labels))
    namespaces = lower_selector(peer.namespace_selector)
    return ir.EndpointPeer(ir.EndpointSelector(None, namespaces, labels))


def _address_peer(cidr: str, excepts: tuple[str, ...]) -> ir.AddressPeer:
    holes = {_network(text) for text in excepts}
    return ir.AddressPeer(_network(cidr), tuple(sorted(holes, key=str)))


def _network(text: str) -> ir.Network:
    cidr = parse_cidr(text)
    if cidr is None:
        raise InternalError(f"the CIDR {text!r} got past the validation")
    return cidr.network


def _port(port: Port) -> ir.Ports:
    """A17 to A20."""
    protocol = Protocol[port.protocol or "TCP"]
    match port.port:
        case None:
            return ir.EveryPort(protocol)
        case str(name):
            return ir.NamedPort(protocol, name)
        case int(number):
            return ir.PortRange(protocol, number, port.end_port or number)
