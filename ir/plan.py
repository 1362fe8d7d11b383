# SPDX-License-Identifier: Apache-2.0
"""The lookup plan: the list of layouts, the part of the Decision IR that each holds, and the ids in it.

A backend fills it. The emitter, the seeds, the verifier and the node read it, so it has one definition.
Row 0 and column 0 are reserved, and the word 0 means "nothing" (`ir/trees.py`): an end that is not
placed is denied (it fails closed).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum
from ipaddress import ip_network
from typing import Any

from policyc.ir.atoms import AddressAtoms
from policyc.ir.decision import DecisionIR
from policyc.ir.effects import EffectBits
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import AddressPeer, Direction, Network
from policyc.ir.services import Kind
from policyc.ir.trees import (
    KIND_BITS,
    LEAF,
    Node,
    search,
    search128,
    search_fan,
    search_service,
)
from policyc.ir.universe import FAMILIES
from policyc.ir.views import ColumnView, RowView, View

PLAN_SCHEMA = "policyc.dev/plan/v2"
FIRST_ROW = 1
FIRST_COLUMN = 1
LEAST_ROUNDS = 3
"""The bound of the search in a diagram: a diagram made on the node may be longer than the compiler's."""

MOST_ROUNDS = 8
"""The same values as in `pc_search` of runtime/datapath/policy_words.h."""


class AddressLayout(Enum):
    """The lookup of the column of an address that no endpoint holds."""

    CONSTANT = "constant"
    CODE = "code"
    TREE = "tree"
    FANS = "fans"
    LPM = "lpm"


class CellLayout(Enum):
    """The lookup of the word of a (row, column)."""

    DENSE = "dense"
    HASH = "hash"


class DiagramLayout(Enum):
    """The storage of long service diagrams: a tree each, or the difference from another diagram."""

    TREES = "trees"
    CHANGES = "changes of a base"


class LongLayout(Enum):
    """The root of a long diagram's tree: a node, or a table over leading bits."""

    TREES = "trees"
    FANS = "fans"


class Counters(Enum):
    """The counters for each rule."""

    NONE = "none"
    PACKETS = "packets"
    BYTES = "bytes"

    @property
    def words(self) -> int:
        """The number of 64-bit words of a rule's counter."""
        return {"none": 0, "packets": 1, "bytes": 2}[self.value]


@dataclass(frozen=True, slots=True)
class Size:
    """Ids in use, and the capacity; the rest is for ids that the node adds later."""

    used: int
    capacity: int


@dataclass(frozen=True)
class AddressPlan:
    """The search for an address's column in one direction and family.

    `runs` are (first address, column id), ascending, neighbours with different columns. With TREE,
    `root_bits` leading bits index a table of words (0: no table, `root` is the word), and `rounds` are
    the nodes to pass for each 32-bit word of the address. With FANS the table covers the first 16 bits
    of an IPv4 address, and its words lead to leaves, trees and fans over the last 16 bits. `entries` is
    the size of the LPM trie.
    """

    family: int
    layout: AddressLayout
    runs: tuple[tuple[int, int], ...]
    root_bits: int = 0
    root: int = 0
    roots: Sequence[int] = ()
    rounds: tuple[int, int, int, int] = (0, 0, 0, 0)
    entries: int = 0

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "layout": self.layout.value,
            "runs": len(self.runs),
            "root_bits": self.root_bits,
            "root": self.root,
            "rounds": list(self.rounds),
            "entries": self.entries,
        }


