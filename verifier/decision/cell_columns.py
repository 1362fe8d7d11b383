# SPDX-License-Identifier: Apache-2.0
"""Sets of columns as masks: columns that a peer matches, and columns that a table cannot distinguish.

Reads signatures (selector bits, blocks, node conditions, named ports) and the Policy IR's peers. The
results that `ir/decide.py` derives from the same signatures are not used.
"""

from functools import cached_property
from typing import assert_never

from policyc.ir.atoms import Atoms, EndpointColumn, NamedNumbers, NodeColumn, Row
from policyc.ir.bits import bits_of_each, first, members
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.selectors import AllOf, Not, OneOf

ROWS_AT_ONCE = 64
"""The number of rows whose cells form one key: the keys of all columns must fit in memory."""


class SignatureColumns:
    """The columns of one partition, by the contents of their signatures.

    `bits` and `blocks` are those that rules may test, as masks: -1 is all.
    """

    def __init__(self, atoms: Atoms, bits: int = -1, blocks: int = -1) -> None:
        self.atoms, self.bits, self.blocks = atoms, bits, blocks

    def is_own(self, own: Peer, row: Row, family: int) -> bool:
        """Whether a peer matches the row itself, under its address of one family."""
        vocabulary = self.atoms.vocabulary
        match own:
            case AnyPeer():
                return True
            case EndpointPeer(selector):
                return bool(row.bits >> vocabulary.bit_of[selector] & 1)
            case AddressPeer():
                return bool(row.own(family) >> vocabulary.block_of[own] & 1)
            case NodePeer():  # a row is of an endpoint
                return False
            case AllOf(parts):
                return all(self.is_own(part, row, family) for part in parts)
            case OneOf(parts):
                return any(self.is_own(part, row, family) for part in parts)
            case Not(part):
                return not self.is_own(part, row, family)
            case _:
                assert_never(own)

    @cached_property
    def every(self) -> int:
        """All columns."""
        return (1 << len(self.atoms.columns)) - 1

    @cached_property
    def by_family(self) -> dict[int, int]:
        """Family -> its columns."""
        return bits_of_each(column.family for column in self.atoms.columns)

    def of_peer(self, peer: Peer) -> int:
        """The columns whose signature a peer matches (A12, A15)."""
        vocabulary = self.atoms.vocabulary
        match peer:
            case AnyPeer():
                return self.every
            case EndpointPeer(selector):
                return self._by_bit.get(vocabulary.bit_of[selector], 0)
            case AddressPeer():
                return self._by_block.get(vocabulary.block_of[peer], 0)
            case NodePeer():
                return self._of_nodes(peer)
            case AllOf(parts):
                found = self.every
                for part in parts:
                    found &= self.of_peer(part)
                return found
            case OneOf(parts):
                found = 0
                for part in parts:
                    found |= self.of_peer(part)
                return found
            case Not(part):
                return self.every & ~self.of_peer(part)
            case _:
                assert_never(peer)

    def _of_nodes(self, peer: NodePeer) -> int:
        """The columns of nodes that match the condition and the peer's location."""
        bit = self.atoms.vocabulary.node_of[peer.condition]
        found = 0
        for at, column in enumerate(self.atoms.columns):
            if isinstance(column, NodeColumn) and column.conditions >> bit & 1:
                is_there = peer.where is Where.ANYWHERE or (
                    column.is_local == (peer.where is Where.LOCAL)
                )
                found |= is_there << at
        return found

    @cached_property
    def _by_bit(self) -> dict[int, int]:
        """Selector -> the endpoint columns whose signature has it; addresses have none."""
        out: dict[int, int] = {}
        for at, column in enumerate(self.atoms.columns):
            if isinstance(column, EndpointColumn):
                for bit in members(column.bits & self.bits):
                    out[bit] = out.get(bit, 0) | 1 << at
        return out

    @cached_property
    def _by_block(self) -> dict[int, int]:
        """Block -> the columns, endpoints and addresses, whose address atom is inside it."""
        out: dict[int, int] = {}
        for at, column in enumerate(self.atoms.columns):
            atoms = self.atoms.classifier.addresses[column.family]
            for block in members(atoms.blocks[column.atom] & self.blocks):
                out[block] = out.get(block, 0) | 1 << at
        return out

    @cached_property
    def by_named(self) -> dict[NamedNumbers, int]:
        """Named-port numbers -> the columns that declare exactly those; addresses declare none (A19)."""
        columns = self.atoms.columns
        return bits_of_each(c.named if isinstance(c, EndpointColumn) else () for c in columns)


def equal_columns(table: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    """(first column, all as a mask) of columns that are equal in every row; the largest set first."""
    rows = list(dict.fromkeys(table))
    names = [0] * len(rows[0])
    for at in range(0, len(rows), ROWS_AT_ONCE):
        known: dict[tuple[int, ...], int] = {}
        keys = zip(names, *rows[at : at + ROWS_AT_ONCE], strict=True)
        names = [known.setdefault(key, len(known)) for key in keys]
    largest_first = sorted(bits_of_each(names).values(), key=int.bit_count, reverse=True)
    return [(first(columns), columns) for columns in largest_first]
