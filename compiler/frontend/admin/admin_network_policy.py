# SPDX-License-Identifier: Apache-2.0
"""policy.networking.k8s.io/v1alpha1: AdminNetworkPolicy and BaselineAdminNetworkPolicy (part B)."""

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.admin.decoding import (
    MAX_PRIORITY,
    Form,
    PortsFound,
    decode_admin_policy,
)
from policyc.compiler.frontend.admin.lowering import pending_admin_policy
from policyc.compiler.frontend.admin.policy import EmptyPortName
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    AdminSlot,
    BaselineSlot,
    Channel,
    Pending,
    Reading,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
from policyc.ir.policy import Action, NamedPort, PortRange
from policyc.ir.services import Protocol

BASELINE_NAME = "default"
_LIMIT = 100
_PROTOCOLS = frozenset(protocol.name for protocol in Protocol)
_PORT_FIELDS = {
    Channel.STANDARD: frozenset({"portNumber", "portRange"}),
    Channel.EXPERIMENTAL: frozenset({"portNumber", "portRange", "namedPort"}),
}
_NUMBER_FIELDS = frozenset({"protocol", "port"})
_RANGE_FIELDS = frozenset({"protocol", "start", "end"})
_STANDARD_PEERS = frozenset({"namespaces", "pods", "networks"})
_BASELINE_PEERS = _STANDARD_PEERS | {"nodes"}


def _read_port(decoder: SchemaDecoder, item: Node, path: str, channel: Channel) -> PortsFound:
    """AdminNetworkPolicyPort (B34)."""
    known = _PORT_FIELDS[channel]
    node = decoder.item_object(item, path, known)
    field = None if node is None else decoder.one_of(node, path, sorted(known))
    if node is None or field is None:
        return ()
    if field == "namedPort":
        return named_ports(decoder, node, field, path)
    known = _NUMBER_FIELDS if field == "portNumber" else _RANGE_FIELDS
    inner = decoder.mapping(node.get(field), f"{path}.{field}", known)
    if inner is None:
        return ()
    return _numbers(decoder, inner, f"{path}.{field}")


def named_ports(decoder: SchemaDecoder, node: Mapping, field: str, path: str) -> PortsFound:
    """A port's name, in any protocol that the pod declares it for (B34, C38)."""
    name = decoder.string(node, field, path)
    if name is None:
        return ()
    if not name:
        return (EmptyPortName(node.span_of(field), f"{path}.{field}"),)
    return tuple(NamedPort(protocol, name) for protocol in Protocol)


def _numbers(decoder: SchemaDecoder, node: Mapping, path: str) -> PortsFound:
    """One port or a range of them; the protocol is TCP where it is absent."""
    protocol = decoder.string(node, "protocol", path, default="TCP")
    if protocol is not None and protocol not in _PROTOCOLS:
        where = f"{path}.protocol"
        finding = codes.BAD_PROTOCOL.at(
            node.span_of("protocol"), where, where=where, value=quoted(protocol)
        )
        decoder.report.add(finding.help(did_you_mean(protocol, _PROTOCOLS)))
        protocol = None
    is_range = path.endswith(".portRange")
    start = decoder.bounded(node, "start" if is_range else "port", path, 1, 65535)
    end = decoder.bounded(node, "end", path, 1, 65535) if is_range else start
    if protocol is None or start is None or end is None:
        return ()
    if start > end:
        where = f"{path}.end"
        finding = codes.RANGE_REVERSED.at(
            node.span_of("end"), where, where=where, start=start, end=end
        )
        finding = finding.note(node.span_of("start"), "the range starts here")
        decoder.report.add(finding.help("swap the two"))
        return ()
    return (PortRange(Protocol[protocol], start, end),)


def _admin_slot(decoder: SchemaDecoder, spec: Mapping) -> AdminSlot | None:
    priority = decoder.bounded(spec, "priority", "spec", 0, MAX_PRIORITY)
    return None if priority is None else AdminSlot(priority)


ADMIN_NETWORK_POLICY = Form(
    kind="AdminNetworkPolicy",
    actions={"Allow": Action.ALLOW, "Deny": Action.DENY, "Pass": Action.PASS},
    limit=_LIMIT,
    spec_fields=frozenset({"priority", "subject", "ingress", "egress"}),
    egress_peers={
        Channel.STANDARD: _STANDARD_PEERS,
        Channel.EXPERIMENTAL: _STANDARD_PEERS | {"nodes", "domainNames"},
    },
    needs_namespaces=True,
    ports_field="ports",
    named_port="namedPort",
    no_named_ports="networks/nodes/domainNames",
    read_port=_read_port,
    read_slot=_admin_slot,
)
BASELINE_ADMIN_NETWORK_POLICY = Form(
    kind="BaselineAdminNetworkPolicy",
    actions={"Allow": Action.ALLOW, "Deny": Action.DENY},
    limit=_LIMIT,
    spec_fields=frozenset({"subject", "ingress", "egress"}),
    egress_peers={
        Channel.STANDARD: _STANDARD_PEERS,
        Channel.EXPERIMENTAL: _BASELINE_PEERS,
    },
    needs_namespaces=True,
    ports_field="ports",
    named_port="namedPort",
    no_named_ports="networks/nodes",
    read_port=_read_port,
    read_slot=lambda _decoder, _spec: BaselineSlot(0),
)


def read_admin_network_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """An AdminNetworkPolicy."""
    policy = decode_admin_policy(ADMIN_NETWORK_POLICY, raw, reading)
    return None if policy is None else pending_admin_policy(policy)


def read_baseline_admin_network_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """The BaselineAdminNetworkPolicy: a cluster has one, named `default` (B36)."""
    policy = decode_admin_policy(BASELINE_ADMIN_NETWORK_POLICY, raw, reading)
    if policy is None:
        return None
    if policy.metadata.name not in ("", BASELINE_NAME):
        finding = codes.BASELINE_NAME.at(policy.metadata.span, "metadata.name")
        reading.report.add(finding.help("name it `default`"))
    return pending_admin_policy(policy)
