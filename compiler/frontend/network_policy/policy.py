# SPDX-License-Identifier: Apache-2.0
"""networking.k8s.io/v1 NetworkPolicy as typed values: decoded, and defaulted as the API server does.

Values stay as written (`cidr` is text, `port` a number or a name), because validation reports their
mistakes. Every part keeps its node, for places.
"""

from dataclasses import field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
)
from policyc.compiler.frontend.kubernetes.selectors import (
    Selector,
    decode_selector,
    selector_to_api,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
from policyc.ir.fast_dataclass import dataclass

INGRESS, EGRESS = "Ingress", "Egress"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec"})
_SPEC_FIELDS = frozenset({"podSelector", "ingress", "egress", "policyTypes"})
_PEER_FIELDS = frozenset({"podSelector", "namespaceSelector", "ipBlock"})
_PORT_FIELDS = frozenset({"protocol", "port", "endPort"})
_IP_BLOCK_FIELDS = frozenset({"cidr", "except"})
_RULE_FIELDS = {"from": frozenset({"from", "ports"}), "to": frozenset({"to", "ports"})}


@dataclass(frozen=True, slots=True)
class Port:
    """NetworkPolicyPort; `protocol` is TCP if it was absent (A17)."""

    protocol: str | None
    port: int | str | None
    end_port: int | None
    node: Mapping = field(compare=False)
    is_null: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class IpBlock:
    """IPBlock; `cidr` is None if it was not a string."""

    cidr: str | None
    excepts: tuple[str, ...]
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class Peer:
    """NetworkPolicyPeer; an absent selector is None, which is not the empty one (A10)."""

    pod_selector: Selector | None
    namespace_selector: Selector | None
    ip_block: IpBlock | None
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """NetworkPolicyIngressRule or NetworkPolicyEgressRule; `peers_field` is `from` or `to`."""

    peers_field: str
    peers: tuple[Peer, ...]
    ports: tuple[Port, ...]
    node: Mapping = field(compare=False)
    is_null: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """The object after defaulting: `policy_types` is never empty (A6).

    `has_types` says whether they were given, `spec` is the node of the spec.
    """

    metadata: ObjectMeta
    pod_selector: Selector
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]
    policy_types: tuple[str, ...]
    has_types: bool
    spec: Mapping = field(compare=False)


def decode_network_policy(
    decoder: Decoder, node: Mapping, default_namespace: str, has_status: bool = False
) -> NetworkPolicy | None:
    """The typed object; None if it has no readable metadata or spec.

    `has_status` for servers before 1.28, whose type had that field. Without it an empty status is a
    note: objects that such a server exported have one.
    """
    status = node.entries.get("status")
    if status is not None and not has_status and _is_empty(status.value):
        finding = codes.EMPTY_STATUS.at(status.key.span, "status")
        decoder.report.add(finding.help("remove it"))
        has_status = True
    decoder.mapping(node, "", _FIELDS | {"status"} if has_status else _FIELDS)
    metadata = decode_metadata(decoder, node, default_namespace, is_strict=True)
    spec: Mapping | None = Mapping(node.file, node.line, node.column)
    if (given := node.get("spec")) is not None:
        spec = decoder.mapping(given, "spec", _SPEC_FIELDS)
    if metadata is None or spec is None:
        return None
    selector = decode_selector(decoder, spec, "podSelector", "spec")
    ingress = _rules(decoder, spec, "ingress", "from")
    egress = _rules(decoder, spec, "egress", "to")
    types = decoder.strings(spec, "policyTypes", "spec")
    return NetworkPolicy(
        metadata,
        selector or Selector({}, (), spec),
        ingress,
        egress,
        types or _default_types(egress),
        bool(types),
        spec,
    )


def _is_empty(value: Node) -> bool:
    return value.is_null or (isinstance(value, Mapping) and not value.entries)


def _default_types(egress: tuple[Rule, ...]) -> tuple[str, ...]:
    """SetDefaults_NetworkPolicy: Ingress, and Egress if there are egress rules (A6)."""
    return (INGRESS, EGRESS) if egress else (INGRESS,)


def _rules(decoder: Decoder, spec: Mapping, name: str, peers_field: str) -> tuple[Rule, ...]:
    found = []
    for item, path in decoder.items(spec, name, "spec"):
        node = decoder.mapping(item, path, _RULE_FIELDS[peers_field])
        if node is not None:
            found.append(_rule(decoder, node, path, peers_field, item))
    return tuple(found)


def _rule(decoder: Decoder, node: Mapping, path: str, peers_field: str, item: Node) -> Rule:
    peers = (_peer(decoder, peer, where) for peer, where in decoder.items(node, peers_field, path))
    ports = (_port(decoder, port, where) for port, where in decoder.items(node, "ports", path))
    return Rule(
        peers_field,
        tuple(peer for peer in peers if peer is not None),
        tuple(port for port in ports if port is not None),
        node,
        item.is_null,
    )


def _peer(decoder: Decoder, item: Node, path: str) -> Peer | None:
    node = decoder.mapping(item, path, _PEER_FIELDS)
    if node is None:
        return None
    return Peer(
        decode_selector(decoder, node, "podSelector", path),
        decode_selector(decoder, node, "namespaceSelector", path),
        _ip_block(decoder, node, path),
        node,
    )


def _ip_block(decoder: Decoder, peer: Mapping, path: str) -> IpBlock | None:
    node = decoder.object(peer, "ipBlock", path, _IP_BLOCK_FIELDS)
    if node is None:
        return None
    path = f"{path}.ipBlock"
    cidr = decoder.string(node, "cidr", path)
    return IpBlock(cidr, decoder.strings(node, "except", path), node)


def _port(decoder: Decoder, item: Node, path: str) -> Port | None:
    node = decoder.mapping(item, path, _PORT_FIELDS)
    if node is None:
        return None
    return Port(
        decoder.string(node, "protocol", path, default="TCP"),
        decoder.int_or_string(node, "port", path),
        decoder.integer(node, "endPort", path),
        node,
        item.is_null,
    )


def spec_to_api(policy: NetworkPolicy) -> dict[str, object]:
    """The defaulted spec as the API server shows it: empty lists are left out."""
    shown: dict[str, object] = {"podSelector": selector_to_api(policy.pod_selector)}
    if policy.ingress:
        shown["ingress"] = [_rule_to_api(rule) for rule in policy.ingress]
    if policy.egress:
        shown["egress"] = [_rule_to_api(rule) for rule in policy.egress]
    shown["policyTypes"] = list(policy.policy_types)
    return shown


def _rule_to_api(rule: Rule) -> dict[str, object]:
    shown: dict[str, object] = {}
    if rule.ports:
        shown["ports"] = [_port_to_api(port) for port in rule.ports]
    if rule.peers:
        shown[rule.peers_field] = [_peer_to_api(peer) for peer in rule.peers]
    return shown


def _port_to_api(port: Port) -> dict[str, object]:
    shown = {"protocol": port.protocol, "port": port.port, "endPort": port.end_port}
    return {name: value for name, value in shown.items() if value is not None}


def _peer_to_api(peer: Peer) -> dict[str, object]:
    shown: dict[str, object] = {}
    if peer.pod_selector is not None:
        shown["podSelector"] = selector_to_api(peer.pod_selector)
    if peer.namespace_selector is not None:
        shown["namespaceSelector"] = selector_to_api(peer.namespace_selector)
    if peer.ip_block is not None:
        block: dict[str, object] = {"cidr": peer.ip_block.cidr}
        if peer.ip_block.excepts:
            block["except"] = list(peer.ip_block.excepts)
        shown["ipBlock"] = block
    return shown
