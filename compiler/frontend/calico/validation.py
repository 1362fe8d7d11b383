# SPDX-License-Identifier: Apache-2.0
"""Combinations of fields that a Calico policy may not have (semantics D42 to D44).

Follows libcalico-go's validator and the CRDs' rules, which refuse the same objects.
"""

from collections.abc import Iterator

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.policy import (
    EGRESS,
    INGRESS,
    CalicoPolicy,
)
from policyc.compiler.frontend.calico.rule import (
    Entity,
    Rule,
)
from policyc.compiler.frontend.calico.values import (
    PROTOCOLS,
    WITH_PORTS,
    Net,
    is_blank,
)
from policyc.ir.diagnostics import Code, Report
from policyc.ir.services import ICMP_NUMBER, ICMPV6_NUMBER

_FAMILY_OF = {ICMP_NUMBER: 4, ICMPV6_NUMBER: 6}
_NAME_OF = {number: name for name, number in PROTOCOLS.items()}
_ALONE = ("selector", "notSelector", "namespaceSelector", "serviceAccounts", "nets", "notNets")


def validate_calico_policy(policy: CalicoPolicy, report: Report) -> None:
    """Report every combination that Calico refuses."""
    _validate_switches(policy, report)
    _warn_dead_rules(policy, report)
    for rules, is_ingress in ((policy.ingress, True), (policy.egress, False)):
        for rule in rules:
            _validate_ports(rule, report)
            _validate_icmp(rule, report)
            _validate_not_nets(rule, report)
            _validate_families(rule, report)
            _validate_http(rule, is_ingress, report)
            _validate_services(rule, is_ingress, policy.is_global, report)


def _validate_switches(policy: CalicoPolicy, report: Report) -> None:
    """doNotTrack, preDNAT and applyOnForward, which say at which point of a host a policy applies."""
    switches, spec = policy.switches, policy.spec

    def conflict(name: str, problem: str) -> None:
        where = f"spec.{name}"
        report.add(codes.CONFLICT.at(spec.span_of(name), where, where=where, problem=problem))

    if {"doNotTrack", "preDNAT"} <= switches:
        conflict("preDNAT", "preDNAT and doNotTrack exclude each other")
    if "preDNAT" in switches and policy.egress:
        conflict("egress", "a preDNAT policy has no egress rules")
    elif "preDNAT" in switches and EGRESS in policy.types:
        conflict("types", "a preDNAT policy is for ingress only")
    if switches & {"doNotTrack", "preDNAT"} and "applyOnForward" not in switches:
        conflict("applyOnForward", "applyOnForward must be true with preDNAT or doNotTrack")


def _warn_dead_rules(policy: CalicoPolicy, report: Report) -> None:
    """Rules of a direction that the policy does not apply to (D42)."""
    for name, direction, rules in (
        ("ingress", INGRESS, policy.ingress),
        ("egress", EGRESS, policy.egress),
    ):
        if rules and direction not in policy.types:
            where = f"spec.{name}"
            span = policy.spec.entries[name].key.span
            finding = codes.DEAD_RULES.at(span, where, where=where, direction=direction)
            finding = finding.note(policy.spec.span_of("types"), "types is here")
            report.add(finding.help(f"add {direction} to types, or remove the rules"))


def _validate_ports(rule: Rule, report: Report) -> None:
    is_unreadable = rule.protocol is None and rule.node.get("protocol") is not None
    if is_unreadable or rule.protocol in WITH_PORTS:
        return
    for entity in (rule.source, rule.destination):
        for name in ("ports", "notPorts"):
            if _has(entity, name):
                _report(codes.PORTS_WITHOUT_PROTOCOL, entity, name, report)


