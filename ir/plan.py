# SPDX-License-Identifier: Apache-2.0
"""The lookup plan: which layout holds which part of the Decision IR, under which ids.

A backend fills it, the emitter, the seeds, the verifier and the node read it; nobody writes it twice.
Row 0, column 0 and diagrams 0 and 1 are reserved: what is not placed fails closed.
"""

from collections import defaultdict
from dataclasses import asdict, dataclass
from enum import Enum
from ipaddress import ip_network
from typing import Any

from policyc.ir.atoms import AddressAtoms, AddressColumn
from policyc.ir.decision import DENY_LEAF, FAIL_CLOSED_RULE, DecisionIR, Diagram
from policyc.ir.policy import AddressPeer, Network

FIRST_ROW = 1
FIRST_COLUMN = 1
DENY_ALL_DIAGRAM = 0
FAIL_CLOSED_DIAGRAM = 1
RESERVED_DIAGRAMS: tuple[Diagram, ...] = (((0, DENY_LEAF),), ((0, FAIL_CLOSED_RULE),))
FIRST_DIAGRAM = len(RESERVED_DIAGRAMS)


class AddressLayout(Enum):
    """How the column of an address that no endpoint holds is found."""

    CODE = "code"
    LPM = "lpm"


@dataclass(frozen=True, slots=True)
class Size:
    """Ids in use, and how many there is room for; the rest is for what the node meets first."""

    used: int
    capacity: int


@dataclass(frozen=True)
class LookupPlan:
    """Sizes and layouts. `code_diagrams` are the ids of action diagrams emitted as code."""

    rows: Size
    columns: Size
    diagrams: Size
    steps: Size
    rules: Size
    endpoints: int
    step_rounds: int
    address4: AddressLayout
    address6: AddressLayout
    cidr4_entries: int
    cidr6_entries: int
    code_diagrams: tuple[int, ...]

    def address_layout(self, family: int) -> AddressLayout:
        """The layout of one family."""
        return self.address4 if family == 4 else self.address6

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, as plan.json holds it."""
        out = asdict(self)
        out["address4"], out["address6"] = self.address4.value, self.address6.value
        out["schema"] = "policyc.dev/plan/v1"
        return out


def row_id(index: int) -> int:
    """The row id of a row of the Decision IR."""
    return FIRST_ROW + index


def column_id(index: int) -> int:
    """The column id of a column of the Decision IR."""
    return FIRST_COLUMN + index


def diagram_id(index: int) -> int:
    """The diagram id of a diagram of the Decision IR."""
    return FIRST_DIAGRAM + index


def address_column_id(decision: DecisionIR, family: int, atom: int) -> int:
    """The column id of an address atom."""
    return column_id(decision.atoms.column_index[AddressColumn(family, atom)])


def prefix_atoms(blocks: tuple[AddressPeer, ...], atoms: AddressAtoms) -> list[tuple[Network, int]]:
    """Every prefix that rules name, with the atom of what lies in it and in no longer one.

    What an address belongs to depends only on the longest of these prefixes around it, so this is
    an exact longest-prefix table; a prefix that longer ones cover completely is left out. The
    family's whole space is always among them.
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
    around: list[tuple[Network, int]] = []  # the prefixes that contain the one at hand, with masks
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
    """Whether the plan has room for the whole Decision IR."""
    return (
        plan.rows.used == FIRST_ROW + len(decision.atoms.rows) <= plan.rows.capacity
        and plan.columns.used == FIRST_COLUMN + len(decision.atoms.columns) <= plan.columns.capacity
        and plan.diagrams.used <= plan.diagrams.capacity
        and plan.steps.used <= plan.steps.capacity
        and plan.rules.used <= plan.rules.capacity
    )
