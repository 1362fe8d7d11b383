# SPDX-License-Identifier: Apache-2.0
"""policy.networking.k8s.io/v1alpha2: ClusterNetworkPolicy (part C)."""

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.admin.admin_network_policy import named_ports
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.admin.decoding import (
    MAX_PRIORITY,
    Form,
    PortsFound,
    decode_admin_policy,
)
from policyc.compiler.frontend.admin.lowering import pending_admin_policy
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    AdminSlot,
    BaselineSlot,
    Channel,
    Pending,
    Reading,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
from policyc.ir.policy import Action, PortRange
from policyc.ir.services import Protocol

_LIMIT = 25
_TIERS = ("Admin", "Baseline")
_PROTOCOLS = {"tcp": Protocol.TCP, "udp": Protocol.UDP, "sctp": Protocol.SCTP}
_NAMED = "destinationNamedPort"
_PROTOCOL_FIELDS = frozenset({*_PROTOCOLS, _NAMED})
_PORT_FIELDS = frozenset({"number", "range"})
_STANDARD_PEERS = frozenset({"namespaces", "pods", "networks"})


def _read_protocol(decoder: SchemaDecoder, item: Node, path: str, _: Channel) -> PortsFound:
    """ClusterNetworkPolicyProtocol (C38); the same in both channels."""
    node = decoder.item_object(item, path, _PROTOCOL_FIELDS)
    field = None if node is None else decoder.one_of(node, path, sorted(_PROTOCOL_FIELDS))
    if node is None or field is None:
        return ()
    if field == _NAMED:
        return named_ports(decoder, node, field, path)
    path = f"{path}.{field}"
    attributes = decoder.mapping(node.get(field), path, frozenset({"destinationPort"}))
    if attributes is None or decoder.one_of(attributes, path, ["destinationPort"]) is None:
        return ()
    path = f"{path}.destinationPort"
    port = decoder.mapping(attributes.get("destinationPort"), path, _PORT_FIELDS)
    return () if port is None else _port(decoder, port, path, _PROTOCOLS[field])


def _port(decoder: SchemaDecoder, node: Mapping, path: str, protocol: Protocol) -> PortsFound:
    match decoder.one_of(node, path, sorted(_PORT_FIELDS)):
        case "number":
            number = decoder.bounded(node, "number", path, 1, 65535)
            return () if number is None else (PortRange(protocol, number, number),)
        case "range":
            return _range(decoder, node, f"{path}.range", protocol)
        case _:
            return ()


def _range(decoder: SchemaDecoder, parent: Mapping, path: str, protocol: Protocol) -> PortsFound:
    node = decoder.mapping(parent.get("range"), path, frozenset({"start", "end"}))
    if node is None:
        return ()
    start = decoder.bounded(node, "start", path, 1, 65535)
    end = decoder.bounded(node, "end", path, 1, 65535)
    if start is None or end is None:
        return ()
    if start >= end:
        finding = codes.RANGE_ORDER.at(node.span_of("end"), path, where=path)
        hint = f"for one port, write `number: {start}`" if start == end else "swap the two"
        decoder.report.add(finding.help(hint))
        return ()
    return (PortRange(protocol, start, end),)


def _slot(decoder: SchemaDecoder, spec: Mapping) -> AdminSlot | BaselineSlot | None:
    tier = decoder.choice(spec, "tier", "spec", _TIERS)
    priority = decoder.bounded(spec, "priority", "spec", 0, MAX_PRIORITY)
    if tier is None or priority is None:
        return None
    return AdminSlot(priority) if tier == "Admin" else BaselineSlot(priority)


CLUSTER_NETWORK_POLICY = Form(
    kind="ClusterNetworkPolicy",
    actions={"Accept": Action.ALLOW, "Deny": Action.DENY, "Pass": Action.PASS},
    limit=_LIMIT,
    spec_fields=frozenset({"tier", "priority", "subject", "ingress", "egress"}),
    egress_peers={
        Channel.STANDARD: _STANDARD_PEERS,
        Channel.EXPERIMENTAL: _STANDARD_PEERS | {"nodes", "domainNames"},
    },
    needs_namespaces=False,
    ports_field="protocols",
    named_port=_NAMED,
    no_named_ports="networks/nodes/domainNames",
    read_port=_read_protocol,
    read_slot=_slot,
)


def read_cluster_network_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """A ClusterNetworkPolicy."""
    policy = decode_admin_policy(CLUSTER_NETWORK_POLICY, raw, reading)
    return None if policy is None else pending_admin_policy(policy)
