# SPDX-License-Identifier: Apache-2.0
"""What the rules of a policy set read: selectors, address blocks, named ports. Nothing else matters.

Takes a PolicySet, gives the Vocabulary whose indices every later stage uses: selector *bit* i is
`selectors[i]`, block i is `blocks[i]`, named port i is `named_ports[i]`. Order is that of first use
in canonical order, so the same policies give the same indices.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from policyc.ir.policy import (
    AddressPeer,
    Direction,
    EndpointPeer,
    EndpointSelector,
    NamedPort,
    PolicySet,
    Rule,
)


@dataclass(frozen=True)
class Vocabulary:
    """Everything that can make two endpoints or two addresses differ to a rule.

    `subject_bits` and `peer_bits` are masks over `selectors`: those that select subjects, and those
    that stand in a rule. `ingress_ports` and `egress_ports` are masks over `named_ports`: a named
    port resolves on the destination, so on the subject of ingress and on the peer of egress (A19).
    """

    selectors: tuple[EndpointSelector, ...]
    blocks: tuple[AddressPeer, ...]
    named_ports: tuple[NamedPort, ...]
    subject_bits: int
    peer_bits: int
    ingress_ports: int
    egress_ports: int

    @cached_property
    def bit_of(self) -> dict[EndpointSelector, int]:
        """Selector -> index of its bit."""
        return {selector: bit for bit, selector in enumerate(self.selectors)}

    @cached_property
    def block_of(self) -> dict[AddressPeer, int]:
        """Block -> its index."""
        return {block: index for index, block in enumerate(self.blocks)}

    @cached_property
    def port_of(self) -> dict[NamedPort, int]:
        """Named port -> its index."""
        return {port: index for index, port in enumerate(self.named_ports)}


def vocabulary_of(policies: PolicySet) -> Vocabulary:
    """Gather what the rules of `policies` read."""
    subjects = dict.fromkeys(p.subject for t in policies.tiers for p in t.policies)
    rules = list(_all_rules(policies))
    peers = [peer for _, rule in rules for peer in rule.peers]
    in_rules = dict.fromkeys(peer.selector for peer in peers if isinstance(peer, EndpointPeer))
    blocks = dict.fromkeys(peer for peer in peers if isinstance(peer, AddressPeer))
    ingress = _named_ports(rule for d, rule in rules if d is Direction.INGRESS)
    egress = _named_ports(rule for d, rule in rules if d is Direction.EGRESS)
    selectors = tuple(dict.fromkeys((*subjects, *in_rules)))
    ports = tuple(dict.fromkeys((*ingress, *egress)))
    return Vocabulary(
        selectors=selectors,
        blocks=tuple(blocks),
        named_ports=ports,
        subject_bits=_mask(selectors, subjects),
        peer_bits=_mask(selectors, in_rules),
        ingress_ports=_mask(ports, ingress),
        egress_ports=_mask(ports, egress),
    )


def _all_rules(policies: PolicySet) -> Iterator[tuple[Direction, Rule]]:
    for tier in policies.tiers:
        for policy in tier.policies:
            for direction in Direction:
                for rule in policy.rules(direction):
                    yield direction, rule


def _named_ports(rules: Iterable[Rule]) -> dict[NamedPort, None]:
    return dict.fromkeys(p for rule in rules for p in rule.ports if isinstance(p, NamedPort))


def _mask(items: Sequence[object], chosen: Container[object]) -> int:
    return sum(1 << index for index, item in enumerate(items) if item in chosen)