def _validate_icmp(rule: Rule, report: Report) -> None:
    written = getattr(rule.node.get("protocol"), "text", "")
    is_named = rule.protocol in _FAMILY_OF and not written.isdecimal()
    if rule.icmp is not None and not is_named:
        where = f"{rule.path}.icmp"
        problem = "icmp needs `protocol: ICMP` or `ICMPv6`, by name, in the same rule"
        span = rule.node.span_of("icmp")
        report.add(codes.ICMP.at(span, where, where=where, problem=problem))
    for name, number in (("protocol", rule.protocol), ("notProtocol", rule.not_protocol)):
        family = _FAMILY_OF.get(number or 0)
        if family is not None and rule.ip_version not in (None, family):
            where = f"{rule.path}.ipVersion"
            problem = f"`{name}: {_NAME_OF[number or 0]}` is of IPv{family}"
            span = rule.node.span_of("ipVersion")
            report.add(codes.CONFLICT.at(span, where, where=where, problem=problem))


def _validate_not_nets(rule: Rule, report: Report) -> None:
    """A rule that excludes every address of a family would match nothing."""
    for entity in (rule.source, rule.destination):
        for net in entity.not_nets:
            if net.network.prefixlen == 0:
                problem = f"{net.network} excludes every address"
                report.add(codes.CONFLICT.at(net.span, net.path, where=net.path, problem=problem))


def _validate_families(rule: Rule, report: Report) -> None:
    """All CIDRs of a rule are of one family, the one of `ipVersion`."""
    first: Net | None = None
    for net in _nets(rule):
        version = net.network.version
        if rule.ip_version not in (None, version):
            other = f"`ipVersion: {rule.ip_version}`"
        elif first is not None and first.network.version != version:
            other = str(first.network)
        else:
            first = first or net
            continue
        finding = codes.FAMILIES.at(
            net.span, net.path, where=net.path, value=net.network, other=other
        )
        report.add(finding.help("make two rules, one for each family"))


def _nets(rule: Rule) -> Iterator[Net]:
    for entity in (rule.source, rule.destination):
        yield from (*entity.nets, *entity.not_nets)


def _validate_http(rule: Rule, is_ingress: bool, report: Report) -> None:
    if not rule.has_http:
        return
    problem = ""
    if rule.action != "Allow":
        problem = "http needs a rule that allows"
    elif not is_ingress:
        problem = "http needs an ingress rule"
    elif rule.protocol not in (None, PROTOCOLS["TCP"]):
        problem = "http needs `protocol: TCP`, or none"
    if problem:
        where = f"{rule.path}.http"
        span = rule.node.span_of("http")
        report.add(codes.CONFLICT.at(span, where, where=where, problem=problem))


def _validate_services(rule: Rule, is_ingress: bool, is_global: bool, report: Report) -> None:
    allowed, other = rule.source, rule.destination
    if not is_ingress:
        allowed, other = other, allowed
    if other.services is not None:
        _report(codes.SERVICES_PLACE, other, "services", report)
    services = allowed.services
    if services is None:
        return
    excluded = _ALONE if is_ingress else (*_ALONE, "ports", "notPorts")
    for name in excluded:
        if _has(allowed, name):
            where = f"{allowed.path}.{name}"
            finding = codes.CONFLICT.at(
                allowed.node.span_of(name), where, where=where, problem="not together with services"
            )
            report.add(finding.note(services.node.span, "services is here"))
    if is_global and is_blank(services.node, "namespace"):
        where = f"{allowed.path}.services.namespace"
        finding = codes.REQUIRED.at(services.node.span_of("namespace"), where, where=where)
        report.add(finding.help("a GlobalNetworkPolicy has no namespace of its own"))


def _has(entity: Entity, name: str) -> bool:
    """Whether a field has a value: an empty list or text does not count."""
    node = entity.node.get(name)
    return (
        node is not None
        and bool(getattr(node, "items", True))
        and (getattr(node, "text", None) != "")
    )


def _report(code: Code, entity: Entity, name: str, report: Report) -> None:
    where = f"{entity.path}.{name}"
    report.add(code.at(entity.node.span_of(name), where, where=where))
