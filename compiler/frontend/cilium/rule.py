# SPDX-License-Identifier: Apache-2.0
"""One rule of a Cilium policy: decoded and validated as Cilium's agent does it (E45)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from policyc.compiler.frontend.admin import codes as codes_admin
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes
from policyc.compiler.frontend.cilium.cidrs import (
    OUTSIDE,
    CidrRule,
    decode_cidr,
    decode_cidr_rule,
)
from policyc.compiler.frontend.cilium.entities import (
    EVERY_ENTITY,
    READ_ENTITIES,
    UNSUPPORTED_ENTITIES,
)
from policyc.compiler.frontend.cilium.ports import (
    PortRules,
    decode_port_rules,
)
from policyc.compiler.frontend.cilium.selectors import (
    Terms,
    decode_item_terms,
    is_negative,
)
from policyc.compiler.frontend.cilium.services import (
    ServiceRef,
    decode_service_ref,
)
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
)
from policyc.ir.policy import ANY_PEER, AllOf, Peer
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints by a selector."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes by a selector."""

    terms: Terms


CiliumPeer = Entity | Endpoints | Nodes | CidrRule | ServiceRef | UnsupportedPart


@dataclass(frozen=True, slots=True)
class CiliumRule:
    """A rule. `peers` None: it has no condition on peers; empty: it selects no peer."""

    is_deny: bool
    peers: tuple[CiliumPeer, ...] | None
    services: PortRules
    parts: tuple[UnsupportedPart, ...]
    path: str
    node: Mapping = field(compare=False)


DecodeItem = Callable[[SchemaDecoder, Node, str], CiliumPeer | None]


def _endpoints(decoder: SchemaDecoder, item: Node, path: str) -> CiliumPeer | None:
    terms = decode_item_terms(decoder, item, path)
    if terms is None:
        return None
    if is_negative(terms):
        finding = codes.NEGATIVE.at(terms.node.span, path, where=path)
        hint = "add {key: io.kubernetes.pod.namespace, operator: Exists}"
        decoder.report.add(finding.help(hint))
    return Endpoints(terms)


def _nodes(decoder: SchemaDecoder, item: Node, path: str) -> CiliumPeer | None:
    terms = decode_item_terms(decoder, item, path)
    return None if terms is None else Nodes(terms)


def unknown_entity(name: str, span: Span, path: str) -> UnsupportedPart:
    """An entity whose members policyc does not know."""
    what = f"the entity {name}"
    return UnsupportedPart(span, path, what, is_peer=True, is_read=name in READ_ENTITIES)


def _entity(decoder: SchemaDecoder, item: Node, path: str) -> CiliumPeer | None:
    if item.is_null or not isinstance(item, Scalar):
        decoder.item_object(item, path) if item.is_null else decoder.text(item, path)
        return None
    name = decoder.text(item, path)
    if name is None or name in UNSUPPORTED_ENTITIES:
        return None if name is None else unknown_entity(name, item.span, path)
    if name in EVERY_ENTITY:
        return Entity(name)
    listed = ", ".join(quoted(entity) for entity in EVERY_ENTITY)
    finding = codes_admin.CHOICE.at(item.span, path, where=path, value=quoted(name), choices=listed)
    decoder.report.add(finding.help(did_you_mean(name, EVERY_ENTITY)))
    return None


def _unsupported(what: str, among: Peer = ANY_PEER) -> DecodeItem:
    def part(_: SchemaDecoder, item: Node, path: str) -> CiliumPeer | None:
        return UnsupportedPart(item.span, path, what, is_peer=True, among=among)

    return part


PEERS: dict[str, dict[str, DecodeItem]] = {
    "ingress": {
        "fromEndpoints": _endpoints,
        "fromCIDR": decode_cidr,
        "fromCIDRSet": decode_cidr_rule,
        "fromEntities": _entity,
        "fromNodes": _nodes,
        "fromGroups": _unsupported("groups of a cloud provider"),
    },
    "egress": {
        "toEndpoints": _endpoints,
        "toCIDR": decode_cidr,
        "toCIDRSet": decode_cidr_rule,
        "toEntities": _entity,
        "toNodes": _nodes,
        "toServices": decode_service_ref,
        "toGroups": _unsupported("groups of a cloud provider"),
        "toFQDNs": _unsupported("domain names", AllOf(OUTSIDE)),
    },
}
"""Direction -> field -> the reader of an item of it. Only one of them may be in a rule."""
_REQUIRES = {"ingress": "fromRequires", "egress": "toRequires"}
_ALLOW_ONLY = frozenset({"toFQDNs", "authentication"})


