# SPDX-License-Identifier: Apache-2.0
"""Whether changed policies read what policies read before: then no row, column or address changes.

The test: the same selectors, blocks and named ports in the same order of first use, for the same sides.
"""

from collections.abc import Iterable, Sequence

from policyc.backends.ebpf_c.frames import Frames
from policyc.compiler.driver.rebuild.facts import PolicyFacts
from policyc.compiler.driver.rebuild.policies import Policies
from policyc.ir.bits import bits_of
from policyc.ir.peers import AddressPeer, EndpointPeer, leaves
from policyc.ir.policy import Direction, NamedPort, Policy
from policyc.ir.views import View
from policyc.ir.vocabulary import Vocabulary


def is_known(policy: Policy, vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary has everything that a NetworkPolicy reads."""
    for direction in Direction:
        for rule in policy.rules(direction):
            for leaf in (leaf for peer in rule.peers for leaf in leaves(peer)):
                if isinstance(leaf, EndpointPeer) and leaf.selector not in vocabulary.bit_of:
                    return False
                if isinstance(leaf, AddressPeer) and leaf not in vocabulary.block_of:
                    return False
            named = (port for port in rule.ports if isinstance(port, NamedPort))
            if any(port not in vocabulary.port_of for port in named):
                return False
    return policy.subject in vocabulary.bit_of


def reads_namespace_labels(policy: Policy) -> bool:
    """Whether a rule reads labels of namespaces."""
    return any(
        isinstance(leaf, EndpointPeer) and bool(leaf.selector.namespace_labels.requirements)
        for direction in Direction
        for rule in policy.rules(direction)
        for peer in rule.peers
        for leaf in leaves(peer)
    )


def reads_as_before(facts: Policies, before: Policies) -> bool:
    """Whether each policy reads what it read before: then all of them do, in the same order."""
    return all(
        (each.subject, each.ingress, each.egress) == (was.subject, was.ingress, was.egress)
        for was, each in ((before[at], each) for at, each in facts.changed.items())
    )


def reads_the_same(facts: Sequence[PolicyFacts], vocabulary: Vocabulary, frames: Frames) -> bool:
    """Whether `vocabulary_of` and `view_of` would give these policies the same vocabulary and views."""
    both = [reads for each in facts for reads in (each.ingress, each.egress)]
    subjects = [each.subject for each in facts]
    theirs = [bit for reads in both for bit in reads.bits]
    ports = [[p for each in facts for p in each.reads(d).ports] for d in Direction]
    return (
        _is_in_order((*subjects, *theirs), len(vocabulary.selectors))
        and _is_in_order((b for r in both for b in r.blocks), len(vocabulary.blocks))
        and _is_in_order((*ports[0], *ports[1]), len(vocabulary.named_ports))
        and bits_of(subjects) == vocabulary.subject_bits
        and bits_of(theirs) == vocabulary.peer_bits
        and bits_of(ports[0]) == vocabulary.ingress_ports
        and bits_of(ports[1]) == vocabulary.egress_ports
        and all(
            _view(facts, direction) == frames.directions[direction].view for direction in Direction
        )
    )


def _is_in_order(found: Iterable[int], count: int) -> bool:
    """Whether the numbers up to a count all occur, in the order of first use."""
    return list(dict.fromkeys(found)) == list(range(count))


def _view(facts: Sequence[PolicyFacts], direction: Direction) -> View:
    speaking = [each for each in facts if each.reads(direction).says_anything]
    reads = [each.reads(direction) for each in speaking]
    return View(
        direction,
        is_used=bool(speaking),
        subject_bits=bits_of([each.subject for each in speaking]),
        peer_bits=bits_of([bit for each in reads for bit in each.bits]),
        blocks=bits_of([block for each in reads for block in each.blocks]),
        ports=bits_of([port for each in reads for port in each.ports]),
    )
