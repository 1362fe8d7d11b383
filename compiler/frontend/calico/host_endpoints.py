# SPDX-License-Identifier: Apache-2.0
"""Calico's HostEndpoint: read, and attached to the node whose interface it is (semantics D43)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_network

from policyc.compiler.frontend import codes_several_apis
from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.metadata import decode_calico_metadata
from policyc.compiler.frontend.calico.policy import decode_spec
from policyc.compiler.frontend.calico.values import (
    addresses,
    is_blank,
)
from policyc.compiler.frontend.found import AddressSet, Found
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Pending, Reading
from policyc.compiler.frontend.yaml.tree import Mapping as MappingNode
from policyc.ir.diagnostics import Report
from policyc.ir.hosts import HostEndpoint
from policyc.ir.spans import Span
from policyc.ir.universe import Endpoint, HostInterface, Node, Universe

_FIELDS = frozenset({"node", "interfaceName", "expectedIPs", "profiles", "ports"})
DEFAULT_ALLOW = "projectcalico-default-allow"
"""The one profile of Calico's own: it allows what no policy decides, instead of denying it."""
_INTERFACE = re.compile(r"[a-zA-Z0-9_.-]{1,15}")
_INTERFACE_FORM = "interfaces are `*`, or 1 to 15 letters, digits, `_`, `.` and `-`"
_ONE_EACH = 'keep one; `interfaceName: "*"` means all interfaces of a host'


def read_host_endpoint(raw: RawObject, reading: Reading) -> Pending | None:
    """The host endpoint, and its expected addresses, by which selectors of rules match it."""
    decoder = Decoder(reading.report)
    metadata = decode_calico_metadata(decoder, raw, "")
    spec = decode_spec(decoder, raw.node, _FIELDS)
    if metadata is None or spec is None:
        return None
    node = decoder.string(spec, "node", "spec") or ""
    interface = decoder.string(spec, "interfaceName", "spec") or ""
    expected = addresses(decoder, spec, "expectedIPs", "spec")
    profiles = decoder.strings(spec, "profiles", "spec")
    _check_fields(spec, interface, reading.report)
    _check_supported(decoder, spec, profiles)
    host = HostEndpoint(
        metadata.name,
        node,
        metadata.labels,
        expected,
        DEFAULT_ALLOW not in profiles,
        metadata.span,
        interface,
    )
    networks = tuple(ip_network(address) for address in expected)
    found = AddressSet(f"{raw.kind} {metadata.name}", "", metadata.labels, networks)
    return Pending(metadata, found=Found(hosts=(host,), address_sets=(found,)))


def _check_fields(spec: MappingNode, interface: str, report: Report) -> None:
    if is_blank(spec, "node"):
        where = "spec.node"
        finding = codes.REQUIRED.at(spec.span_of("node"), where, where=where)
        report.add(finding.help("name the Node that the interface is of"))
    if interface not in ("", "*") and not _INTERFACE.fullmatch(interface):
        where = "spec.interfaceName"
        span, value = spec.span_of("interfaceName"), quoted(interface)
        report.add(codes.NAME.at(span, where, where=where, value=value, problem=_INTERFACE_FORM))
    if is_blank(spec, "interfaceName") and not getattr(spec.get("expectedIPs"), "items", ()):
        where = "spec.interfaceName"
        finding = codes.REQUIRED.at(spec.span_of("interfaceName"), where, where=where)
        report.add(finding.help("give interfaceName, or expectedIPs to find the interface by"))


def _check_supported(decoder: Decoder, spec: MappingNode, profiles: tuple[str, ...]) -> None:
    """Profiles are rules that the input does not have; names of ports would resolve on the host."""
    for index, profile in enumerate(profiles):
        if profile != DEFAULT_ALLOW:
            where = f"spec.profiles[{index}]"
            what = f"the profile {profile}"
            _unsupported(spec.span_of_item("profiles", index), where, what, decoder.report)
    if any(True for _ in decoder.items(spec, "ports", "spec")):
        what = "named ports of a host endpoint"
        _unsupported(spec.span_of("ports"), "spec.ports", what, decoder.report)


def _unsupported(span: Span, where: str, what: str, report: Report) -> None:
    finding = codes_several_apis.UNSUPPORTED.at(span, where, where=where, what=what)
    report.add(finding.help("take it out"))


def with_hosts(universe: Universe, hosts: Iterable[HostEndpoint], report: Report) -> Universe:
    """The universe whose nodes have their host endpoints.

    A host without a Node object becomes a Node, with the addresses that it is expected to have.

    A host that is no Node of the cluster becomes one, with the addresses it is expected to have.
    """
    by_node = _one_each(hosts, report)
    if not by_node:
        return universe
    nodes = {node.name: node for node in universe.nodes}
    for name, host in by_node.items():
        nodes[name] = _with_interface(nodes.get(name, Node(name)), host)
    endpoints = tuple(_on_node(endpoint, nodes) for endpoint in universe.endpoints)
    return replace(
        universe, endpoints=endpoints, nodes=tuple(nodes[name] for name in sorted(nodes))
    )


def _one_each(hosts: Iterable[HostEndpoint], report: Report) -> dict[str, HostEndpoint]:
    """One host endpoint per node; a second one is not supported."""
    found: dict[str, HostEndpoint] = {}
    for host in hosts:
        other = found.setdefault(host.node, host)
        if other != host:
            where = "spec.node"
            what = f"a second HostEndpoint of the node {host.node}"
            finding = codes_several_apis.UNSUPPORTED.at(host.span, where, where=where, what=what)
            report.add(finding.note(other.span, f"{other.name} is here").help(_ONE_EACH))
    return found


def _with_interface(node: Node, host: HostEndpoint) -> Node:
    interface = HostInterface(host.name, host.labels, host.denies_unmatched, has_failsafes=True)
    return replace(node, addresses=node.addresses or host.addresses, host=interface)


def _on_node(endpoint: Endpoint, nodes: Mapping[str, Node]) -> Endpoint:
    node = nodes.get(endpoint.node)
    return endpoint if node == endpoint.its_node else replace(endpoint, its_node=node)