def decode_rule(
    decoder: SchemaDecoder, item: Node, path: str, direction: str, is_deny: bool
) -> CiliumRule | None:
    """A rule of `ingress` or `egress`, or one that denies."""
    requires = _REQUIRES[direction]
    known = frozenset({*PEERS[direction], requires, "toPorts", "icmps", "authentication"})
    node = decoder.item_object(item, path, known - _ALLOW_ONLY if is_deny else known)
    if node is None:
        return None
    peers = _peers(decoder, node, path, PEERS[direction])
    services = decode_port_rules(decoder, node, path, is_deny)
    _refuse_requires(decoder, node, path, requires)
    _warn_of_services_with_ports(decoder, node, path)
    parts = (*services.parts, *_authentication(decoder, node, path))
    rule = CiliumRule(is_deny, peers, services, parts, path, node)
    _warn_of_nulls(decoder, rule, PEERS[direction])
    return rule


def _peers(
    decoder: SchemaDecoder, node: Mapping, path: str, fields: dict[str, DecodeItem]
) -> tuple[CiliumPeer, ...] | None:
    present = [name for name in fields if node.get(name) is not None]
    filled = [name for name in present if not _is_empty(node.get(name))]
    if len(filled) > 1:
        finding = codes.COMBINED.at(
            node.span_of(filled[1]), path, where=path, one=filled[0], other=filled[1]
        )
        decoder.report.add(finding.help("write two rules: their peers are added up"))
    for name in present:
        if name not in filled:
            where = f"{path}.{name}"
            finding = codes.EMPTY_PEERS.at(node.span_of(name), where, where=where)
            decoder.report.add(finding.help(f"for every peer, leave `{name}` out"))
    found = [
        fields[name](decoder, item, where)
        for name in filled
        for item, where in decoder.items(node, name, path)
    ]
    if len(present) > len(filled):  # an empty list selects no peer, whatever other fields there are
        return ()
    return tuple(peer for peer in found if peer is not None) if present else None


def _warn_of_nulls(decoder: SchemaDecoder, rule: CiliumRule, peer_fields: Iterable[str]) -> None:
    """A null list beside the rule's conditions: it is no limit, though it may look like one."""
    ports = rule.services.ports
    if rule.peers is None and ports:
        _warn_of_null(decoder, rule, peer_fields, "every peer")
    if ports is None and rule.peers:
        _warn_of_null(decoder, rule, ("toPorts", "icmps"), "every port and protocol")


def _warn_of_null(
    decoder: SchemaDecoder, rule: CiliumRule, names: Iterable[str], what: str
) -> None:
    does = "denies" if rule.is_deny else "allows"
    for name in names:
        entry = rule.node.entries.get(name)
        if entry is not None and entry.value.is_null:
            where = f"{rule.path}.{name}"
            finding = codes.NULL_LIST.at(entry.key.span, where, where=where, does=does, what=what)
            decoder.report.add(finding.help(f"if that is meant, leave `{name}` out"))


def _warn_of_services_with_ports(decoder: SchemaDecoder, node: Mapping, path: str) -> None:
    """Cilium combines them since 1.17; before, it refuses the whole policy."""
    both = [node.get(name) for name in ("toServices", "toPorts")]
    if all(isinstance(value, Sequence) and value.items for value in both):
        where = f"{path}.toPorts"
        span = node.entries["toPorts"].key.span
        finding = codes.SERVICES_WITH_PORTS.at(span, where, where=where)
        note = finding.note(node.entries["toServices"].key.span, "toServices is here")
        decoder.report.add(note.help("for an older Cilium, select the pods with toEndpoints"))


def _is_empty(node: Node | None) -> bool:
    return isinstance(node, Sequence) and not node.items


def _refuse_requires(decoder: SchemaDecoder, node: Mapping, path: str, name: str) -> None:
    """A requirement narrows rules of other policies: leaving it out would open traffic."""
    if any(True for _ in decoder.items(node, name, path)):
        where = f"{path}.{name}"
        span = node.entries[name].key.span
        finding = codes.REQUIRES.at(span, where, where=where, field=name)
        decoder.report.add(finding.help("deny with ingressDeny or egressDeny; 1.19 removed it"))


def _authentication(
    decoder: SchemaDecoder, node: Mapping, path: str
) -> tuple[UnsupportedPart, ...]:
    path = f"{path}.authentication"
    wanted = node.get("authentication")
    inner = None if wanted is None else decoder.mapping(wanted, path, frozenset({"mode"}))
    if inner is None:
        return ()
    mode = decoder.choice(inner, "mode", path, ("disabled", "required", "test-always-fail"))
    if mode in (None, "disabled"):
        return ()
    return (UnsupportedPart(inner.span_of("mode"), path, "authentication"),)
