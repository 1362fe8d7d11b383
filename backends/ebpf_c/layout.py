# SPDX-License-Identifier: Apache-2.0
"""Choose layouts for the eBPF target by the cost model: what becomes code, what tables, and how large.

Every choice is kept with what it was chosen from (`--explain-layout`).
"""

from collections import Counter
from dataclasses import dataclass
from math import log2

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.addresses import plan_addresses
from policyc.backends.ebpf_c.buckets import SLOTS
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import HostError
from policyc.ir.plan import (
    FIRST_COLUMN,
    FIRST_ROW,
    AddressLayout,
    CellLayout,
    Counters,
    DirectionPlan,
    LookupPlan,
    Size,
    rounds_for,
    viewed_columns,
    viewed_rows,
)
from policyc.ir.policy import Direction
from policyc.ir.told_apart import kinds_told_apart
from policyc.ir.tree import LEAF, NODE_BYTES, Nodes, depth_of, verdict_word
from policyc.ir.universe import FAMILIES
from policyc.ir.views import view_of


@dataclass(frozen=True, slots=True)
class Budgets:
    """How much may become code, and layouts that are asked for rather than chosen."""

    leaves: int = costs.MAX_CODE_LEAVES
    steps: int = costs.MAX_CODE_STEPS
    addresses: AddressLayout | None = None
    cells: CellLayout | None = None


MEASURED = Budgets()
NO_CODE = Budgets(0, 0)
"""Everything by table, however small: tests and benchmarks ask for it."""
ENDPOINTS = 65536
"""Endpoints of the whole cluster that a node can tell apart."""


@dataclass(frozen=True)
class Layout:
    """A plan, and how it came to be."""

    plan: LookupPlan
    choices: tuple[Choice, ...]


def choose_layout(
    decision: DecisionIR, budgets: Budgets = MEASURED, counters: Counters = Counters.BYTES
) -> LookupPlan:
    """The plan for one Decision IR. HostError where the tables would not fit in memory."""
    return explained_layout(decision, budgets, counters).plan


def explained_layout(
    decision: DecisionIR, budgets: Budgets = MEASURED, counters: Counters = Counters.BYTES
) -> Layout:
    """The plan and the choices that were made for it."""
    nodes, choices = Nodes(), list[Choice]()
    words = _diagram_words(decision, nodes)
    directions = {}
    for direction in Direction:
        directed, made = _direction(decision, direction, words, nodes, budgets)
        directions[direction] = directed
        choices += made
    is_used = any(plan.is_used for plan in directions.values())
    code, choice = _code_words(decision, words, len(nodes.nodes), budgets.steps)
    longest = max((len(decision.diagrams[cell.rule]) for cell in decision.cells), default=1)
    plan = LookupPlan(
        directions=directions,
        nodes=tuple(nodes.nodes),
        node_room=roomy(len(nodes.nodes), 1024) if is_used else Size(len(nodes.nodes), 1),
        rounds=rounds_for(longest),
        rules=roomy(len(decision.rules), 256),
        endpoints=ENDPOINTS,
        diagram_words=words,
        code_words=code,
        told_apart=kinds_told_apart(decision.tables, decision.atoms.vocabulary),
        counters=counters,
    )
    return Layout(plan, (*choices, choice) if is_used else ())


