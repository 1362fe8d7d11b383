# SPDX-License-Identifier: Apache-2.0
"""Nodes under Cilium's host policies: every node, once a policy selects nodes (E45)."""

from dataclasses import replace

from policyc.ir.policy import NEVER, Policy, PolicySet
from policyc.ir.universe import HostInterface, Universe

_GROUP = ".cilium.io"


def has_host_policy(policies: PolicySet) -> bool:
    """Whether every node is a subject, because some policy of Cilium's selects nodes."""
    return any(is_host_policy(policy) for tier in policies.tiers for policy in tier.policies)


def is_host_policy(policy: Policy) -> bool:
    """Whether it is a policy of Cilium's that selects nodes."""
    return policy.kind.endswith(_GROUP) and policy.hosts != NEVER


def with_node_hosts(universe: Universe, policies: PolicySet) -> Universe:
    """The universe whose nodes are subjects; flows that no policy decides for them stay allowed."""
    if not has_host_policy(policies):
        return universe
    nodes = {
        node.name: node if node.host else replace(node, host=HostInterface(node.name))
        for node in universe.nodes
    }
    endpoints = tuple(
        replace(endpoint, its_node=nodes.get(endpoint.node, endpoint.its_node))
        for endpoint in universe.endpoints
    )
    return Universe(endpoints, tuple(nodes.values()))
