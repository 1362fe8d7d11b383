# SPDX-License-Identifier: Apache-2.0
"""Whether two selectors, peers or port entries can match the same flow: "no" only if that is certain.

Conjunctions of label requirements are decided exactly, one key at a time, since keys are independent.
Conditions and boolean peers are only said to overlap possibly.
"""

from collections.abc import Iterable
from functools import lru_cache

from policyc.ir.policy import (
    AddressPeer,
    AnyService,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    NamedPort,
    Network,
    NodePeer,
    Operator,
    Peer,
    PortRange,
    Ports,
    Requirement,
    Rule,
)
from policyc.ir.selectors import AllOf, AttributeTest, Condition, LabelSelector


def rules_overlap(one: Rule, other: Rule) -> bool:
    """Whether some flow of a common subject can match both."""
    return any(peers_overlap(a, b) for a in one.peers for b in other.peers) and any(
        ports_overlap(a, b) for a in one.ports for b in other.ports
    )


@lru_cache(maxsize=65536)
def endpoints_overlap(one: EndpointSelector, other: EndpointSelector) -> bool:
    """Whether some endpoint can be selected by both."""
    if None not in (one.namespace, other.namespace) and one.namespace != other.namespace:
        return False
    return labels_overlap(one.namespace_labels, other.namespace_labels) and labels_overlap(
        one.labels, other.labels
    )


@lru_cache(maxsize=65536)
def labels_overlap(one: LabelSelector, other: LabelSelector) -> bool:
    """Whether some set of labels satisfies both; exact."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in (*one.requirements, *other.requirements):
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(_can_hold(requirements) for requirements in by_key.values())


def _can_hold(requirements: Iterable[Requirement]) -> bool:
    """Whether one label can satisfy them all: absent, with a listed value, or with any other."""
    found = list(requirements)
    absent = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
    if all(requirement.operator in absent for requirement in found):
        return True
    if any(requirement.operator is Operator.DOES_NOT_EXIST for requirement in found):
        return False
    listed = [set(r.values) for r in found if r.operator is Operator.IN]
    if not listed:
        return True
    refused = {v for r in found if r.operator is Operator.NOT_IN for v in r.values}
    return bool(set.intersection(*listed) - refused)


def peers_overlap(one: Peer, other: Peer) -> bool:
    """Whether some end can be one of both peers."""
    match one, other:
        case EndpointPeer(mine), EndpointPeer(theirs):
            return endpoints_overlap(mine, theirs)
        case (EndpointPeer(), NodePeer()) | (NodePeer(), EndpointPeer()):
            return (
                False  # a pod in its node's network is the node, and no selector matches it (A21)
            )
        case AddressPeer(mine), AddressPeer(theirs):
            return _networks_overlap(mine, theirs)
        case NodePeer(mine), NodePeer(theirs):
            return labels_overlap(_requirements(mine), _requirements(theirs))
        case _:
            return True


def _networks_overlap(one: Network, other: Network) -> bool:
    if one.version != other.version:
        return False
    shorter, longer = sorted((one, other), key=lambda network: network.prefixlen)
    return longer.network_address in shorter


def _requirements(condition: Condition) -> LabelSelector:
    """The tests of a plain conjunction, on labels of one sort; none for anything else."""
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    tests = tuple(part for part in parts if isinstance(part, AttributeTest))
    if len({test.attribute for test in tests}) != 1:
        return LabelSelector()
    return LabelSelector(tuple(test.requirement for test in tests))


def ports_overlap(one: Ports, other: Ports) -> bool:
    """Whether some service can be among both entries; a name may stand for any number."""
    match one, other:
        case (AnyService(), _) | (_, AnyService()):
            return True
        case PortRange(), PortRange():
            is_apart = one.hi < other.lo or other.hi < one.lo
            return one.protocol is other.protocol and not is_apart
        case ((PortRange() | NamedPort() | EveryPort()), (PortRange() | NamedPort() | EveryPort())):
            return one.protocol is other.protocol
        case _:
            return True