def roomy(used: int, spare: int) -> Size:
    """Room for what is there and for more; a few more or less ids give the same capacity.

    The same capacity is the same program, so that a small change of policy compiles nothing anew.
    """
    wanted = used + max(spare, used // 4)
    grid = max(64, 1 << max(0, int(log2(wanted)) - 3))
    return Size(used, -(-wanted // grid) * grid)


def _diagram_words(decision: DecisionIR, nodes: Nodes) -> tuple[int, ...]:
    """The word of each rule diagram: a leaf where it always decides the same, else a tree."""
    words = [0] * len(decision.diagrams)
    allows = [not entry.action.is_deny for entry in decision.rules]
    for index in sorted({cell.rule for cell in decision.cells}):
        words[index] = nodes.tree(
            [(lo, verdict_word(allows[rule], rule)) for lo, rule in decision.diagrams[index]]
        )
    return tuple(words)


def _direction(
    decision: DecisionIR,
    direction: Direction,
    words: tuple[int, ...],
    nodes: Nodes,
    budgets: Budgets,
) -> tuple[DirectionPlan, list[Choice]]:
    view = view_of(decision.tables, direction)
    if not view.is_used:
        nothing = Size(0, 0)
        unused = DirectionPlan(direction, view, CellLayout.DENSE, nothing, nothing, (), (), {})
        return unused, []
    atoms = decision.atoms
    rows, columns = viewed_rows(decision, view), viewed_columns(decision, view)
    row_ids = tuple(rows[view.row(row)] for row in atoms.rows)
    column_ids = tuple(columns[view.column(column, atoms)] for column in atoms.columns)
    addresses, choices = {}, []
    for family in FAMILIES:
        addresses[family], choice = plan_addresses(
            decision, view, family, columns, nodes, budgets.leaves, budgets.addresses
        )
        choices.append(choice)
    row_room = roomy(FIRST_ROW + len(rows), 64)
    column_room = roomy(FIRST_COLUMN + len(columns), 128)
    n_special = _special_cells(decision, direction, words, rows=row_ids, columns=column_ids)
    # The node adds entries: a table half full still has short ways.
    buckets = 1 << max(4, (2 * (n_special + 512) // SLOTS - 1).bit_length())
    choice = _cells(direction, row_room, column_room, buckets, budgets.cells)
    layout = CellLayout(choice.chosen)
    plan = DirectionPlan(
        direction,
        view,
        layout,
        row_room,
        column_room,
        row_ids,
        column_ids,
        addresses,
        buckets=buckets if layout is CellLayout.HASH else 0,
    )
    return plan, [choice, *choices]


def _special_cells(
    decision: DecisionIR,
    direction: Direction,
    words: tuple[int, ...],
    *,
    rows: tuple[int, ...],
    columns: tuple[int, ...],
) -> int:
    """The (row, column) ids whose word is not the row's most common one."""
    table = decision.table(direction)
    first_rows = {at: index for index, at in reversed(list(enumerate(rows)))}
    first_columns = {at: index for index, at in reversed(list(enumerate(columns)))}
    wanted = list(first_columns.values())
    by_table: dict[tuple[int, ...], int] = {}
    total = 0
    for index in first_rows.values():
        row = table[index]
        if row not in by_table:
            counts = Counter(words[decision.cells[row[column]].rule] for column in wanted)
            by_table[row] = len(wanted) - max(counts.values())
        total += by_table[row]
    return total


def _cells(
    direction: Direction, rows: Size, columns: Size, buckets: int, asked: CellLayout | None
) -> Choice:
    dense_bytes, hash_bytes = 4 * rows.capacity * columns.capacity, 64 * buckets
    in_use = 4 * rows.used * columns.used
    candidates = (
        Candidate(
            CellLayout.DENSE.value,
            costs.ARRAY.at(in_use),
            costs.INSTRUCTIONS_OF_ARRAY,
            dense_bytes,
            "" if dense_bytes <= costs.MAX_TABLE_BYTES else "over the memory of one table",
        ),
        Candidate(
            CellLayout.HASH.value,
            costs.BUCKETS.at(hash_bytes) + costs.ARRAY.at(4 * rows.used) / 2,
            costs.INSTRUCTIONS_OF_BUCKETS,
            hash_bytes,
            "" if hash_bytes <= costs.MAX_TABLE_BYTES else "over the memory of one table",
        ),
    )
    part = f"{direction.value} cells ({rows.used - 1} rows x {columns.used - 1} columns)"
    found = choose(part, candidates, asked.value if asked else None)
    if found is None:
        raise HostError(
            f"{rows.used} endpoint classes x {columns.used} peer classes ({direction.value}) exceed the"
            f" tables of a node ({costs.MAX_TABLE_BYTES >> 20} MiB each)",
            "compile for one node (--node), or the policies of fewer namespaces into one bundle",
        )
    return found


def _code_words(
    decision: DecisionIR, words: tuple[int, ...], n_nodes: int, budget: int
) -> tuple[tuple[int, ...], Choice]:
    """The trees emitted as code: the most used ones, as long as the whole gets cheaper.

    One more in code makes that one faster, and the question which it is dearer for all.
    """
    weight: Counter[int] = Counter()
    steps: dict[int, int] = {}
    for direction in Direction:
        for row, times in Counter(decision.table(direction)).items():
            for cell, uses in Counter(row).items():
                rule = decision.cells[cell].rule
                if not words[rule] & LEAF:
                    weight[words[rule]] += uses * times
                    steps[words[rule]] = len(decision.diagrams[rule])
    ranked = sorted(weight, key=lambda word: (-weight[word], word))
    total = sum(weight.values()) or 1
    per_node = costs.NODE.at(n_nodes * NODE_BYTES)
    by_table = {word: depth_of(n) * per_node for word, n in steps.items()}
    ns = sum(weight[word] * by_table[word] for word in ranked) / total
    at, leaves, best, candidates = 0, 0, 0, [Candidate("0 in code", ns, 0, n_nodes * NODE_BYTES)]
    cheapest = ns
    spent = 0.0
    for at, word in enumerate(ranked, start=1):
        leaves += steps[word]
        if leaves > budget:
            break
        spent += weight[word] * (by_table[word] - costs.CODE.at(steps[word]))
        expected = ns - spent / total + costs.CODE.at(at + 1)
        if expected < cheapest:
            cheapest, best = expected, at
            code = Candidate(f"{at} in code", expected, round(leaves * costs.INSTRUCTIONS_PER_LEAF))
            candidates = [candidates[0], code]
    if best < len(ranked) and leaves:
        spent_on = sum(weight[word] * costs.CODE.at(steps[word]) for word in ranked[:at]) / total
        rest = sum(weight[word] * by_table[word] for word in ranked[at:]) / total
        more = Candidate(
            f"{at} in code",
            spent_on + rest + costs.CODE.at(at + 1),
            round(leaves * costs.INSTRUCTIONS_PER_LEAF),
            refused="" if leaves <= budget else f"more than {budget} steps in code",
        )
        if all(candidate.name != more.name for candidate in candidates):
            candidates.append(more)
    part = f"diagrams of services ({len(ranked)} of more than one answer)"
    return tuple(ranked[:best]), Choice(part, f"{best} in code", tuple(candidates))
