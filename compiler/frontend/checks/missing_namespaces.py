# SPDX-License-Identifier: Apache-2.0
"""Warns if policies read labels of namespaces that the cluster's objects do not give."""

from collections.abc import Iterable, Iterator, Set

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.cluster.nodes import NAMESPACE_NAME_LABEL
from policyc.ir.diagnostics import Report
from policyc.ir.peers import EndpointPeer, leaves
from policyc.ir.policy import Direction, Policy, PolicySet, Rule
from policyc.ir.selectors import (
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
)
from policyc.ir.spans import Origin
from policyc.ir.universe import Endpoint


def warn_missing_namespaces(
    policies: PolicySet, endpoints: Iterable[Endpoint], known: Set[str], report: Report
) -> None:
    """One warning that names the namespaces of pods that have no Namespace object, if it matters."""
    missing = sorted({endpoint.namespace for endpoint in endpoints} - known)
    reader = next(_readers(policies), None)
    if not missing or reader is None:
        return
    policy, origin, key = reader
    finding = codes.NAMESPACE_MISSING.at(
        origin.span,
        origin.path,
        policy=policy.qualified_name,
        key=key,
        names=", ".join(missing),
    )
    report.add(finding.help("give their Namespace objects with --cluster"))


def _readers(policies: PolicySet) -> Iterator[tuple[Policy, Origin, str]]:
    """The policies and rules that read a namespace label other than its name, and the label."""
    for tier in policies.tiers:
        for policy in tier.policies:
            for key in _selector_keys(policy.subject):
                if key != NAMESPACE_NAME_LABEL:
                    yield policy, policy.origin, key
            for rule in (*policy.rules(Direction.INGRESS), *policy.rules(Direction.EGRESS)):
                for key in _namespace_keys(rule):
                    if key != NAMESPACE_NAME_LABEL:
                        yield policy, rule.origin, key


def _namespace_keys(rule: Rule) -> Iterator[str]:
    """The labels of namespaces that a rule's peers read."""
    for leaf in (leaf for peer in (rule.own, *rule.peers) for leaf in leaves(peer)):
        if isinstance(leaf, EndpointPeer):
            yield from _selector_keys(leaf.selector)


def _selector_keys(selector: EndpointSelector) -> Iterator[str]:
    yield from (r.key for r in selector.namespace_labels.requirements)
    yield from _keys_in(selector.condition)


def _keys_in(condition: Condition) -> Iterator[str]:
    match condition:
        case AttributeTest(Attribute.NAMESPACE_LABEL, requirement):
            yield requirement.key
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from _keys_in(part)
        case Not(part):
            yield from _keys_in(part)
