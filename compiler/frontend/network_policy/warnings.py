# SPDX-License-Identifier: Apache-2.0
"""Warnings about NetworkPolicies that are valid, but probably do not mean what they seem to mean."""

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.network_policy.policy import (
    EGRESS,
    INGRESS,
    NetworkPolicy,
    Rule,
)
from policyc.ir.diagnostics import Report


def warn_network_policy(policy: NetworkPolicy, report: Report) -> None:
    """Every warning about one policy."""
    _warn_dead_rules(policy, report)
    for name, rules in (("ingress", policy.ingress), ("egress", policy.egress)):
        for index, rule in enumerate(rules):
            _warn_null(rule, f"spec.{name}[{index}]", report)
            _warn_null_ports(rule, f"spec.{name}[{index}]", report)
    if not policy.has_types:
        _warn_default_types(policy, report)


def _warn_dead_rules(policy: NetworkPolicy, report: Report) -> None:
    """Rules of a direction that policyTypes omits (A6)."""
    for name, kind, rules in (
        ("ingress", INGRESS, policy.ingress),
        ("egress", EGRESS, policy.egress),
    ):
        if rules and kind not in policy.policy_types:
            where = f"spec.{name}"
            entry = policy.spec.entries[name]
            finding = codes.DEAD_RULES.at(entry.key.span, where, where=where, direction=kind)
            finding = finding.note(policy.spec.span_of("policyTypes"), "policyTypes is here")
            report.add(finding.help(f"add {kind} to policyTypes, or remove the rules"))


def _warn_null(rule: Rule, path: str, report: Report) -> None:
    """`- null` and `from: null` decode to empty and allow all (A7)."""
    if rule.is_null:
        meaning = "it allows every peer and port"
        finding = codes.NULL_ALLOWS_ALL.at(
            rule.node.span, path, where=path, what="rule", meaning=meaning
        )
        report.add(finding.help("if that is meant, write `- {}`"))
    for name, meaning in ((rule.peers_field, "every peer"), ("ports", "every port and protocol")):
        entry = rule.node.entries.get(name)
        if entry is not None and entry.value.is_null:
            where = f"{path}.{name}"
            finding = codes.NULL_ALLOWS_ALL.at(
                entry.key.span, where, where=where, what="list", meaning=f"it allows {meaning}"
            )
            report.add(finding.help(f"if that is meant, leave `{name}` out"))


def _warn_null_ports(rule: Rule, path: str, report: Report) -> None:
    """`ports: [null]` is all of TCP (A17)."""
    for index, port in enumerate(rule.ports):
        if port.is_null:
            where = f"{path}.ports[{index}]"
            finding = codes.NULL_ALLOWS_ALL.at(
                port.node.span, where, where=where, what="port", meaning="it allows every TCP port"
            )
            report.add(finding.help("if that is meant, write `- {}`"))


def _warn_default_types(policy: NetworkPolicy, report: Report) -> None:
    """Without policyTypes every policy isolates ingress, and `egress: []` nothing (A6, A8)."""
    entry = policy.spec.entries.get("egress")
    if entry is None or "ingress" in policy.spec.entries:
        return
    where = "spec.egress"
    finding = codes.ISOLATES_INGRESS.at(entry.key.span, where, where=where)
    report.add(finding.help("write policyTypes: [Egress], or [Ingress, Egress] if that is meant"))
    if not policy.egress:
        finding = codes.EGRESS_NOT_ISOLATED.at(entry.key.span, where, where=where)
        report.add(finding.help("to deny all egress, write policyTypes: [Egress]"))
