# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of a policy set: the selectors, address blocks, nodes and named ports that rules read.

Input: a PolicySet. Output: the Vocabulary whose indices every later stage uses. Selector *bit* i is
`selectors[i]`, block i is `blocks[i]`, node condition i is `node_conditions[i]`, named port i is
`named_ports[i]`. The order is that of first use in canonical order, so the same policies give the same
indices.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.peers import AddressPeer, EndpointPeer, Leaf, NodePeer, Where, leaves
from policyc.ir.policy import Direction, NamedPort, PolicySet, Rule
from policyc.ir.selectors import Condition, EndpointSelector


@dataclass(frozen=True)
class Vocabulary:
    """Everything that can make two endpoints, two nodes or two addresses differ to a rule.

    `subject_bits` and `peer_bits` are masks over `selectors`: the selectors tested on subjects (as their
    policies' subjects, or as a rule's own side), and the selectors tested on peers. `own_blocks` is a
    mask over `blocks`: the blocks that a rule tests on the subject's own address. `ingress_ports` and
    `egress_ports` are masks over `named_ports`: a named port resolves on the destination, so on the
    subject of ingress and on the peer of egress (A19). `reads_nodes` says whether rules distinguish a
    node from an address, `reads_locality` whether they distinguish the subject's own node.
    """

    selectors: Sequence[EndpointSelector]
    blocks: Sequence[AddressPeer]
    named_ports: tuple[NamedPort, ...]
    subject_bits: int
    peer_bits: int
    ingress_ports: int
    egress_ports: int
    node_conditions: tuple[Condition, ...] = ()
    own_blocks: int = 0
    reads_nodes: bool = False
    reads_locality: bool = False

    @cached_property
    def bit_of(self) -> Mapping[EndpointSelector, int]:
        """Selector -> index of its bit."""
        return {selector: bit for bit, selector in enumerate(self.selectors)}

    @cached_property
    def block_of(self) -> Mapping[AddressPeer, int]:
        """Block -> its index."""
        return {block: index for index, block in enumerate(self.blocks)}

    @cached_property
    def node_of(self) -> dict[Condition, int]:
        """Node condition -> its index."""
        return {condition: index for index, condition in enumerate(self.node_conditions)}

    @cached_property
    def port_of(self) -> dict[NamedPort, int]:
        """Named port -> its index."""
        return {port: index for index, port in enumerate(self.named_ports)}


def vocabulary_of(policies: PolicySet) -> Vocabulary:
    """Collect what the rules of `policies` read."""
    rules = list(_all_rules(policies))
    theirs = list(dict.fromkeys(leaf for _, r in rules for p in r.peers for leaf in leaves(p)))
    own = list(dict.fromkeys(leaf for _, rule in rules for leaf in leaves(rule.own)))
    subjects = dict.fromkeys(p.subject for t in policies.tiers for p in t.policies)
    subjects |= _selectors(own)
    blocks = _blocks(theirs) | _blocks(own)
    nodes = [leaf for leaf in (*theirs, *own) if isinstance(leaf, NodePeer)]
    ingress = _named_ports(rule for d, rule in rules if d is Direction.INGRESS)
    egress = _named_ports(rule for d, rule in rules if d is Direction.EGRESS)
    selectors = tuple(dict.fromkeys((*subjects, *_selectors(theirs))))
    ports = tuple(dict.fromkeys((*ingress, *egress)))
    return Vocabulary(
        selectors=selectors,
        blocks=tuple(blocks),
        named_ports=ports,
        subject_bits=_mask(selectors, subjects),
        peer_bits=_mask(selectors, _selectors(theirs)),
        ingress_ports=_mask(ports, ingress),
        egress_ports=_mask(ports, egress),
        node_conditions=tuple(dict.fromkeys(node.condition for node in nodes)),
        own_blocks=_mask(tuple(blocks), _blocks(own)),
        reads_nodes=bool(nodes),
        reads_locality=any(node.where is not Where.ANYWHERE for node in nodes),
    )


def _selectors(found: Iterable[Leaf]) -> dict[EndpointSelector, None]:
    return dict.fromkeys(leaf.selector for leaf in found if isinstance(leaf, EndpointPeer))


def _blocks(found: Iterable[Leaf]) -> dict[AddressPeer, None]:
    return dict.fromkeys(leaf for leaf in found if isinstance(leaf, AddressPeer))


def _all_rules(policies: PolicySet) -> Iterator[tuple[Direction, Rule]]:
    for tier in policies.tiers:
        for policy in tier.policies:
            for direction in Direction:
                for rule in policy.rules(direction):
                    yield direction, rule


def _named_ports(rules: Iterable[Rule]) -> dict[NamedPort, None]:
    return dict.fromkeys(
        port
        for rule in rules
        for port in (*rule.ports, *rule.except_ports)
        if isinstance(port, NamedPort)
    )


def _mask(items: Sequence[object], chosen: Container[object]) -> int:
    return sum(1 << index for index, item in enumerate(items) if item in chosen)
