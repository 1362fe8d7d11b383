# SPDX-License-Identifier: Apache-2.0
"""Text for selectors, peers, ports and rules of the Policy IR.

Dumps, comments of the emitted C, findings and explanations show it.
"""

from typing import assert_never

from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import (
    Action,
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
from policyc.ir.selectors import (
    ALWAYS,
    AllOf,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
)


def describe_selector(selector: EndpointSelector) -> str:
    """The text of a selector: `shop: app=web`."""
    where = selector.namespace or "*"
    if selector.namespace_labels.requirements:
        where = f"namespaces with {_labels(selector.namespace_labels)}"
    shown = f"{where}: {_labels(selector.labels)}"
    if selector.condition == ALWAYS:
        return shown
    return f"{shown}, {describe_condition(selector.condition)}"


def describe_condition(condition: Condition) -> str:
    """The text of a condition: `(label app=web or not service account in (a,b))`."""
    match condition:
        case AttributeTest(attribute, requirement):
            shown = describe_requirement(requirement)
            return f"{attribute.value} {shown}" if requirement.key else f"{attribute.value}{shown}"
        case AllOf(parts):
            return f"({' and '.join(map(describe_condition, parts))})" if parts else "always"
        case OneOf(parts):
            return f"({' or '.join(map(describe_condition, parts))})" if parts else "never"
        case Not(part):
            return f"not {describe_condition(part)}"
        case _:
            assert_never(condition)


def _labels(selector: LabelSelector) -> str:
    return " ".join(map(describe_requirement, selector.requirements)) or "all pods"


def describe_requirement(requirement: Requirement) -> str:
    """The text of a requirement: `app=web`, `tier notin (a,b)`."""
    values = ",".join(value or "''" for value in requirement.values)
    match requirement.operator:
        case Operator.IN:
            one = len(requirement.values) == 1
            return f"{requirement.key}={values}" if one else f"{requirement.key} in ({values})"
        case Operator.NOT_IN:
            return f"{requirement.key} notin ({values})"
        case Operator.EXISTS:
            return requirement.key
        case Operator.DOES_NOT_EXIST:
            return f"!{requirement.key}"
        case Operator.STARTS_WITH:
            return f"{requirement.key} starts with {values}"
        case Operator.ENDS_WITH:
            return f"{requirement.key} ends with {values}"
        case Operator.CONTAINS:
            return f"{requirement.key} contains {values}"
        case _:
            assert_never(requirement.operator)


def describe_peer(peer: Peer) -> str:
    """The text of a peer: `[shop: app=web]`, `192.0.2.0/24 except 192.0.2.9/32`, `any peer`."""
    match peer:
        case AnyPeer():
            return "any peer"
        case EndpointPeer(selector):
            return f"[{describe_selector(selector)}]"
        case AddressPeer(network, excepts):
            holes = f" except {', '.join(map(str, excepts))}" if excepts else ""
            return f"{network}{holes}"
        case NodePeer(condition, where):
            which = "nodes" if where is Where.ANYWHERE else f"{where.value} nodes"
            return which if condition == ALWAYS else f"{which} with {describe_condition(condition)}"
        case AllOf(parts):
            return f"({' & '.join(map(describe_peer, parts))})" if parts else "any peer"
        case OneOf(parts):
            return f"({' | '.join(map(describe_peer, parts))})" if parts else "no peer"
        case Not(part):
            return f"not {describe_peer(part)}"
        case _:
            assert_never(peer)


def describe_ports(ports: Ports) -> str:
    """The text of a port entry: `TCP 80-90`, `ICMP type 8`."""
    match ports:
        case AnyService():
            return "any service"
        case EveryPort(protocol):
            return protocol.name
        case PortRange(protocol, lo, hi):
            return f"{protocol.name} {lo}" if lo == hi else f"{protocol.name} {lo}-{hi}"
        case NamedPort(protocol, name):
            return f"{protocol.name} {name!r}"
        case IcmpType(kind, icmp_type, code):
            typed = "" if icmp_type is None else f" type {icmp_type}"
            return f"{kind.name}{typed}" if code is None else f"{kind.name}{typed} code {code}"
        case ProtocolNumber(number):
            return f"protocol {number}"
        case _:
            assert_never(ports)


def describe_rule(rule: Rule, direction: Direction) -> str:
    """The text of a rule: `allow from [shop: app=web]: TCP 80`, then its conditions and effects."""
    peers = " | ".join(map(describe_peer, rule.peers)) or "no peer"
    side = "from" if direction is Direction.INGRESS else "to"
    action = rule.action.outcome.value
    shown = f"{action} {side} {peers}: {', '.join(map(describe_ports, rule.ports))}"
    if rule.except_ports:
        shown += f" except {', '.join(map(describe_ports, rule.except_ports))}"
    if rule.source_ports is not None:
        spans = (str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in rule.source_ports)
        shown += f", source ports {', '.join(spans) or 'none'}"
    if not isinstance(rule.own, AnyPeer):
        shown += f", where the subject is {describe_peer(rule.own)}"
    if rule.limit is not None:
        shown += f", {rule.limit.per_second}/s burst {rule.limit.burst}"
    if rule.action is Action.DENY_OWN_NODE:
        shown += ", also flows that the pod's own node generates"
    return f"{shown}, logged" if rule.log else shown
