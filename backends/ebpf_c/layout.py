# SPDX-License-Identifier: Apache-2.0
"""Choose layouts for the eBPF target: what becomes code, what becomes tables, and how large.

Budgets, from what clang and the verifier were seen to bear: balanced trees of a few hundred leaves in
one function. Beyond them the table path serves, which is flat in the number of rules.
"""

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

MAX_CODE_RUNS = {4: 64, 6: 32}
"""Address runs of a family that are still emitted as a decision tree."""
MAX_CODE_STEPS = 256
"""Steps of all action diagrams together that are still emitted as code."""
MAX_CELLS = 16 << 20
"""Cells of one direction's dense table: 128 MiB."""
ENDPOINTS = 65536
"""Endpoints of the whole cluster that a node can tell apart."""


def choose_layout(decision: DecisionIR) -> LookupPlan:
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
    layouts = {family: _address_layout(decision, family) for family in FAMILIES}
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
        code_diagrams=_code_diagrams(decision),
    )


def _with_spare(used: int, spare: int) -> Size:
    return Size(used, used + max(spare, used // 4))


def _address_layout(decision: DecisionIR, family: int) -> tuple[AddressLayout, int]:
    """The layout of a family, and the entries of its trie (0 where there is none)."""
    atoms: AddressAtoms = decision.atoms.classifier.addresses[family]
    if len(atoms.starts) <= MAX_CODE_RUNS[family]:
        return AddressLayout.CODE, 0
    return AddressLayout.LPM, len(prefix_atoms(decision.atoms.vocabulary.blocks, atoms))


def _code_diagrams(decision: DecisionIR) -> tuple[int, ...]:
    """The action diagrams emitted as code: all of them, or, over the budget, none."""
    total = sum(len(decision.diagrams[index]) for index in decision.action_diagrams)
    if total > MAX_CODE_STEPS:
        return ()
    return tuple(diagram_id(index) for index in decision.action_diagrams)
