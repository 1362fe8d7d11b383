# SPDX-License-Identifier: Apache-2.0
"""A Decision IR for the subjects of one node: some of the rows, every column.

Cells and diagrams are numbered by first use, so the result is the same whether all rows were decided or
only those of the node. Rule ids stay those of the whole cluster: they mean the same on every node.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from policyc.ir.atoms import Atoms
from policyc.ir.decision import Cell, DecisionIR
from policyc.ir.policy import Direction
from policyc.ir.universe import Endpoint, Universe

FAIL_CLOSED_SIGNATURE = 0
"""The row in which no selector holds; every bundle has it."""


def local_subjects(universe: Universe, node: str) -> frozenset[str]:
    """The pods that are, or could be put, on a node: its own, and those that are on no node yet."""
    pods = endpoints_by_node(universe)
    return frozenset(e.qualified_name for at in {"", node} for e in pods.get(at, ()))


def endpoints_by_node(universe: Universe) -> dict[str, list[Endpoint]]:
    """The possible subjects of each node; pods on no node yet are under the empty name.

    hostNetwork pods are not subjects.
    """
    found: dict[str, list[Endpoint]] = {}
    for endpoint in universe.endpoints:
        if not endpoint.host_network:
            found.setdefault(endpoint.node, []).append(endpoint)
    return found


def rows_of(atoms: Atoms, subjects: Iterable[Endpoint]) -> tuple[int, ...]:
    """The rows that some pods can be in, ascending; several for a pod of unknown address."""
    found = {FAIL_CLOSED_SIGNATURE}
    for endpoint in subjects:
        if endpoint.qualified_name in atoms.row_of:
            found.add(atoms.row_of[endpoint.qualified_name])
        else:
            found.update(_rows_anywhere(atoms, endpoint))
    return tuple(sorted(found))


def _rows_anywhere(atoms: Atoms, endpoint: Endpoint) -> Iterable[int]:
    """The rows of an endpoint of unknown address: rows that differ only in its blocks."""
    wanted = atoms.classifier.row(endpoint)
    for index, row in enumerate(atoms.rows):
        if (row.bits, row.named) == (wanted.bits, wanted.named):
            yield index


def restrict(decision: DecisionIR, rows: tuple[int, ...], subjects: Collection[str]) -> DecisionIR:
    """The decision with these rows (indices, ascending) and the places of these subjects."""
    cells: dict[int, int] = {}
    tables = {
        direction: tuple(
            tuple(cells.setdefault(cell, len(cells)) for cell in decision.table(direction)[row])
            for row in rows
        )
        for direction in Direction
    }
    diagrams: dict[int, int] = {}
    renamed = tuple(
        Cell(*(diagrams.setdefault(at, len(diagrams)) for at in (cell.action, cell.rule)))
        for cell in (decision.cells[index] for index in cells)
    )
    return replace(
        decision,
        atoms=restricted_atoms(decision.atoms, rows, subjects),
        diagrams=tuple(decision.diagrams[index] for index in diagrams),
        cells=renamed,
        ingress=tables[Direction.INGRESS],
        egress=tables[Direction.EGRESS],
    )


def restricted_atoms(atoms: Atoms, rows: tuple[int, ...], subjects: Collection[str]) -> Atoms:
    """The partition with these rows alone, and every column."""
    new = {row: index for index, row in enumerate(rows)}
    row_of = {name: new[atoms.row_of[name]] for name in sorted(subjects) if name in atoms.row_of}
    return Atoms(atoms.classifier, tuple(atoms.rows[row] for row in rows), atoms.columns, row_of)
