# SPDX-License-Identifier: Apache-2.0
"""Conditions and peers in disjunctive normal form, from which flat APIs can be written.

A literal is a leaf, or a leaf that must not hold. An expression with too many alternatives is refused;
no person would want to read it either.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, Leaf, NodePeer, Peer
from policyc.ir.selectors import (
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
    as_condition,
)

MOST_ALTERNATIVES = 64
T = TypeVar("T")
Literal = tuple[T, bool]
"""A leaf, and whether it must hold."""


class UnsayableError(Exception):
    """The target cannot express this; the text is a clause with the reason."""


def alternatives(expression: object, is_wanted: bool = True) -> list[tuple[Literal[object], ...]]:
    """The expression (or its negation) in disjunctive normal form; no alternative: it never holds."""
    match expression:
        case AllOf(parts) | OneOf(parts):
            of_parts = [alternatives(part, is_wanted) for part in parts]
            if isinstance(expression, AllOf) == is_wanted:
                return _checked(
                    tuple(lit for each in way for lit in each) for way in product(*of_parts)
                )
            return _checked(way for ways in of_parts for way in ways)
        case Not(part):
            return alternatives(part, not is_wanted)
        case _:
            return [((expression, is_wanted),)]


def _checked(ways: Iterator[tuple[Literal[object], ...]]) -> list[tuple[Literal[object], ...]]:
    found: dict[tuple[Literal[object], ...], None] = {}
    for way in ways:
        found[tuple(dict.fromkeys(way))] = None
        if len(found) > MOST_ALTERNATIVES:
            raise UnsayableError(f"its expansion has more than {MOST_ALTERNATIVES} alternatives")
    return list(found)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Endpoints by requirements that all hold: on their own labels, and on their namespace's."""

    labels: tuple[Requirement, ...] = ()
    namespace_labels: tuple[Requirement, ...] = ()
    namespaces: frozenset[str] | None = None
    """The only possible namespaces, by name; None if names do not matter."""


_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def conjunctions(condition: Condition) -> list[Conjunction]:
    """Kubernetes label selectors, as alternatives; raises for conditions that they cannot express."""
    return [_conjunction(way) for way in alternatives(condition)]


def _conjunction(way: tuple[Literal[object], ...]) -> Conjunction:
    labels: list[Requirement] = []
    of_namespace: list[Requirement] = []
    names: frozenset[str] | None = None
    for test, is_wanted in way:
        assert isinstance(test, AttributeTest)
        requirement = to_kubernetes(test.requirement, is_wanted)
        match test.attribute:
            case Attribute.LABEL:
                labels.append(requirement)
            case Attribute.NAMESPACE | Attribute.NAMESPACE_LABEL:
                named = test.attribute is Attribute.NAMESPACE
                if named:
                    requirement = Requirement(
                        NAMESPACE_NAME_LABEL, requirement.operator, requirement.values
                    )
                of_namespace.append(requirement)
                if requirement.key == NAMESPACE_NAME_LABEL and requirement.operator is Operator.IN:
                    found = frozenset(requirement.values)
                    names = found if names is None else names & found
            case _:
                raise UnsayableError(f"it reads the {test.attribute.value} of pods")
    return Conjunction(_sorted(labels), _sorted(of_namespace), names)


def _sorted(found: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(found), key=lambda r: (r.key, r.operator.value, r.values)))


def to_kubernetes(requirement: Requirement, is_wanted: bool) -> Requirement:
    """A requirement, or its negation, by metav1's four operators; raises for any other."""
    operator = requirement.operator
    if operator not in _NEGATED:
        raise UnsayableError(f"label selectors cannot say `{operator.value}`")
    if is_wanted:
        return requirement
    return Requirement(requirement.key, _NEGATED[operator], requirement.values)


@dataclass(frozen=True, slots=True)
class PeerWay:
    """One alternative of a peer: the conditions on the peer, which must all hold.

    `selector` None: it need not be an endpoint. `inside` are blocks it must be in, `outside` blocks it
    must not be in. `is_outside` says that it must be neither endpoint nor node.
    """

    selector: Condition | None
    inside: tuple[AddressPeer, ...] = ()
    outside: tuple[AddressPeer, ...] = ()
    node: tuple[NodePeer, ...] = ()
    not_selected: tuple[EndpointSelector, ...] = ()
    not_nodes: tuple[NodePeer, ...] = ()


def peer_ways(peers: tuple[Peer, ...]) -> list[PeerWay]:
    """The alternatives of a rule's peers, item by item; one that matches any peer stands alone."""
    literals = (way for peer in _listed(peers) for way in alternatives(peer))
    ways = dict.fromkeys(way for way in map(_peer_way, literals) if way is not None)
    anyone = PeerWay(None)
    return [anyone] if anyone in ways else list(ways)


def _listed(peers: Iterable[Peer]) -> Iterator[Peer]:
    """The items of nested lists: a long list is not a complicated one."""
    for peer in peers:
        if isinstance(peer, OneOf):
            yield from _listed(peer.parts)
        else:
            yield peer


def _peer_way(way: tuple[Literal[object], ...]) -> PeerWay | None:
    """The literals by kind; None if they contradict each other: no end is both a pod and a node."""
    if any(isinstance(leaf, AnyPeer) and not is_wanted for leaf, is_wanted in way):
        return None
    selected = _those(way, EndpointPeer, True)
    refused = _those(way, EndpointPeer, False)
    nodes, not_nodes = _those(way, NodePeer, True), _those(way, NodePeer, False)
    inside, outside = _those(way, AddressPeer, True), _those(way, AddressPeer, False)
    if selected and nodes:
        return None
    if nodes:
        return PeerWay(None, inside, outside, nodes, (), not_nodes)
    if not selected:
        return PeerWay(None, inside, outside, (), tuple(p.selector for p in refused), not_nodes)
    held: list[Condition] = [as_condition(peer.selector) for peer in selected]
    held += [Not(as_condition(peer.selector)) for peer in refused]
    return PeerWay(AllOf(tuple(held)), inside, outside)


LeafT = TypeVar("LeafT", bound=Leaf)


def _those(
    way: tuple[Literal[object], ...], kind: type[LeafT], is_wanted: bool
) -> tuple[LeafT, ...]:
    return tuple(leaf for leaf, wanted in way if isinstance(leaf, kind) and wanted is is_wanted)


def selector_to_api(requirements: tuple[Requirement, ...]) -> dict[str, object]:
    """A metav1.LabelSelector; equalities as matchLabels if their keys are distinct."""
    equal = [r for r in requirements if r.operator is Operator.IN and len(r.values) == 1]
    keys = [r.key for r in equal]
    plain = [r for r in equal if keys.count(r.key) == 1]
    out: dict[str, object] = {}
    if plain:
        out["matchLabels"] = {r.key: r.values[0] for r in plain}
    rest = [r for r in requirements if r not in plain]
    if rest:
        out["matchExpressions"] = [_expression(r) for r in rest]
    return out


def _expression(requirement: Requirement) -> dict[str, object]:
    out: dict[str, object] = {"key": requirement.key, "operator": requirement.operator.value}
    return out | {"values": list(requirement.values)} if requirement.values else out
