# SPDX-License-Identifier: Apache-2.0
"""Decodes and validates the common parts of the kinds of policy.networking.k8s.io.

All checks of the CRDs are made, with the API server's messages. Further checks cover what the CRDs leave
out: label selectors, protocols, the order of ranges, and where domain names may stand (B33, B34, C39).
"""

from collections.abc import Callable
from collections.abc import Mapping as Map
from dataclasses import dataclass

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.admin.peers import Peers
from policyc.compiler.frontend.admin.policy import (
    AdminPolicy,
    AdminRule,
    DomainNames,
    EmptyPortName,
)
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
    validate_metadata,
)
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import AdminSlot, BaselineSlot, Channel, Reading
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
from policyc.ir.diagnostics import Report
from policyc.ir.policy import Action, Ports

OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
MAX_PRIORITY = 1000
MAX_NAME = 100

PortsFound = tuple[Ports | EmptyPortName, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one kind: its actions, its limit for rules, peers and ports, and its fields.

    `read_port` reads an item of `ports_field`; `named_port` is the field of it that names a port.
    """

    kind: str
    actions: Map[str, Action]
    limit: int
    spec_fields: frozenset[str]
    egress_peers: Map[Channel, frozenset[str]]
    needs_namespaces: bool
    ports_field: str
    named_port: str
    no_named_ports: str
    read_port: Callable[[SchemaDecoder, Node, str, Channel], PortsFound]
    read_slot: Callable[[SchemaDecoder, Mapping], AdminSlot | BaselineSlot | None]


def decode_admin_policy(form: Form, raw: RawObject, reading: Reading) -> AdminPolicy | None:
    """The policy; None if the reported errors leave nothing to lower."""
    decoder = SchemaDecoder(reading.report)
    decoder.mapping(raw.node, "", OBJECT_FIELDS)
    metadata = decode_metadata(decoder, raw.node, "", is_strict=True)
    spec = decoder.required_object(raw.node, "spec", "", form.spec_fields)
    if metadata is None or spec is None:
        return None
    validate_metadata(metadata, reading.report)
    warn_of_namespace(metadata, form.kind, reading.report)
    slot = form.read_slot(decoder, spec)
    peers = Peers(decoder, form.needs_namespaces)
    subject = peers.subject(spec)
    rules = _Rules(form, decoder, peers, reading.channel)
    ingress, egress = rules.read(spec, "ingress"), rules.read(spec, "egress")
    if slot is None or subject is None:
        return None
    return AdminPolicy(form.kind, metadata, slot, subject, ingress, egress)


def warn_of_namespace(metadata: ObjectMeta, kind: str, report: Report) -> None:
    """The server drops the namespace of a cluster-scoped object; its author may think it counts."""
    if metadata.node.get("namespace") is not None:
        where = "metadata.namespace"
        span = metadata.node.span_of("namespace")
        finding = codes.NOT_NAMESPACED.at(span, where, where=where, kind=kind)
        report.add(finding.help("remove it, and select namespaces in the policy"))


@dataclass(frozen=True, slots=True)
class _Rules:
    """Reads the rules of one policy."""

    form: Form
    decoder: SchemaDecoder
    peers: Peers
    channel: Channel

    def read(self, spec: Mapping, direction: str) -> tuple[AdminRule, ...]:
        """The rules of `ingress` or `egress`."""
        items = self.decoder.counted(spec, direction, "spec", self.form.limit, at_least=0)
        found = (self._rule(item, path, direction) for item, path in items)
        return tuple(rule for rule in found if rule is not None)

    def _rule(self, item: Node, path: str, direction: str) -> AdminRule | None:
        peers_field = "from" if direction == "ingress" else "to"
        ports_field = self.form.ports_field
        known = frozenset({"name", "action", peers_field, ports_field})
        node = self.decoder.item_object(item, path, known)
        if node is None:
            return None
        name = self.decoder.short_text(node, "name", path, MAX_NAME)
        action = self.decoder.choice(node, "action", path, tuple(self.form.actions))
        known = self._peer_fields(direction)
        peers = self.peers.read(node, peers_field, path, known, self.form.limit)
        ports = self._ports(node, path)
        if action is None:
            return None
        rule = AdminRule(self.form.actions[action], name, peers, ports, path, node)
        self._check_domains(rule, action)
        if direction == "egress" and self.channel is Channel.EXPERIMENTAL:
            self._check_named_ports(node, path)
        return rule

    def _peer_fields(self, direction: str) -> frozenset[str]:
        if direction == "ingress":
            return frozenset({"namespaces", "pods"})
        return self.form.egress_peers[self.channel]

    def _ports(self, node: Mapping, path: str) -> PortsFound | None:
        """None if the field is absent: every protocol and port (B34)."""
        items = self.decoder.counted(node, self.form.ports_field, path, self.form.limit)
        if node.get(self.form.ports_field) is None:
            return None
        read = (self.form.read_port(self.decoder, item, at, self.channel) for item, at in items)
        return tuple(port for ports in read for port in ports)

    def _check_domains(self, rule: AdminRule, action: str) -> None:
        """Domain names are for allowing only (B33); the CRDs do not check it."""
        if rule.action is Action.ALLOW:
            return
        for peer in rule.peers:
            if isinstance(peer, DomainNames):
                part = peer.part
                finding = codes.DOMAIN_ACTION.at(
                    part.span, part.path, where=part.path, action=action
                )
                self.decoder.report.add(finding.help("deny the addresses with `networks`"))

    def _check_named_ports(self, node: Mapping, path: str) -> None:
        """The experimental CRDs refuse named ports beside peers that declare none."""
        wanted = frozenset(self.form.no_named_ports.split("/"))
        peers = self.decoder.items(node, "to", path)
        ports = self.decoder.items(node, self.form.ports_field, path)
        has_peer = any(_has(peer, wanted) for peer, _ in list(peers))
        named = [port for port, _ in list(ports) if _has(port, {self.form.named_port})]
        if has_peer and named:
            finding = codes.NAMED_PORT_PEER.at(
                named[0].span, path, where=path, peers=self.form.no_named_ports
            )
            self.decoder.report.add(finding.help("write the number, or two rules"))


def _has(item: Node, names: frozenset[str] | set[str]) -> bool:
    return isinstance(item, Mapping) and any(item.get(name) is not None for name in names)
