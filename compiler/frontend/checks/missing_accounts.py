# SPDX-License-Identifier: Apache-2.0
"""Warns if policies read labels of service accounts that the cluster's objects do not give."""

from collections.abc import Iterable, Iterator, Set

from policyc.compiler.frontend.calico import codes
from policyc.ir.diagnostics import Report
from policyc.ir.peers import EndpointPeer, leaves
from policyc.ir.policy import Direction, Policy, PolicySet
from policyc.ir.selectors import AllOf, Attribute, AttributeTest, Condition, Not, OneOf
from policyc.ir.spans import Origin
from policyc.ir.universe import Endpoint


def warn_missing_accounts(
    policies: PolicySet,
    endpoints: Iterable[Endpoint],
    known: Set[tuple[str, str]],
    report: Report,
) -> None:
    """One warning that names the accounts of pods that have no object, if it matters.

    `known` are (namespace, name) of all objects.
    """
    reader = next(_readers(policies), None)
    if reader is None:
        return
    missing = sorted({(e.namespace, e.service_account) for e in endpoints} - known)
    if not missing:
        return
    policy, origin, key = reader
    finding = codes.ACCOUNT_MISSING.at(
        origin.span,
        origin.path,
        policy=policy.title,
        key=key,
        names=", ".join("/".join(account) for account in missing),
    )
    report.add(finding.help("give their ServiceAccount objects with --cluster"))


def _readers(policies: PolicySet) -> Iterator[tuple[Policy, Origin, str]]:
    """The policies and rules that read a label of service accounts, and the label."""
    for policy in (policy for tier in policies.tiers for policy in tier.policies):
        for key in _keys(policy.subject.condition):
            yield policy, policy.origin, key
        for rule in (*policy.rules(Direction.INGRESS), *policy.rules(Direction.EGRESS)):
            for leaf in (leaf for peer in (rule.own, *rule.peers) for leaf in leaves(peer)):
                if isinstance(leaf, EndpointPeer):
                    for key in _keys(leaf.selector.condition):
                        yield policy, rule.origin, key


def _keys(condition: Condition) -> Iterator[str]:
    match condition:
        case AttributeTest(Attribute.SERVICE_ACCOUNT_LABEL, requirement):
            yield requirement.key
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from _keys(part)
        case Not(part):
            yield from _keys(part)
