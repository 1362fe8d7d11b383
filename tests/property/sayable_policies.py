# SPDX-License-Identifier: Apache-2.0
"""Policies as front ends make them: without conditions on hosts that no API has."""

from dataclasses import replace

from policyc.ir.peers import ANY_PEER, NodePeer, Peer, leaves
from policyc.ir.policy import NEVER, Policy, PolicySet, Rule
from policyc.ir.selectors import AllOf, Attribute, AttributeTest, Condition, Not, OneOf


def sayable(policies: PolicySet) -> PolicySet:
    """Without source ports; no front end asks of a host's own side that it be a node, and none finds
    nodes by labels of their host interfaces.
    """

    def rule(each: Rule, has_host_policy: bool) -> Rule:
        asks = has_host_policy and any(isinstance(leaf, NodePeer) for leaf in leaves(each.own))
        return replace(
            each,
            source_ports=None,
            own=ANY_PEER if asks else by_node_labels(each.own),
            peers=tuple(map(by_node_labels, each.peers)),
        )

    def policy(each: Policy) -> Policy:
        guards = each.hosts != NEVER
        return replace(
            each,
            ingress=tuple(rule(r, guards) for r in each.ingress),
            egress=tuple(rule(r, guards) for r in each.egress),
        )

    tiers = (replace(t, policies=tuple(map(policy, t.policies))) for t in policies.tiers)
    return PolicySet(tuple(tiers))


def by_node_labels(peer: Peer) -> Peer:
    """Selectors by a node's host labels use the labels of its Node object instead."""
    match peer:
        case NodePeer(condition):
            return replace(peer, condition=_of_node(condition))
        case AllOf(parts) | OneOf(parts):
            return replace(peer, parts=tuple(map(by_node_labels, parts)))
        case Not(part):
            return Not(by_node_labels(part))
        case _:
            return peer


def _of_node(condition: Condition) -> Condition:
    match condition:
        case AttributeTest(Attribute.LABEL):
            return replace(condition, attribute=Attribute.NODE_LABEL)
        case AllOf(parts) | OneOf(parts):
            return replace(condition, parts=tuple(map(_of_node, parts)))
        case Not(part):
            return Not(_of_node(part))
        case _:
            return condition
