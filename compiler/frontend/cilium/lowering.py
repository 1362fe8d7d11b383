# SPDX-License-Identifier: Apache-2.0
"""A valid spec of a Cilium policy -> Policy IR (E45)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from policyc.compiler.frontend.cilium.cidrs import (
    CidrRule,
    lower_cidr_rule,
)
from policyc.compiler.frontend.cilium.engine_departures import (
    GROUPS,
    NODE_LABELS,
    WORLD_LABEL,
    Departure,
    departed,
)
from policyc.compiler.frontend.cilium.entities import ENTITIES
from policyc.compiler.frontend.cilium.policy import CiliumSpec
from policyc.compiler.frontend.cilium.rule import (
    CiliumPeer,
    CiliumRule,
    Endpoints,
    Entity,
    Nodes,
    unknown_entity,
)
from policyc.compiler.frontend.cilium.selectors import (
    Terms,
    endpoint_selector,
    entity_of,
    names_namespace,
    node_condition,
    unsupported_node_terms,
    unsupported_terms,
)
from policyc.compiler.frontend.cilium.services import (
    ServiceRef,
    lower_service_ref,
)
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.unsupported import (
    UnsupportedPart,
    fail_closed,
    refuse_subject,
    text_of,
)
from policyc.ir import policy as ir
from policyc.ir.spans import Origin


def lower_spec(
    spec: CiliumSpec, metadata: ObjectMeta, kind: str, around: Surroundings
) -> ir.Policy | None:
    """One policy; None if its subject is not supported, which is reported."""
    subject = _subject(spec, metadata.namespace, around)
    if subject is None:
        return None
    endpoints, hosts = subject

    def rules(direction: ir.Direction, given: Iterable[CiliumRule]) -> tuple[ir.Rule, ...]:
        is_host = spec.nodes is not None
        return tuple(_rule(rule, direction, is_host, metadata.namespace, around) for rule in given)

    name = metadata.name if spec.path == "spec" else f"{metadata.name}.{spec.path}"
    return ir.Policy(
        kind=f"{kind}.cilium.io",
        namespace=metadata.namespace,
        name=name,
        subject=endpoints,
        isolates=frozenset(ir.Direction(direction) for direction in spec.isolates),
        ingress=rules(ir.Direction.INGRESS, spec.ingress),
        egress=rules(ir.Direction.EGRESS, spec.egress),
        origin=Origin(metadata.span, "metadata.name"),
        hosts=hosts,
    )


def _subject(
    spec: CiliumSpec, namespace: str, around: Surroundings
) -> tuple[ir.EndpointSelector, ir.Condition] | None:
    """The endpoints, or the nodes; no endpoint has a reserved label, as none is initialising."""
    if spec.nodes is not None:
        parts = list(unsupported_node_terms(spec.nodes))
        found = ir.NO_ENDPOINT, node_condition(spec.nodes)
    else:
        assert spec.endpoints is not None
        absent = ir.Operator.DOES_NOT_EXIST
        terms = tuple(
            t for t in spec.endpoints.terms if not (t.is_reserved and t.operator is absent)
        )
        kept = Terms(terms, spec.endpoints.path, spec.endpoints.node)
        parts = list(unsupported_terms(kept))
        found = endpoint_selector(kept, namespace), ir.NEVER
    for part in parts:
        refuse_subject(part, around.report)
    return None if parts else found


def _rule(
    rule: CiliumRule,
    direction: ir.Direction,
    is_host: bool,
    namespace: str,
    around: Surroundings,
) -> ir.Rule:
    peers: list[ir.Peer] = []
    parts = list(rule.parts)
    for found in _peers(rule, namespace, around):
        if isinstance(found, UnsupportedPart):
            parts.append(found)
        else:
            peers.append(found)
    ports = rule.services.ports
    lowered = ir.Rule(
        _action(rule, None if is_host else direction, peers),
        tuple(peers) if ports != () else (),
        (ir.AnyService(),) if ports is None else ports,
        Origin(rule.node.span, rule.path),
    )
    for departure in _warned(rule):
        lowered = departed(lowered, departure, around.report)
    closed = fail_closed(lowered, parts, around.unsupported, around.report, text=text_of(rule.node))
    more = tuple(dict.fromkeys(_beyond_groups(rule)))
    if not more or (not lowered.peers and not parts):
        return closed
    return departed(
        closed, GROUPS, around.report, widest=lambda r: replace(r, peers=(*r.peers, *more))
    )


def _action(
    rule: CiliumRule, direction: ir.Direction | None, peers: Sequence[ir.Peer]
) -> ir.Action:
    """The action of the rule. `direction` is that of a policy for pods, None for one for nodes.

    A pod allows its own node, unless a rule denies flows and names the node. Cilium adds an allow of the
    host to the policies, and a deny comes before an allow (semantics A22).
    """
    if not rule.is_deny:
        return ir.Action.ALLOW
    is_own = direction is ir.Direction.INGRESS and bool(_OWN_NODE & set(peers))
    return ir.Action.DENY_OWN_NODE if is_own else ir.Action.DENY


def _warned(rule: CiliumRule) -> Iterator[Departure]:
    """Warnings about what Cilium does differently, or by configuration; the rule keeps its meaning."""
    peers = rule.peers or ()
    if any(isinstance(peer, Endpoints) and entity_of(peer.terms) == "world" for peer in peers):
        yield WORLD_LABEL
    if any(isinstance(peer, Nodes) for peer in peers):
        yield NODE_LABELS


_OWN_NODE = frozenset({ENTITIES["host"], ENTITIES["cluster"], ENTITIES["all"]})
"""The entities that include a pod's own node."""


