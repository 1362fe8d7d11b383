# SPDX-License-Identifier: Apache-2.0
"""Views: rows and columns that the rules of one direction do not distinguish.

An endpoint class is a signature over everything that any rule reads. The rules of one direction read
only a part of it. Two classes that are equal in that part behave equally, also towards classes that
appear later. So a view is exact by construction, for every cluster, and the tables have one row and one
column per *viewed* class. `runtime/policy/views.py` is the twin on the node.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from policyc.ir.atoms import Atoms, Column, EndpointColumn, NamedNumbers, NodeColumn, Row
from policyc.ir.bits import hash_of, members
from policyc.ir.decision import LeafKind, PolicyTable, TableLeaf, TableRule, TierTable, table_leaves
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Action, Direction


@dataclass(frozen=True, slots=True)
class RowView:
    """A row as the rules of one direction read it."""

    bits: int
    named: NamedNumbers = ()
    own4: int = 0
    own6: int = 0

    def __hash__(self) -> int:
        """A hash that distinguishes rows of one selector each, of which there may be ten thousand."""
        return hash((hash_of(self.bits), self.named, hash_of(self.own4), hash_of(self.own6)))


@dataclass(frozen=True, slots=True)
class ColumnView:
    """A column as the rules of one direction read it; `family` 0 if they do not distinguish families."""

    family: int
    bits: int = 0
    blocks: int = 0
    named: NamedNumbers = ()
    conditions: int = 0
    is_local: bool = False

    def __hash__(self) -> int:
        """As with rows: a hash that distinguishes columns of one selector or block each."""
        sets = hash_of(self.bits), hash_of(self.blocks), self.conditions
        return hash((self.family, *sets, self.named, self.is_local))


@dataclass(frozen=True, slots=True)
class View:
    """The attributes that the rules of one direction read. Masks are over the lists of the Vocabulary.

    `is_used`: some policy isolates or has rules in this direction. `by_family`: a rule tests the
    subject's own address, so the family of the flow matters.
    """

    direction: Direction
    is_used: bool = False
    subject_bits: int = 0
    peer_bits: int = 0
    own_blocks: int = 0
    blocks: int = 0
    ports: int = 0
    conditions: int = 0
    reads_locality: bool = False
    by_family: bool = False

    def row(self, row: Row) -> RowView:
        """The part of a row that is read.

        Named ports are the destination's, so they are part of ingress only.
        """
        named = row.named if self.direction is Direction.INGRESS else ()
        return RowView(
            row.bits & self.subject_bits,
            self._named(named),
            row.own4 & self.own_blocks,
            row.own6 & self.own_blocks,
        )

    def column(self, column: Column, atoms: Atoms) -> ColumnView:
        """The part of a column that the rules of the direction read."""
        blocks = atoms.classifier.addresses[column.family].blocks[column.atom] & self.blocks
        family = column.family if self.by_family else 0
        match column:
            case EndpointColumn(bits=bits, named=named):
                theirs = named if self.direction is Direction.EGRESS else ()
                return ColumnView(family, bits & self.peer_bits, blocks, self._named(theirs))
            case NodeColumn(conditions=held, is_local=is_local):
                held &= self.conditions
                near = is_local and self.reads_locality and bool(held)
                return ColumnView(family, 0, blocks, (), held, near)
            case _:
                return ColumnView(family, 0, blocks)

    def address(self, family: int, blocks: int) -> ColumnView:
        """An address that no endpoint or node holds, in these blocks."""
        return ColumnView(family if self.by_family else 0, 0, blocks & self.blocks)

    def _named(self, named: NamedNumbers) -> NamedNumbers:
        return tuple((index, numbers) for index, numbers in named if self.ports >> index & 1)

    @property
    def has_one_column_for_both_families(self) -> bool:
        """Whether an endpoint is the same peer under either address."""
        return not self.by_family and not self.blocks

    def to_json(self) -> dict[str, Any]:
        """The view as JSON values, for plan.json."""
        return {
            "subject_bits": members(self.subject_bits),
            "peer_bits": members(self.peer_bits),
            "own_blocks": members(self.own_blocks),
            "blocks": members(self.blocks),
            "ports": members(self.ports),
            "conditions": members(self.conditions),
            "reads_locality": self.reads_locality,
            "by_family": self.by_family,
        }


def view_of(tables: Iterable[TierTable], direction: Direction) -> View:
    """The view of the rules of a direction."""
    policies = [
        policy
        for tier in tables
        for policy in tier.policies
        if policy.rules(direction) or _isolates(tier, policy, direction)
    ]
    rules = [rule for policy in policies for rule in policy.rules(direction)]
    peers = [leaf for rule in rules for peer in rule.peers or () for leaf in table_leaves(peer)]
    own = [leaf for rule in rules if rule.own is not None for leaf in table_leaves(rule.own)]
    return View(
        direction,
        is_used=bool(policies),
        subject_bits=_mask(policy.subject for policy in policies) | _leaves(own, "bit"),
        peer_bits=_leaves(peers, "bit"),
        own_blocks=_leaves(own, "block"),
        blocks=_leaves(peers, "block"),
        ports=_mask(port for rule in rules for port in _named_ports(rule)),
        conditions=_leaves(peers, "node", "local", "remote"),
        reads_locality=bool(_leaves(peers, "local", "remote")),
        by_family=bool(_leaves(own, "block")),
    )


def _isolates(tier: TierTable, policy: PolicyTable, direction: Direction) -> bool:
    return direction in policy.isolates and tier.unmatched is not Action.PASS


def _named_ports(rule: TableRule) -> Iterator[int]:
    for service in (*(rule.services or ()), *rule.except_services):
        if isinstance(service, int):
            yield service


def _leaves(leaves: Iterable[TableLeaf], *kinds: LeafKind) -> int:
    return _mask(index for kind, index in leaves if kind in kinds)


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for index in numbers:
        mask |= 1 << index
    return mask
