# SPDX-License-Identifier: Apache-2.0
"""The attributes of a flow's ends that the rules of some policy sets read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policyc.ir.peers import AddressPeer, EndpointPeer, Leaf, NodePeer, Where, leaves
from policyc.ir.policy import NEVER, Action, Direction, Limit, NamedPort, Policy, PolicySet, Rule
from policyc.ir.selectors import AllOf, Attribute, AttributeTest, Condition, Not, OneOf

_OF_NODES = (Attribute.NODE, Attribute.NODE_LABEL)


@dataclass
class Reads:
    """Blocks, nodes, named ports, limits: attributes that can make two ends or two flows differ.

    `conditions` are those that read the node of an end. `locality`: whether rules distinguish the own
    node from others. `hosts`: whether policies select host interfaces.
    """

    blocks: dict[AddressPeer, None] = field(default_factory=dict)
    conditions: dict[Condition, None] = field(default_factory=dict)
    limits: dict[Limit, int] = field(default_factory=dict)
    names: dict[NamedPort, None] = field(default_factory=dict)
    nodes: bool = False
    locality: bool = False
    hosts: bool = False

    @staticmethod
    def of(sets: Iterable[PolicySet]) -> "Reads":
        """Collect the attributes that several policy sets read."""
        found = Reads()
        for policy in policies_of(sets):
            found._policy(policy)
        return found

    def _policy(self, policy: Policy) -> None:
        if policy.hosts != NEVER:
            self.hosts = self.nodes = True
            self.conditions[policy.hosts] = None
        if _reads_nodes(policy.subject.condition):
            self.nodes = True
            self.conditions[policy.subject.condition] = None
        for direction in Direction:
            for rule in policy.rules(direction):
                self._rule(rule)

    def _rule(self, rule: Rule) -> None:
        if rule.action is Action.DENY_OWN_NODE:  # a pod's node makes a difference
            self.nodes = self.locality = True
        if rule.limit is not None:
            self.limits.setdefault(rule.limit, len(self.limits))
        for port in (*rule.ports, *rule.except_ports):
            if isinstance(port, NamedPort):
                self.names[port] = None
        for peer in (rule.own, *rule.peers):
            for leaf in leaves(peer):
                self._leaf(leaf)

    def _leaf(self, leaf: Leaf) -> None:
        match leaf:
            case AddressPeer():
                self.blocks[leaf] = None
            case NodePeer(condition, where):
                self.nodes = True
                self.conditions[condition] = None
                self.locality |= where is not Where.ANYWHERE
            case EndpointPeer(selector) if _reads_nodes(selector.condition):
                self.nodes = True
                self.conditions[selector.condition] = None


def policies_of(sets: Iterable[PolicySet]) -> Iterator[Policy]:
    """Every policy, tier by tier."""
    for policies in sets:
        for tier in policies.tiers:
            yield from tier.policies


def _reads_nodes(condition: Condition) -> bool:
    match condition:
        case AttributeTest(attribute):
            return attribute in _OF_NODES
        case AllOf(parts) | OneOf(parts):
            return any(map(_reads_nodes, parts))
        case Not(part):
            return _reads_nodes(part)