def _beyond_groups(rule: CiliumRule) -> Iterator[ir.Peer]:
    """The peers that Cilium also matches by group selectors: all for an empty one, else the world."""
    negative = (ir.Operator.NOT_IN, ir.Operator.DOES_NOT_EXIST)
    for peer in rule.peers or ():
        if isinstance(peer, CidrRule) and peer.groups is not None:
            terms = peer.groups.terms
            if not terms:
                yield ir.ANY_PEER
            elif any(term.operator in negative for term in terms):
                yield ENTITIES["world"]


def _peers(
    rule: CiliumRule, namespace: str, around: Surroundings
) -> Iterator[ir.Peer | UnsupportedPart]:
    """Any peer, if a rule has only services; no peer, if it has nothing at all."""
    if rule.peers is None:
        if rule.services.ports is not None:
            yield ir.ANY_PEER
        return
    for peer in rule.peers:
        yield from _peer(peer, namespace, around)


def _peer(
    peer: CiliumPeer, namespace: str, around: Surroundings
) -> Iterator[ir.Peer | UnsupportedPart]:
    match peer:
        case UnsupportedPart():
            yield peer
        case Entity(name):
            yield ENTITIES[name]
        case Endpoints(terms):
            yield from _endpoints(terms, namespace)
        case Nodes(terms):
            parts = list(unsupported_node_terms(terms))
            yield from parts
            if not parts:
                yield ir.NodePeer(node_condition(terms), ir.Where.REMOTE)
        case CidrRule():
            yield from lower_cidr_rule(peer, around)
        case ServiceRef():
            yield from lower_service_ref(peer, around)
        case _:
            assert_never(peer)


def _endpoints(terms: Terms, namespace: str) -> Iterator[ir.Peer | UnsupportedPart]:
    """Endpoints of the policy's own namespace, unless the selector names others; or an entity."""
    entity = entity_of(terms)
    if entity is not None and entity in ENTITIES:
        yield ENTITIES[entity]
        return
    if entity is not None:
        yield unknown_entity(entity, terms.terms[0].span, terms.terms[0].path)
        return
    parts = list(unsupported_terms(terms))
    if parts:
        yield from parts
        return
    own = "" if names_namespace(terms) else namespace
    yield ir.EndpointPeer(endpoint_selector(terms, own))