@dataclass(frozen=True)
class DirectionPlan:
    """The table of one direction. `row_ids` and `column_ids` are by the Decision IR's rows and columns.

    If the direction is not used, no policy applies in it, now or for any later endpoint, and the other
    fields have no meaning. `buckets` is the size of the hash table, 0 for a dense one. `class_fields`
    are the words that the class of an endpoint holds for this direction.
    """

    direction: Direction
    view: View
    cells: CellLayout
    rows: Size
    columns: Size
    row_ids: tuple[int, ...]
    column_ids: tuple[int, ...]
    addresses: Mapping[int, AddressPlan]
    buckets: int = 0

    @property
    def is_used(self) -> bool:
        """Whether any policy applies in this direction."""
        return self.view.is_used

    @property
    def short(self) -> str:
        """`in` or `eg`, as in the names of maps and functions."""
        return "in" if self.direction is Direction.INGRESS else "eg"

    @property
    def column_fields(self) -> Mapping[int, str]:
        """Family -> the field of a class that holds the endpoint's column under that address."""
        if self.view.has_one_column_for_both_families:
            return dict.fromkeys(FAMILIES, f"{self.direction.value}_column")
        return {family: f"{self.direction.value}_column{family}" for family in FAMILIES}

    @property
    def class_fields(self) -> tuple[str, ...]:
        """The fields of a class that this direction reads, its row first."""
        if not self.is_used:
            return ()
        return (f"{self.direction.value}_row", *dict.fromkeys(self.column_fields.values()))

    @property
    def dense_words(self) -> int:
        """The words of the dense table, spare ones included."""
        return self.rows.capacity * self.columns.capacity

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        if not self.is_used:
            return {"used": False}
        return {
            "used": True,
            "cells": self.cells.value,
            "rows": _size(self.rows),
            "columns": _size(self.columns),
            "row_ids": list(self.row_ids),
            "column_ids": list(self.column_ids),
            "buckets": self.buckets,
            "reads": self.view.to_json(),
            "column_fields": {str(f): name for f, name in self.column_fields.items()},
            "addresses": {str(f): plan.to_json() for f, plan in self.addresses.items()},
        }


@dataclass(frozen=True)
class LookupPlan:
    """Sizes and layouts of one generation.

    `cell_words[i]` is the word of the rule diagram of the Decision IR's cell i (a leaf, or the root of a
    tree). `code_words` are the words that are emitted as code. `nodes` are the nodes of all trees, those
    of addresses first. `distinguished` are the protocols whose ports, or types, the program reads.
    `has_fans` is set if any of the words leads to a fan. `effects` are the effects of all rules
    together.
    """

    directions: Mapping[Direction, DirectionPlan]
    nodes: tuple[Node, ...]
    node_room: Size
    rounds: int
    rules: Size
    endpoints: int
    cell_words: tuple[int, ...]
    code_words: tuple[int, ...]
    distinguished: frozenset[Kind]
    counters: Counters = Counters.BYTES
    has_fans: bool = False
    effects: EffectBits = EffectBits.NONE

    @property
    def used_directions(self) -> tuple[DirectionPlan, ...]:
        """The directions in which some policy applies."""
        return tuple(plan for plan in self.directions.values() if plan.is_used)

    @property
    def class_fields(self) -> tuple[str, ...]:
        """The words of an endpoint's class, in order."""
        return tuple(field for plan in self.directions.values() for field in plan.class_fields)

    @property
    def has_trees(self) -> bool:
        """Whether any lookup searches nodes; if a direction is used, the node may need it later."""
        return bool(self.used_directions)

    def leaf(self, word: int, key: int) -> int:
        """The leaf of a word for a service key."""
        return search_service(self.nodes, word, key, self.rounds)

    def address_column(self, direction: Direction, family: int, address: int) -> int:
        """The column id of an address as the plan's layout finds it."""
        plan = self.directions[direction].addresses[family]
        if plan.layout not in (AddressLayout.TREE, AddressLayout.FANS):
            return max(run for run in plan.runs if run[0] <= address)[1]
        if family == 6:
            word = search128(self.nodes, plan.root, address, plan.rounds)
        elif plan.layout is AddressLayout.FANS:
            key = address & (1 << KIND_BITS) - 1
            word = search_fan(self.nodes, plan.roots[address >> KIND_BITS], key, plan.rounds[0])
        else:
            root = plan.roots[address >> (32 - plan.root_bits)] if plan.roots else plan.root
            word = search(self.nodes, root, address, plan.rounds[0])
        return word & ~LEAF

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, as plan.json holds it."""
        return {
            "schema": PLAN_SCHEMA,
            "directions": {d.value: plan.to_json() for d, plan in self.directions.items()},
            "class_fields": list(self.class_fields),
            "nodes": _size(self.node_room),
            "rounds": self.rounds,
            "rules": _size(self.rules),
            "endpoints": self.endpoints,
            "code_words": list(self.code_words),
            "told_apart": sorted(kind.name for kind in self.distinguished),
            "counters": self.counters.value,
        }


def _size(size: Size) -> dict[str, int]:
    return {"used": size.used, "capacity": size.capacity}


def rounds_for(deepest: int) -> int:
    """The rounds of search for a longest path of so many nodes, plus one for the node's own trees."""
    return max(LEAST_ROUNDS, deepest + 1)


