# SPDX-License-Identifier: Apache-2.0
"""Map seeds from the Decision IR and its plan: little-endian 32-bit words (docs/bundle-format.md)."""

import struct
import sys
from array import array
from dataclasses import dataclass

from policyc.ir.decision import DecisionIR
from policyc.ir.plan import (
    DENY_ALL_DIAGRAM,
    FAIL_CLOSED_DIAGRAM,
    FIRST_COLUMN,
    FIRST_ROW,
    RESERVED_DIAGRAMS,
    AddressLayout,
    LookupPlan,
    address_column_id,
    diagram_id,
    prefix_atoms,
)
from policyc.ir.policy import Direction


@dataclass(frozen=True)
class Seed:
    """The initial contents of one map. `fields` name the words of a value."""

    map_name: str
    kind: str
    entries: int
    fields: tuple[str, ...]
    data: bytes
    key_bytes: int = 0


def make_seeds(decision: DecisionIR, plan: LookupPlan) -> tuple[Seed, ...]:
    """Every map of a generation, with what it starts from."""
    cell = ("action_diagram", "rule_diagram")
    n_cells = plan.rows.capacity * plan.columns.capacity
    seeds = [
        Seed("pc_class", "array", plan.endpoints, ("row", "column4", "column6"), b""),
        Seed("pc_cell_in", "array", n_cells, cell, _cells(decision, plan, Direction.INGRESS)),
        Seed("pc_cell_eg", "array", n_cells, cell, _cells(decision, plan, Direction.EGRESS)),
        *_diagrams(decision, plan),
    ]
    for family, entries in ((4, plan.cidr4_entries), (6, plan.cidr6_entries)):
        if plan.address_layout(family) is AddressLayout.LPM:
            data, key_bytes = _cidrs(decision, family)
            seeds.append(Seed(f"pc_cidr{family}", "lpm", entries, ("column",), data, key_bytes))
    seeds.append(Seed("pc_counts", "percpu_array", plan.rules.capacity, ("low", "high"), b""))
    return tuple(seeds)


def _cells(decision: DecisionIR, plan: LookupPlan, direction: Direction) -> bytes:
    """The dense table, spare rows and columns included: what nobody placed fails closed."""
    closed = array("I", (DENY_ALL_DIAGRAM, FAIL_CLOSED_DIAGRAM))
    pairs = [
        array("I", (diagram_id(cell.action), diagram_id(cell.rule))) for cell in decision.cells
    ]
    spare = closed * (plan.columns.capacity - plan.columns.used)
    out = closed * (plan.columns.capacity * FIRST_ROW)
    done: dict[tuple[int, ...], array[int]] = {}
    for row in decision.table(direction):
        if row not in done:
            words = closed * FIRST_COLUMN
            for cell in row:
                words.extend(pairs[cell])
            words.extend(spare)
            done[row] = words
        out.extend(done[row])
    out.extend(closed * (plan.columns.capacity * (plan.rows.capacity - plan.rows.used)))
    return _little_endian(out)


def _diagrams(decision: DecisionIR, plan: LookupPlan) -> tuple[Seed, Seed]:
    table, steps = array("I"), array("I")
    for diagram in (*RESERVED_DIAGRAMS, *decision.diagrams):
        table.extend((len(steps) // 2, len(diagram)))
        for lo, leaf in diagram:
            steps.extend((lo, leaf))
    return (
        Seed(
            "pc_diagram",
            "array",
            plan.diagrams.capacity,
            ("first_step", "n_steps"),
            _little_endian(table),
        ),
        Seed(
            "pc_step", "array", plan.steps.capacity, ("lowest_key", "leaf"), _little_endian(steps)
        ),
    )


def _cidrs(decision: DecisionIR, family: int) -> tuple[bytes, int]:
    """(entries, bytes of a key): prefix length, address in network byte order, column."""
    atoms = decision.atoms.classifier.addresses[family]
    out = bytearray()
    for prefix, atom in prefix_atoms(decision.atoms.vocabulary.blocks, atoms):
        out += struct.pack("<I", prefix.prefixlen) + prefix.network_address.packed
        out += struct.pack("<I", address_column_id(decision, family, atom))
    return bytes(out), 8 if family == 4 else 20


def _little_endian(words: "array[int]") -> bytes:
    if sys.byteorder == "big":
        words = array("I", words)
        words.byteswap()
    return words.tobytes()
