# SPDX-License-Identifier: Apache-2.0
"""Validation of NetworkPolicy as the API server does it, with its messages.

Follows pkg/apis/networking/validation: the same checks in the same order, with the same paths and
messages; hints are ours. A mistake that the front end already found (a wrong type, an unknown field) is
not reported again.
"""

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.addresses import (
    Cidr,
    parse_cidr,
)
from policyc.compiler.frontend.kubernetes.metadata import (
    quoted,
    validate_metadata,
)
from policyc.compiler.frontend.kubernetes.names import port_name_problems
from policyc.compiler.frontend.kubernetes.selectors import validate_selector
from policyc.compiler.frontend.network_policy.policy import (
    EGRESS,
    INGRESS,
    IpBlock,
    NetworkPolicy,
    Peer,
    Port,
    Rule,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.ir.diagnostics import Code, Report
from policyc.ir.services import Protocol
from policyc.ir.spans import Span

_PROTOCOLS = frozenset(protocol.name for protocol in Protocol)
_TYPES = (INGRESS, EGRESS)
PORTS = range(1, 65536)


def validate_network_policy(policy: NetworkPolicy, is_strict: bool, report: Report) -> None:
    """ValidateNetworkPolicy. Before Kubernetes 1.36 CIDRs are read leniently: not `is_strict`."""
    validate_metadata(policy.metadata, report)
    validate_selector(policy.pod_selector, "spec.podSelector", report)
    for name, rules in (("ingress", policy.ingress), ("egress", policy.egress)):
        for index, rule in enumerate(rules):
            _validate_rule(rule, f"spec.{name}[{index}]", is_strict, report)
    _validate_types(policy, report)


def _validate_rule(rule: Rule, path: str, is_strict: bool, report: Report) -> None:
    for index, port in enumerate(rule.ports):
        _validate_port(port, f"{path}.ports[{index}]", report)
    for index, peer in enumerate(rule.peers):
        _validate_peer(peer, f"{path}.{rule.peers_field}[{index}]", is_strict, report)


def _validate_types(policy: NetworkPolicy, report: Report) -> None:
    path, types, spec = "spec.policyTypes", policy.policy_types, policy.spec
    if len(types) > len(_TYPES):
        value = quoted(list(types))
        report.add(
            codes.TYPES_TOO_MANY.at(spec.span_of("policyTypes"), path, where=path, value=value)
        )
        return
    for index, name in enumerate(types):
        if name not in _TYPES:
            where = f"{path}[{index}]"
            span = spec.span_of_item("policyTypes", index)
            finding = codes.TYPE_UNSUPPORTED.at(span, where, where=where, value=quoted(name))
            report.add(finding.help(did_you_mean(name, _TYPES)))


def _validate_port(port: Port, path: str, report: Report) -> None:
    """ValidateNetworkPolicyPort (A17, A18)."""
    if port.protocol is not None and port.protocol not in _PROTOCOLS:
        where = f"{path}.protocol"
        finding = codes.PROTOCOL_UNSUPPORTED.at(
            port.node.span_of("protocol"), where, where=where, value=quoted(port.protocol)
        )
        report.add(finding.help(did_you_mean(port.protocol, _PROTOCOLS)))
    match port.port:
        case None:
            if port.end_port is not None and port.node.get("port") is None:
                _report_end_port(codes.END_PORT_WITHOUT_PORT, port, port.end_port, path, report)
        case int(number):
            _validate_number(number, port, path, report)
        case str(name):
            _validate_port_name(name, port, path, report)


def _validate_number(number: int, port: Port, path: str, report: Report) -> None:
    if number not in PORTS:
        where = f"{path}.port"
        finding = codes.PORT_RANGE.at(port.node.span_of("port"), where, where=where, value=number)
        hint = "for every port, leave `port` out" if number == 0 else ""
        report.add(finding.help(hint))
    if port.end_port is None:
        return
    if port.end_port < number:  # the server shows `port` as the value here, so do we
        _report_end_port(codes.END_PORT_BELOW, port, number, path, report)
    if port.end_port not in PORTS:
        _report_end_port(codes.PORT_RANGE, port, port.end_port, path, report)


def _validate_port_name(name: str, port: Port, path: str, report: Report) -> None:
    if port.end_port is not None:
        _report_end_port(codes.END_PORT_WITH_NAME, port, port.end_port, path, report)
    where = f"{path}.port"
    for problem in port_name_problems(name):
        finding = codes.PORT_NAME.at(
            port.node.span_of("port"), where, where=where, value=quoted(name), problem=problem
        )
        report.add(
            finding.help(
                f"for the port number, remove the quotes: {name}" if name.isdigit() else ""
            )
        )


def _report_end_port(code: Code, port: Port, value: int, path: str, report: Report) -> None:
    where = f"{path}.endPort"
    finding = code.at(port.node.span_of("endPort"), where, where=where, value=value)
    if code is codes.END_PORT_BELOW:
        finding = finding.note(port.node.span_of("port"), "the range starts here")
        finding = finding.help("swap the two, or remove endPort")
    report.add(finding)


def _validate_peer(peer: Peer, path: str, is_strict: bool, report: Report) -> None:
    """ValidateNetworkPolicyPeer (A11)."""
    if peer.pod_selector is not None:
        validate_selector(peer.pod_selector, f"{path}.podSelector", report)
    if peer.namespace_selector is not None:
        validate_selector(peer.namespace_selector, f"{path}.namespaceSelector", report)
    if peer.ip_block is not None:
        _validate_ip_block(peer.ip_block, f"{path}.ipBlock", is_strict, report)
    if all(entry.value.is_null for _, entry in peer.node):
        finding = codes.PEER_REQUIRED.at(peer.node.span, path, where=path)
        report.add(finding.help("for every pod of every namespace, write `namespaceSelector: {}`"))
    elif peer.ip_block is not None and (peer.pod_selector or peer.namespace_selector):
        finding = codes.PEER_FORBIDDEN.at(peer.node.span, path, where=path)
        report.add(finding.help("make the ipBlock an item of its own: start its line with `- `"))


def _validate_ip_block(block: IpBlock, path: str, is_strict: bool, report: Report) -> None:
    """ValidateIPBlock (A14)."""
    if block.cidr is None:
        return
    if not block.cidr:
        where = f"{path}.cidr"
        report.add(codes.CIDR_REQUIRED.at(block.node.span_of("cidr"), where, where=where))
        return
    span = block.node.span_of("cidr")
    cidr = _validated_cidr(block.cidr, span, f"{path}.cidr", is_strict, report)
    for index, text in enumerate(block.excepts):
        span = block.node.span_of_item("except", index)
        where = f"{path}.except[{index}]"
        hole = _validated_cidr(text, span, where, is_strict, report)
        if cidr is not None and hole is not None and not _is_strict_subset(hole, cidr):
            finding = codes.EXCEPT_OUTSIDE.at(span, where, where=where, value=quoted(text))
            report.add(finding.note(block.node.span_of("cidr"), f"`cidr` is {block.cidr}"))


def _is_strict_subset(hole: Cidr, cidr: Cidr) -> bool:
    """Inside, longer, and of the same family."""
    inner, outer = hole.network, cidr.network
    if inner.version != outer.version or inner.prefixlen <= outer.prefixlen:
        return False
    return inner.network_address in outer


def _validated_cidr(
    text: str, span: Span, where: str, is_strict: bool, report: Report
) -> Cidr | None:
    """IsValidCIDRForLegacyField, then GetWarningsForCIDR; None if it does not parse at all."""
    cidr = parse_cidr(text)
    if cidr is None:
        finding = codes.CIDR_INVALID.at(span, where, where=where, value=quoted(text))
        bits = 128 if ":" in text else 32
        is_address = parse_cidr(f"{text}/{bits}") is not None
        report.add(finding.help(f"for one address, write {text}/{bits}" if is_address else ""))
        return None
    if is_strict and not _is_strict(cidr):
        _report_not_strict(cidr, text, span, where, report)
        return cidr
    _warn(cidr, text, span, where, report)
    return cidr


def _is_strict(cidr: Cidr) -> bool:
    """Whether 1.36 accepts it."""
    return not (cidr.has_leading_zeros or cidr.is_mapped or cidr.has_host_bits)


def _report_not_strict(cidr: Cidr, text: str, span: Span, where: str, report: Report) -> None:
    """The deviation that 1.36 rejects; one of the three, in the server's order."""
    if cidr.has_leading_zeros:
        code = codes.CIDR_ZEROS
    elif cidr.is_mapped:
        code = codes.CIDR_MAPPED
    else:
        code = codes.CIDR_HOST_BITS
    finding = code.at(span, where, where=where, value=quoted(text))
    hint = f"write {cidr.network}"
    if code is codes.CIDR_HOST_BITS:
        hint += f", or for the one address {cidr.address}/{cidr.address.max_prefixlen}"
    report.add(finding.help(hint))


def _warn(cidr: Cidr, text: str, span: Span, where: str, report: Report) -> None:
    """The warnings of servers of every version."""
    value = quoted(text)
    if cidr.has_host_bits:
        host = f"{cidr.address}/{cidr.address.max_prefixlen}"
        report.add(
            codes.CIDR_AMBIGUOUS.at(
                span, where, where=where, value=value, network=cidr.network, host=host
            )
        )
    if cidr.has_leading_zeros or cidr.is_mapped:
        report.add(
            codes.CIDR_NON_STANDARD.at(span, where, where=where, value=value, network=cidr.network)
        )
    elif not cidr.is_canonical:
        canonical = f"{cidr.address}/{cidr.network.prefixlen}"
        report.add(
            codes.CIDR_NON_CANONICAL.at(span, where, where=where, value=value, canonical=canonical)
        )