def viewed_rows(decision: DecisionIR, view: View) -> dict[RowView, int]:
    """The rows that the direction distinguishes, with their ids."""
    found = dict.fromkeys(view.row(row) for row in decision.atoms.rows)
    return {row: FIRST_ROW + at for at, row in enumerate(found)}


def viewed_columns(decision: DecisionIR, view: View) -> dict[ColumnView, int]:
    """The columns that the direction distinguishes, with their ids."""
    atoms = decision.atoms
    found = dict.fromkeys(view.column(column, atoms) for column in atoms.columns)
    return {column: FIRST_COLUMN + at for at, column in enumerate(found)}


def address_runs(
    atoms: AddressAtoms, view: View, columns: Mapping[ColumnView, int]
) -> tuple[tuple[int, int], ...]:
    """(first address, column id) of the runs of a family that a direction distinguishes."""
    runs: list[tuple[int, int]] = []
    ids = [columns[view.address(atoms.family, mask)] for mask in atoms.blocks]
    for start, atom in zip(atoms.starts, atoms.atoms, strict=True):
        if not runs or runs[-1][1] != ids[atom]:
            runs.append((start, ids[atom]))
    return tuple(runs)


def prefix_atoms(blocks: Sequence[AddressPeer], atoms: AddressAtoms) -> list[tuple[Network, int]]:
    """Every prefix that rules name, with the atom of the addresses whose longest prefix it is.

    The atom of an address depends only on the longest of these prefixes that contains it, so this is an
    exact longest-prefix table. A prefix that longer ones cover completely is left out. The family's
    whole space is always among them.
    """
    adds: defaultdict[Network, int] = defaultdict(int)
    removes: defaultdict[Network, int] = defaultdict(int)
    adds[_whole_family(atoms.family)] = 0
    for index, block in enumerate(blocks):
        if block.network.version == atoms.family:
            adds[block.network] |= 1 << index
            for hole in block.excepts:
                removes[hole] |= 1 << index
    number_of = {mask: atom for atom, mask in enumerate(atoms.blocks)}
    table: list[tuple[Network, int]] = []
    around: list[tuple[Network, int]] = []  # the prefixes that contain the current one, with masks
    for prefix in sorted({*adds, *removes}, key=lambda n: (int(n.network_address), n.prefixlen)):
        while around and prefix.network_address not in around[-1][0]:
            around.pop()
        outer = around[-1][1] if around else 0
        mask = (outer | adds.get(prefix, 0)) & ~removes.get(prefix, 0)
        around.append((prefix, mask))
        if mask in number_of:  # no address is left to a mask that no atom has
            table.append((prefix, number_of[mask]))
    return table


def _whole_family(family: int) -> Network:
    return ip_network("0.0.0.0/0" if family == 4 else "::/0")


def fits(decision: DecisionIR, plan: LookupPlan) -> bool:
    """Whether the plan has room for the whole Decision IR, and an id for everything in it."""
    return (
        len(plan.nodes) == plan.node_room.used <= plan.node_room.capacity
        and plan.rules.used == len(decision.rules) <= plan.rules.capacity
        and all(_has_ids(decision, each) for each in plan.used_directions)
    )


def _has_ids(decision: DecisionIR, plan: DirectionPlan) -> bool:
    return (
        len(plan.row_ids) == len(decision.atoms.rows)
        and len(plan.column_ids) == len(decision.atoms.columns)
        and all(FIRST_ROW <= at < plan.rows.used for at in plan.row_ids)
        and all(FIRST_COLUMN <= at < plan.columns.used for at in plan.column_ids)
        and plan.rows.used <= plan.rows.capacity
        and plan.columns.used <= plan.columns.capacity
    )
