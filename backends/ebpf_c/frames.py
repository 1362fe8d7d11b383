# SPDX-License-Identifier: Apache-2.0
"""Frames: the part of a layout without verdicts: the rows, columns and addresses that rules need.

A frame depends on the fields that the policies read, not on their verdicts: a changed port leaves it
unchanged. The trees of addresses are the first nodes, so their places do not depend on verdicts either.
"""

from collections.abc import Mapping, Sequence
from math import log2

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.addresses import plan_addresses
from policyc.backends.ebpf_c.choice import Choice
from policyc.ir.decision import DecisionIR
from policyc.ir.distinguished_protocols import distinguished_kinds
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import (
    FIRST_COLUMN,
    FIRST_ROW,
    AddressLayout,
    AddressPlan,
    CellLayout,
    DiagramLayout,
    LongLayout,
    Size,
    viewed_columns,
    viewed_rows,
)
from policyc.ir.policy import Direction
from policyc.ir.services import Kind
from policyc.ir.trees import (
    Node,
    Nodes,
)
from policyc.ir.universe import FAMILIES
from policyc.ir.views import View, view_of


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of code, and layouts that are requested instead of chosen."""

    leaves: int = costs.MAX_CODE_LEAVES
    steps: int = costs.MAX_CODE_STEPS
    addresses: AddressLayout | None = None
    cells: CellLayout | None = None
    diagrams: DiagramLayout | None = None
    long: LongLayout | None = None


MEASURED = Budgets()
NO_CODE = Budgets(0, 0)
"""Everything in tables, however small: for tests and benchmarks."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One direction. `row_ids` and `column_ids` are by the Decision IR's rows and columns."""

    direction: Direction
    view: View
    rows: Size
    columns: Size
    row_ids: Sequence[int]
    column_ids: Sequence[int]
    addresses: Mapping[int, AddressPlan]
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Frames:
    """Both directions, the nodes for address lookups, and the distinguished protocols."""

    directions: Mapping[Direction, Frame]
    nodes: tuple[Node, ...]
    distinguished: frozenset[Kind]

    @property
    def ids(self) -> dict[Direction, tuple[Sequence[int], Sequence[int]]]:
        """The (row, column) ids of the directions in use."""
        return {
            direction: (frame.row_ids, frame.column_ids)
            for direction, frame in self.directions.items()
            if frame.view.is_used
        }


def frames_of(decision: DecisionIR, budgets: Budgets = MEASURED) -> Frames:
    """The frames of a Decision IR."""
    nodes = Nodes()
    frames = {direction: _frame(decision, direction, nodes, budgets) for direction in Direction}
    return Frames(
        frames, tuple(nodes.nodes), distinguished_kinds(decision.tables, decision.atoms.vocabulary)
    )


def _frame(decision: DecisionIR, direction: Direction, nodes: Nodes, budgets: Budgets) -> Frame:
    view = view_of(decision.tables, direction)
    if not view.is_used:
        nothing = Size(0, 0)
        return Frame(direction, view, nothing, nothing, (), (), {})
    atoms = decision.atoms
    rows, columns = viewed_rows(decision, view), viewed_columns(decision, view)
    addresses, choices = {}, []
    for family in FAMILIES:
        addresses[family], choice = plan_addresses(
            decision, view, family, columns, nodes, budgets.leaves, budgets.addresses
        )
        choices.append(choice)
    return Frame(
        direction,
        view,
        roomy(FIRST_ROW + len(rows), 64),
        roomy(FIRST_COLUMN + len(columns), 128),
        tuple(rows[view.row(row)] for row in atoms.rows),
        tuple(columns[view.column(column, atoms)] for column in atoms.columns),
        addresses,
        tuple(choices),
    )


def roomy(used: int, spare: int) -> Size:
    """Capacity for the current ids and for more; a few ids more or less give the same capacity.

    The same capacity gives the same program, so a small policy change needs no compilation.
    """
    wanted = used + max(spare, used // 4)
    grid = max(64, 1 << max(0, int(log2(wanted)) - 3))
    return Size(used, -(-wanted // grid) * grid)
