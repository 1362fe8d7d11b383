# SPDX-License-Identifier: Apache-2.0
"""The ends of flows for native code: each end with all places that it may have.

An end that is fully known has one place. A pod of unknown address has one place for each sort of
addresses that rules distinguish. If all places have one answer, that is the answer (A25). If the answer
depends on the node of a pod that is not placed on a node, the reference semantics decide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address

import numpy as np
import numpy.typing as npt

from policyc.backends.llvm.ends import Ends
from policyc.ir.atoms import AddressAtoms, address_atoms
from policyc.ir.decide import decide
from policyc.ir.partition import partition
from policyc.ir.policy import PolicySet
from policyc.ir.selectors import Condition
from policyc.ir.universe import FAMILIES, End, Endpoint, Node, Universe
from policyc.ir.vocabulary import Vocabulary, vocabulary_of
from policyc.verifier.symbolic.unknown_nodes import (
    is_node,
    is_open,
    reads_nodes,
)

MOST_PLACES = 64
"""With more places in one family, a pod of unknown address is left to the semantics."""
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass
class FlowEnds:
    """`given` are the ends of the flows; the arrays have an entry for each, in that order.

    The places of an end in family 4 and 6 are `numbers[first[end, f]:][:count[end, f]]` with f 0 and 1:
    numbers among `ends`. Without any, the end is left to the semantics.
    """

    policies: PolicySet
    given: Sequence[End]
    ends: Ends = field(init=False)
    first: Numbers = field(init=False)
    count: Numbers = field(init=False)
    numbers: Numbers = field(init=False)

    def __post_init__(self) -> None:
        vocabulary = vocabulary_of(self.policies)
        atoms = {family: address_atoms(vocabulary.blocks, family) for family in FAMILIES}
        has_node_rules = _has_node_rules(self.policies, vocabulary)
        places = [
            [[] if has_node_rules and is_open(end) else _places(end, atoms[f]) for f in FAMILIES]
            for end in self.given
        ]
        every = dict.fromkeys(
            place for by_family in places for found in by_family for place in found
        )
        universe = Universe(
            tuple(end for end in every if isinstance(end, Endpoint)),
            tuple(end for end in every if isinstance(end, Node)),
        )
        self.ends = Ends(decide(self.policies, partition(vocabulary, universe)))
        numbers: list[int] = []
        first: list[int] = []
        for by_family in places:
            for family, found in zip(FAMILIES, by_family, strict=True):
                first.append(len(numbers))
                placed = [self.ends.add(place, family) for place in found]
                if None not in placed:
                    numbers += [number for number in placed if number is not None]
        self.numbers = np.array(numbers, dtype=np.int64)
        self.first = np.array(first, dtype=np.int64).reshape(-1, len(FAMILIES))
        self.count = np.diff([*first, len(numbers)]).reshape(-1, len(FAMILIES))

    @cached_property
    def is_node(self) -> Flags:
        """The ends that policies treat as nodes."""
        return np.array([is_node(end) for end in self.given])

    @cached_property
    def is_open(self) -> Flags:
        """The ends on a node that is not, or not fully, known: perhaps the other end (A22)."""
        return np.array([is_open(end) for end in self.given])

    @cached_property
    def is_anywhere(self) -> Flags:
        """The ends of unknown address."""
        return np.array([not _is_known(end) for end in self.given])

    @cached_property
    def same(self) -> Numbers:
        """Equal numbers for equal ends, however the input writes them."""
        seen: dict[End, int] = {}
        return np.array([seen.setdefault(end, len(seen)) for end in self.given])


def _is_known(end: End) -> bool:
    return not isinstance(end, Endpoint) or end.addresses_known


def _places(end: End, atoms: AddressAtoms) -> list[End]:
    """The end with each address of a family that may matter; none without an address."""
    if not isinstance(end, Endpoint | Node):
        return [end] if end.version == atoms.family else []
    if is_node(end) and (is_open(end) or not _is_known(end)):
        return []
    if isinstance(end, Node) or end.addresses_known:
        return [end] if end.address(atoms.family) is not None else []
    if len(atoms.blocks) > MOST_PLACES:
        return []
    firsts = {atom: start for start, _, atom in reversed(list(atoms.runs()))}
    return [_at(end, start, atoms.family) for start in firsts.values()]


def _at(end: Endpoint, start: int, family: int) -> Endpoint:
    address = IPv4Address(start) if family == 4 else IPv6Address(start)
    return replace(end, addresses=(address,), addresses_known=True)


def _has_node_rules(policies: PolicySet, vocabulary: Vocabulary) -> bool:
    """Whether any rule reads the node of a pod, or a node itself."""
    return vocabulary.reads_nodes or any(map(reads_nodes, _conditions(policies, vocabulary)))


def _conditions(policies: PolicySet, vocabulary: Vocabulary) -> Iterator[Condition]:
    for selector in vocabulary.selectors:
        yield selector.condition
    for tier in policies.tiers:
        for policy in tier.policies:
            yield policy.subject.condition
