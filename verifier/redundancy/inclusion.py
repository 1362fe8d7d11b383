# SPDX-License-Identifier: Apache-2.0
"""Inclusion and disjointness of selectors, peers and rules, as far as their parts show it.

What is within is so for every pod, node and address that could exist; else nothing is said. What may not
meet has nothing in common.
"""

from policyc.ir.passes.cancel import may_overlap
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, Peer, is_inside
from policyc.ir.policy import NEVER, AnyService, EveryPort, NamedPort, Policy, Ports, Rule
from policyc.ir.selectors import (
    ALWAYS,
    AllOf,
    Condition,
    EndpointSelector,
    LabelSelector,
    OneOf,
    Operator,
    Requirement,
)
from policyc.ir.services import kind_span
from policyc.verifier.cluster.rows import services_of_ports

_PRESENT = frozenset(
    {Operator.IN, Operator.EXISTS, Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS}
)
"""Operators that hold only if the key is there."""


def selects_within(narrow: EndpointSelector, wide: EndpointSelector) -> bool:
    """Every endpoint that `narrow` selects, `wide` selects as well."""
    return (
        wide.namespace in (None, narrow.namespace)
        and _labels_within(narrow.labels, wide.labels)
        and _labels_within(narrow.namespace_labels, wide.namespace_labels)
        and _condition_within(narrow.condition, wide.condition)
    )


def may_meet(policy: Policy, other: Policy) -> bool:
    """False: no end, pod or host interface, is selected by both."""
    if policy.hosts != NEVER and other.hosts != NEVER:
        return True
    return may_overlap(policy.subject, other.subject)


def _labels_within(narrow: LabelSelector, wide: LabelSelector) -> bool:
    return all(
        any(_implies(mine, theirs) for mine in narrow.requirements) for theirs in wide.requirements
    )


def _implies(one: Requirement, other: Requirement) -> bool:
    """NOT_IN and DOES_NOT_EXIST hold where the key is absent (A13)."""
    if one.key != other.key:
        return False
    if one == other:
        return True
    match one.operator, other.operator:
        case Operator.IN, Operator.IN:
            return set(one.values) <= set(other.values)
        case Operator.IN, Operator.NOT_IN:
            return not set(one.values) & set(other.values)
        case Operator.NOT_IN, Operator.NOT_IN:
            return set(one.values) >= set(other.values)
        case Operator.DOES_NOT_EXIST, Operator.NOT_IN:
            return True
        case operator, Operator.EXISTS:
            return operator in _PRESENT
        case _:
            return False


def _condition_within(narrow: Condition, wide: Condition) -> bool:
    if wide in (ALWAYS, narrow):
        return True
    ours = narrow.parts if isinstance(narrow, AllOf) else (narrow,)
    theirs = wide.parts if isinstance(wide, AllOf) else (wide,)
    return set(theirs) <= set(ours)


def peer_within(narrow: Peer, wide: Peer) -> bool:
    """Every end that `narrow` means, `wide` means as well."""
    if isinstance(wide, AnyPeer) or narrow == wide:
        return True
    match narrow, wide:
        case EndpointPeer(mine), EndpointPeer(theirs):
            return selects_within(mine, theirs)
        case AddressPeer(), AddressPeer():
            return _addresses_within(narrow, wide)
        case OneOf(parts), _:
            return all(peer_within(part, wide) for part in parts)
        case _, AllOf(parts):
            return all(peer_within(narrow, part) for part in parts)
        case AllOf(parts), _:
            return any(peer_within(part, wide) for part in parts)
        case _, OneOf(parts):
            return any(peer_within(narrow, part) for part in parts)
        case _:
            return False


def _addresses_within(narrow: AddressPeer, wide: AddressPeer) -> bool:
    """A hole of `wide` must be outside `narrow`, or be one of its holes."""
    if not is_inside(narrow.network, wide.network):
        return False
    return all(
        any(is_inside(hole, mine) for mine in narrow.excepts)
        for hole in wide.excepts
        if is_inside(hole, narrow.network) or is_inside(narrow.network, hole)
    )


def matches_within(narrow: Rule, wide: Rule) -> bool:
    """Every flow that `narrow` matches, `wide` matches as well, for the same subject."""
    if narrow.opaque is not None or wide.opaque is not None or wide.except_ports:
        return False
    return (
        peer_within(narrow.own, wide.own)
        and all(any(peer_within(one, other) for other in wide.peers) for one in narrow.peers)
        and _ports_within(narrow.ports, wide.ports)
        and _source_ports_within(narrow, wide)
    )


def _source_ports_within(narrow: Rule, wide: Rule) -> bool:
    if wide.source_ports is None:
        return True
    return narrow.source_ports is not None and not narrow.source_ports - wide.source_ports


def _ports_within(narrow: tuple[Ports, ...], wide: tuple[Ports, ...]) -> bool:
    """Whatever numbers destinations declare: a named port is within itself, or within its protocol."""
    if any(isinstance(each, AnyService) for each in wide) or set(narrow) <= set(wide):
        return True
    theirs = services_of_ports(wide, _undeclared)
    names = {each for each in narrow if isinstance(each, NamedPort)} - set(wide)
    mine = services_of_ports(
        (each for each in narrow if not isinstance(each, NamedPort)), _undeclared
    )
    return not mine - theirs and not any(kind_span(each.protocol.kind) - theirs for each in names)


def _undeclared(_: NamedPort) -> tuple[int, ...]:
    return ()


def matches_may_meet(one: Rule, other: Rule) -> bool:
    """False: no flow matches both, for any subject."""
    if not any(peers_may_meet(mine, theirs) for mine in one.peers for theirs in other.peers):
        return False
    return _ports_may_meet(one.ports, other.ports)


def peers_may_meet(one: Peer, other: Peer) -> bool:
    """False: no end is meant by both."""
    match one, other:
        case EndpointPeer(mine), EndpointPeer(theirs):
            return may_overlap(mine, theirs)
        case AddressPeer(), AddressPeer():
            return is_inside(one.network, other.network) or is_inside(other.network, one.network)
        case _:
            return True


def _ports_may_meet(one: tuple[Ports, ...], other: tuple[Ports, ...]) -> bool:
    """A named port may be any number of its protocol."""
    mine, theirs = (
        services_of_ports((_widest(each) for each in ports), _undeclared) for ports in (one, other)
    )
    return bool(mine & theirs)


def _widest(port: Ports) -> Ports:
    return EveryPort(port.protocol) if isinstance(port, NamedPort) else port
