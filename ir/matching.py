# SPDX-License-Identifier: Apache-2.0
"""The reference semantics below rules: the ends that a peer matches and the services of a port entry.

Part of the oracle (`ir/semantics.py`): a direct transcription, slow and short.
"""

from collections.abc import Mapping
from typing import assert_never

from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import (
    AnyService,
    EveryPort,
    IcmpType,
    NamedPort,
    PortRange,
    Ports,
    ProtocolNumber,
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
    Operator,
    Requirement,
)
from policyc.ir.services import Service
from policyc.ir.universe import Address, End, Endpoint, Node, Subject, end_address


def peer_matches(peer: Peer, other: End, family: int, subject: Subject) -> bool:
    """Whether an end is one of a rule's peers; `subject` is the subject of the rule."""
    match peer:
        case AnyPeer():
            return True
        case EndpointPeer(selector):  # never an address that is no pod's (A12)
            return isinstance(other, Endpoint) and selects(selector, other)
        case AddressPeer():  # pod addresses too (A15); families never cross (A14)
            address = end_address(other, family)
            return address is not None and in_block(peer, address)
        case NodePeer():
            return isinstance(other, Node) and node_matches(peer, other, subject)
        case AllOf(parts):
            return all(peer_matches(part, other, family, subject) for part in parts)
        case OneOf(parts):
            return any(peer_matches(part, other, family, subject) for part in parts)
        case Not(part):
            return not peer_matches(part, other, family, subject)
        case _:
            assert_never(peer)


def in_block(block: AddressPeer, address: Address) -> bool:
    """Whether an address is inside the CIDR and in none of its excepts (A14)."""
    if address.version != block.network.version:
        return False
    return address in block.network and not any(address in hole for hole in block.excepts)


def node_matches(peer: NodePeer, node: Node, subject: Subject) -> bool:
    """Whether the node's labels match, and whether it is the subject's own node (B33, C40, E45)."""
    if not condition_holds(peer.condition, node):
        return False
    own = subject.node if isinstance(subject, Endpoint) else subject.name
    is_local = bool(own) and node.name == own
    match peer.where:
        case Where.ANYWHERE:
            return True
        case Where.LOCAL:
            return is_local
        case Where.REMOTE:
            return not is_local
        case _:
            assert_never(peer.where)


def service_matches(ports: Ports, destination: End, service: Service) -> bool:
    """Whether a service is one of a port entry's (A17 to A20)."""
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
        case IcmpType(kind, icmp_type, code):
            return (
                service.kind is kind
                and icmp_type in (None, service.value >> 8)
                and code in (None, service.value & 0xFF)
            )
        case ProtocolNumber(number):
            return service.number == number
        case _:
            assert_never(ports)


def selects(selector: EndpointSelector, endpoint: Endpoint) -> bool:
    """Whether a selector selects an endpoint: all of its parts hold (A2, A5, A10)."""
    if selector.namespace is not None and selector.namespace != endpoint.namespace:
        return False
    return (
        labels_match(selector.namespace_labels, endpoint.namespace_labels)
        and labels_match(selector.labels, endpoint.labels)
        and condition_holds(selector.condition, endpoint)
    )


def labels_match(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold (A13)."""
    return all(requirement_holds(r, labels) for r in selector.requirements)


def condition_holds(condition: Condition, subject: Subject) -> bool:
    """Whether a condition holds of an endpoint or a node."""
    match condition:
        case AttributeTest(attribute, requirement):
            return requirement_holds(requirement, attributes(attribute, subject))
        case AllOf(parts):
            return all(condition_holds(part, subject) for part in parts)
        case OneOf(parts):
            return any(condition_holds(part, subject) for part in parts)
        case Not(part):
            return not condition_holds(part, subject)
        case _:
            assert_never(condition)


def attributes(attribute: Attribute, of: Subject) -> Mapping[str, str]:
    """The values of an attribute of an endpoint or a node; a name is under the empty key."""
    if isinstance(of, Node):
        return _node_attributes(attribute, of)
    match attribute:
        case Attribute.LABEL:
            return of.labels
        case Attribute.NAMESPACE_LABEL:
            return of.namespace_labels
        case Attribute.SERVICE_ACCOUNT_LABEL:
            return of.service_account_labels
        case Attribute.NAMESPACE:
            return {"": of.namespace}
        case Attribute.SERVICE_ACCOUNT:
            return {"": of.service_account}
        case Attribute.NODE_LABEL:
            return of.its_node.labels if of.its_node is not None else {}
        case Attribute.NODE:
            return {"": of.node} if of.node else {}
        case _:
            assert_never(attribute)


def _node_attributes(attribute: Attribute, node: Node) -> Mapping[str, str]:
    """A node has its name and labels; own labels are those of its host interface."""
    match attribute:
        case Attribute.LABEL:
            return node.host.labels if node.host is not None else {}
        case Attribute.NODE_LABEL:
            return node.labels
        case Attribute.NODE:
            return {"": node.name} if node.name else {}
        case _:
            return {}


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement holds; NotIn also holds if the key is absent (A13)."""
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
        case Operator.STARTS_WITH:
            return value is not None and value.startswith(requirement.values)
        case Operator.ENDS_WITH:
            return value is not None and value.endswith(requirement.values)
        case Operator.CONTAINS:
            return value is not None and any(text in value for text in requirement.values)
        case _:
            assert_never(requirement.operator)
