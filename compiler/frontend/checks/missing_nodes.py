# SPDX-License-Identifier: Apache-2.0
"""Warns if policies read nodes that the cluster's objects do not describe.

Without a Node object, the address of a node counts as outside the cluster, and the node has no labels.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.cilium.hosts import is_host_policy
from policyc.ir.diagnostics import Report
from policyc.ir.peers import EndpointPeer, Leaf, NodePeer, leaves
from policyc.ir.policy import Direction, Policy, PolicySet, Rule
from policyc.ir.selectors import AllOf, Attribute, AttributeTest, Condition, Not, OneOf
from policyc.ir.spans import Origin
from policyc.ir.universe import Universe


@dataclass(frozen=True, slots=True)
class _Reader:
    """A policy or rule that reads nodes; `by_address`: it matches them as ends of flows."""

    policy: Policy
    origin: Origin
    by_address: bool = False


def warn_missing_nodes(
    policies: PolicySet, universe: Universe, known: Set[str], report: Report
) -> None:
    """Warnings that name the nodes without a Node object, and those without an address, if it matters.

    `known` are the names of all Node objects.
    """
    names = sorted({endpoint.node for endpoint in universe.endpoints} - known - {""})
    reader = next(_readers(policies), None)
    if reader is not None and (names or not known):
        finding = codes.NODE_MISSING.at(
            reader.origin.span,
            reader.origin.path,
            policy=reader.policy.title,
            names=f" for {', '.join(names)}" if names else "",
        )
        report.add(finding.help("give their Node objects with --cluster"))
    mute = sorted(node.name for node in universe.nodes if not node.addresses)
    reader = next((found for found in _readers(policies) if found.by_address), None)
    if reader is not None and mute:
        finding = codes.NODE_WITHOUT_ADDRESS.at(
            reader.origin.span,
            reader.origin.path,
            policy=reader.policy.title,
            names=", ".join(mute),
        )
        report.add(finding.help("give status.addresses of Node objects: an InternalIP"))


def _readers(policies: PolicySet) -> Iterator[_Reader]:
    """The parts that need Node objects: node peers, labels of pods' nodes, and nodes as subjects."""
    for policy in (policy for tier in policies.tiers for policy in tier.policies):
        if is_host_policy(policy) or _reads_labels([policy.subject.condition, policy.hosts]):
            yield _Reader(policy, policy.origin)
        for rule in (*policy.rules(Direction.INGRESS), *policy.rules(Direction.EGRESS)):
            found = _leaves(rule)
            if any(isinstance(leaf, NodePeer) for leaf in found):
                yield _Reader(policy, rule.origin, by_address=True)
            elif _reads_labels(
                one.selector.condition for one in found if isinstance(one, EndpointPeer)
            ):
                yield _Reader(policy, rule.origin)


def _leaves(rule: Rule) -> list[Leaf]:
    return [leaf for peer in (rule.own, *rule.peers) for leaf in leaves(peer)]


def _reads_labels(conditions: Iterable[Condition]) -> bool:
    """Whether a condition reads labels of nodes; the name of its node is in the pod itself."""
    return any(_reads_label(condition) for condition in conditions)


def _reads_label(condition: Condition) -> bool:
    match condition:
        case AttributeTest(attribute):
            return attribute is Attribute.NODE_LABEL
        case AllOf(parts) | OneOf(parts):
            return _reads_labels(parts)
        case Not(part):
            return _reads_label(part)
