# SPDX-License-Identifier: Apache-2.0
"""Choose layouts for the eBPF target: what becomes code, what becomes tables, and how large.

Budgets, from what clang and the verifier were seen to bear: balanced trees of a few hundred leaves in
one function. Beyond them the table path serves, which is flat in the number of rules.
"""

from dataclasses import dataclass

from policyc.ir.atoms import AddressAtoms
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import HostError
from policyc.ir.plan import (
    FIRST_COLUMN,
    FIRST_DIAGRAM,
    FIRST_ROW,
    RESERVED_DIAGRAMS,
    AddressLayout,
    LookupPlan,
    Size,
    diagram_id,
    prefix_atoms,
)
from policyc.ir.universe import FAMILIES


@dataclass(frozen=True, slots=True)
class Budgets:
    """How much may become code; all that is more becomes tables.

    `runs4`, `runs6`: address runs of a family in its decision tree. `steps`: steps of all action
    diagrams together.
    """

    runs4: int = 64
    runs6: int = 32
    steps: int = 256

    def runs(self, family: int) -> int:
        """The address runs of one family."""
        return self.runs4 if family == 4 else self.runs6


MEASURED = Budgets()
NO_CODE = Budgets(0, 0, 0)
"""Everything by table: what large policy sets get."""
MAX_CELLS = 16 << 20
"""Cells of one direction's dense table: 128 MiB."""
ENDPOINTS = 65536
"""Endpoints of the whole cluster that a node can tell apart."""


def choose_layout(decision: DecisionIR, budgets: Budgets = MEASURED) -> LookupPlan:
    """The plan for one Decision IR. HostError where the dense tables would not fit in memory."""
    rows = _with_spare(FIRST_ROW + len(decision.atoms.rows), 64)
    columns = _with_spare(FIRST_COLUMN + len(decision.atoms.columns), 128)
    if rows.capacity * columns.capacity > MAX_CELLS:
        raise HostError(
            f"{rows.used} endpoint classes x {columns.used} peer classes exceed the dense table"
            f" ({MAX_CELLS} cells)",
            "compile the policies of fewer namespaces into one bundle",
        )
    n_steps = sum(len(diagram) for diagram in (*RESERVED_DIAGRAMS, *decision.diagrams))
    longest = max(len(diagram) for diagram in (*RESERVED_DIAGRAMS, *decision.diagrams))
    layouts = {
        family: _address_layout(decision, family, budgets.runs(family)) for family in FAMILIES
    }
    return LookupPlan(
        rows=rows,
        columns=columns,
        diagrams=_with_spare(FIRST_DIAGRAM + len(decision.diagrams), 1024),
        steps=_with_spare(n_steps, 8192),
        rules=_with_spare(len(decision.rules), 256),
        endpoints=ENDPOINTS,
        # A diagram made on the node may be longer than any the compiler saw.
        step_rounds=max(8, (2 * longest).bit_length()),
        address4=layouts[4][0],
        address6=layouts[6][0],
        cidr4_entries=layouts[4][1],
        cidr6_entries=layouts[6][1],
        code_diagrams=_code_diagrams(decision, budgets.steps),
    )


def _with_spare(used: int, spare: int) -> Size:
    return Size(used, used + max(spare, used // 4))


def _address_layout(decision: DecisionIR, family: int, runs: int) -> tuple[AddressLayout, int]:
    """The layout of a family, and the entries of its trie (0 where there is none)."""
    atoms: AddressAtoms = decision.atoms.classifier.addresses[family]
    if len(atoms.starts) <= runs:
        return AddressLayout.CODE, 0
    return AddressLayout.LPM, len(prefix_atoms(decision.atoms.vocabulary.blocks, atoms))


def _code_diagrams(decision: DecisionIR, steps: int) -> tuple[int, ...]:
    """The action diagrams emitted as code: all of them, or, over the budget, none."""
    total = sum(len(decision.diagrams[index]) for index in decision.action_diagrams)
    if total > steps:
        return ()
    return tuple(diagram_id(index) for index in decision.action_diagrams)
