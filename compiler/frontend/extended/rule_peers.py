# SPDX-License-Identifier: Apache-2.0
"""Peers of the rule language -> peers of the IR (semantics G53).

Services are resolved when the cluster is known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import pairwise

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_expressions import (
    endpoint_selector,
    node_condition,
)
from policyc.compiler.frontend.extended.rule_hints import (
    ENTITIES,
    suggestion,
)
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.kubernetes.addresses import (
    Cidr,
    parse_address,
    parse_cidr,
)
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.spelling import nearest
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.grammar import tree
from policyc.grammar.tokens import Token
from policyc.ir.policy import (
    ANY_PEER,
    EVERY_ENDPOINT,
    AddressPeer,
    AllOf,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    Network,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Peer,
    Requirement,
    Where,
)

_ENTITIES: dict[str, Peer] = {
    "world": Not(OneOf((EndpointPeer(EVERY_ENDPOINT), NodePeer()))),
    "cluster": OneOf((EndpointPeer(EVERY_ENDPOINT), NodePeer())),
    "host": NodePeer(where=Where.LOCAL),
    "remote-node": NodePeer(where=Where.REMOTE),
}
assert tuple(_ENTITIES) == ENTITIES


@dataclass(frozen=True, slots=True)
class NamedService:
    """A Service that a rule names; its pods are known after the cluster is read."""

    namespace: str
    name: str
    token: Token


Draft = Peer | NamedService
"""A peer that may still have to be resolved."""


def peers(written: Iterable[tree.Peer], passage: Passage) -> tuple[Draft, ...]:
    """The meaning of the peers; none at all is any. Wrong ones are reported and left out."""
    written = tuple(written)
    if not written:
        return (ANY_PEER,)
    found = [_peer(peer, passage) for peer in written]
    for at, (before, peer) in enumerate(pairwise(found), start=1):
        _check_list_of_excepts(before, peer, written[at], passage)
    return tuple(peer for peer in found if peer is not None)


def _check_list_of_excepts(
    before: Draft | None, peer: Draft | None, written: tree.Peer, passage: Passage
) -> None:
    """`A except B, C` reads as if C were excepted as well, which needs braces."""
    if not isinstance(before, AddressPeer) or not isinstance(peer, AddressPeer):
        return
    first, network = peer.network.network_address, before.network
    if not before.excepts or peer.excepts or first not in network:
        return
    if not any(first in hole for hole in before.excepts):
        holes = ", ".join(map(str, (*before.excepts, peer.network)))
        hint = f"to exclude it as well: {network} except {{{holes}}}"
        passage.say(codes.EXCEPT_LIST, written.token, hint, peer=peer.network, network=network)


def _peer(peer: tree.Peer, passage: Passage) -> Draft | None:
    match peer:
        case tree.AnyPeer():
            return ANY_PEER
        case tree.PodPeer(expression=expression):
            return EndpointPeer(endpoint_selector(expression, passage))
        case tree.NodePeer(expression=expression):
            return NodePeer(node_condition(expression, passage))
        case tree.AddressPeer(token, excepts):
            return _addresses(token, excepts, passage)
        case tree.Inside(inner, block):
            found = _peer(inner, passage)
            addresses = _addresses(block.token, block.excepts, passage)
            if found is None or isinstance(found, NamedService) or addresses is None:
                return None
            return AllOf((found, addresses))
        case tree.ServicePeer(token):
            namespace, _, name = token.text.partition("/")
            return NamedService(namespace, name, token)
        case tree.EntityPeer(token):
            return _entity(token, passage)
        case tree.EntityNodes(token, expression):
            condition = node_condition(expression, passage)
            entity = _entity(token, passage)
            if isinstance(entity, NodePeer):
                return NodePeer(condition, entity.where)
            if entity is not None:
                hint = "write it after `entity host` or `entity remote-node`"
                passage.say(codes.WITH_OF_OTHERS, token, hint, name=token.text)
            return None


def _entity(token: Token, passage: Passage) -> Peer | None:
    if token.text not in _ENTITIES:
        hint = suggestion(token.text, ENTITIES)
        passage.say(codes.UNKNOWN_ENTITY, token, hint, name=clipped(token.text))
    return _ENTITIES.get(token.text)


def _addresses(token: Token, excepts: Sequence[Token], passage: Passage) -> AddressPeer | None:
    network = _network(token, passage)
    holes = []
    for written in excepts:
        hole = _network(written, passage)
        if hole is None or network is None:
            continue
        if hole.version != network.version:
            passage.say(codes.EXCEPT_FAMILY, written, hole=hole, network=network)
        elif hole.prefixlen <= network.prefixlen or hole.network_address not in network:
            hint = "an exception must be a proper subset of the network"
            passage.say(codes.EXCEPT_OUTSIDE, written, hint, hole=hole, network=network)
        else:
            holes.append(hole)
    if network is None:
        return None
    return AddressPeer(network, tuple(sorted(set(holes), key=str)))


def _network(token: Token, passage: Passage) -> Network | None:
    """A CIDR, or an address as the CIDR that holds it alone; as strict as Kubernetes 1.36 (A14)."""
    text = token.text
    if "/" not in text:
        address = parse_address(text)
        if address is None:
            problem = "IPv4 is four numbers 0 to 255 without leading zeros; IPv6 has no zone"
        elif getattr(address, "ipv4_mapped", None) is not None:
            problem = "it is IPv4 written as IPv6"
        else:
            return ip_network(address)
        passage.say(codes.ADDRESS_INVALID, token, text=clipped(text), problem=problem)
        return None
    cidr = parse_cidr(text)
    if cidr is None:
        problem = "it is not a network with a prefix length, such as 10.0.0.0/8 or 2001:db8::/32"
        passage.say(codes.ADDRESS_INVALID, token, text=clipped(text), problem=problem)
        return None
    problem = _strictly(cidr)
    if problem:
        hint = f"the network is {cidr.network}"
        passage.say(codes.ADDRESS_INVALID, token, hint, text=clipped(text), problem=problem)
        return None
    return cidr.network


def _strictly(cidr: Cidr) -> str:
    if cidr.is_mapped:
        return "it is IPv4 written as IPv6"
    if cidr.has_leading_zeros:
        return "its numbers have leading zeros"
    return "it has bits set beyond its prefix length" if cidr.has_host_bits else ""


def looked_up(
    drafts: Iterable[Draft], passage: Passage, surroundings: Surroundings
) -> tuple[tuple[Peer, ...], list[UnsupportedPart]]:
    """The peers, with the pods of each Service; and the Services without a selector for their pods."""
    found: list[Peer] = []
    parts: list[UnsupportedPart] = []
    for draft in drafts:
        if not isinstance(draft, NamedService):
            found.append(draft)
            continue
        service = surroundings.services.get((draft.namespace, draft.name))
        if service is None:
            _say_unknown_service(draft, passage, surroundings)
        elif not service.selector or service.type == "ExternalName":
            what = f"the Service {draft.namespace}/{draft.name}, which has no selector, as a peer"
            parts.append(UnsupportedPart(passage.span(draft.token), passage.path, what, True))
        else:
            labels = LabelSelector(
                tuple(
                    Requirement(key, Operator.IN, (value,))
                    for key, value in sorted(service.selector.items())
                )
            )
            found.append(EndpointPeer(EndpointSelector(draft.namespace, labels=labels)))
    return tuple(found), parts


def _say_unknown_service(draft: NamedService, passage: Passage, surroundings: Surroundings) -> None:
    known = [f"{namespace}/{name}" for namespace, name in surroundings.services]
    name = draft.token.text
    elsewhere = [service for service in known if service.endswith(f"/{draft.name}")]
    near = nearest(name, known) or next(iter(sorted(elsewhere)), None)
    if near is not None:
        hint = f"did you mean `{near}`?"
    elif known:
        hint = "a Service is named with its namespace: NAMESPACE/NAME"
    else:
        hint = "give the cluster, which defines the pods of a Service: --cluster DIR"
    passage.say(codes.UNKNOWN_SERVICE, draft.token, hint, name=clipped(name))
