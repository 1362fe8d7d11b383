# SPDX-License-Identifier: Apache-2.0
"""Choose layouts for the eBPF target by the cost model: which parts become code or tables, their sizes.

Every choice is kept with its candidates (`--explain-layout`).
"""

from collections import Counter

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.buckets import SLOTS
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.backends.ebpf_c.diagrams import Trees, trees_of
from policyc.backends.ebpf_c.frames import MEASURED, Budgets, Frame, Frames, frames_of, roomy
from policyc.ir.decision import DecisionIR, Diagram
from policyc.ir.effects import bits_of
from policyc.ir.errors import HostError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import (
    CellLayout,
    Counters,
    DirectionPlan,
    LookupPlan,
    Size,
    rounds_for,
)
from policyc.ir.policy import Direction
from policyc.ir.trees import (
    LEAF,
    NODE_BYTES,
    Nodes,
    is_fan,
    is_range,
)
from policyc.ir.viewed import Verdicts, ViewedTable, verdicts_of

ENDPOINTS = 65536
"""The number of endpoints of the whole cluster that a node can distinguish."""


@dataclass(frozen=True)
class Layout:
    """A plan, its choices, and its verdicts."""

    plan: LookupPlan
    choices: tuple[Choice, ...]
    frames: Frames
    verdicts: Verdicts


def choose_layout(
    decision: DecisionIR, budgets: Budgets = MEASURED, counters: Counters = Counters.BYTES
) -> LookupPlan:
    """The plan for one Decision IR. HostError if the tables would not fit in memory."""
    return explained_layout(decision, budgets, counters).plan


def explained_layout(
    decision: DecisionIR, budgets: Budgets = MEASURED, counters: Counters = Counters.BYTES
) -> Layout:
    """The plan and the choices that were made for it."""
    frames = frames_of(decision, budgets)
    return lay_out(frames, verdicts_of(decision, frames.ids), budgets, counters)


def lay_out(
    frames: Frames,
    verdicts: Verdicts,
    budgets: Budgets = MEASURED,
    counters: Counters = Counters.BYTES,
) -> Layout:
    """The layout of verdicts over frames; the nodes of their diagrams come after those of addresses."""
    nodes, choices = Nodes.after(frames.nodes), list[Choice]()
    trees = trees_of(verdicts, nodes, budgets.diagrams, budgets.long)
    directions = {}
    for direction, frame in frames.directions.items():
        directions[direction], made = _direction(frame, verdicts, budgets)
        choices += made
    is_used = any(plan.is_used for plan in directions.values())
    code, choice = _code_words(verdicts, trees, len(nodes.nodes), budgets.steps)
    choices += trees.choices
    plan = LookupPlan(
        directions=directions,
        nodes=tuple(nodes.nodes),
        node_room=roomy(len(nodes.nodes), 1024) if is_used else Size(len(nodes.nodes), 1),
        rounds=rounds_for(max(trees.depths.values(), default=0)),
        rules=roomy(len(verdicts.allows), 256),
        endpoints=ENDPOINTS,
        cell_words=trees.words,
        code_words=code,
        distinguished=frames.distinguished,
        counters=counters,
        has_fans=trees.has_fans,
        effects=bits_of(verdicts.effects.values()),
    )
    return Layout(plan, (*choices, choice) if is_used else (), frames, verdicts)


def _direction(
    frame: Frame, verdicts: Verdicts, budgets: Budgets
) -> tuple[DirectionPlan, list[Choice]]:
    direction, view = frame.direction, frame.view
    if not view.is_used:
        unused = DirectionPlan(
            direction, view, CellLayout.DENSE, frame.rows, frame.columns, (), (), {}
        )
        return unused, []
    # The node adds entries: in a half-full table lookups are still short.
    n_special = _special_cells(verdicts.tables[direction])
    buckets = 1 << max(4, (2 * (n_special + 512) // SLOTS - 1).bit_length())
    choice = _cells(direction, frame.rows, frame.columns, buckets, budgets.cells)
    layout = CellLayout(choice.chosen)
    plan = DirectionPlan(
        direction,
        view,
        layout,
        frame.rows,
        frame.columns,
        tuple(frame.row_ids),
        tuple(frame.column_ids),
        frame.addresses,
        buckets=buckets if layout is CellLayout.HASH else 0,
    )
    return plan, [choice, *frame.choices]


def _special_cells(table: ViewedTable) -> int:
    """The (row, column) ids whose word is not the row's most common one."""
    special = [sum(row.counts) - max(row.counts) for row in table.rows]
    return sum(special[row] for row in table.of_row)


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
    verdicts: Verdicts, trees: Trees, n_nodes: int, budget: int
) -> tuple[tuple[int, ...], Choice]:
    """The trees emitted as code: the most used ones, as long as the total cost falls.

    One more in code makes that one faster, and the question which it is dearer for all.
    """
    weight, steps = _weights(verdicts, trees.words)
    ranked = sorted(sorted(weight), key=weight.__getitem__, reverse=True)  # equal ones ascend
    total = sum(weight.values()) or 1
    per_node = costs.NODE.at(n_nodes * NODE_BYTES)
    per_range = costs.RANGE.at(n_nodes * NODE_BYTES)
    per_fan = costs.FAN.at(n_nodes * NODE_BYTES)
    by_table = {
        word: trees.depths[word] * per_node + is_range(word) * per_range + is_fan(word) * per_fan
        for word in steps
    }
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


def _weights(verdicts: Verdicts, words: tuple[int, ...]) -> tuple[dict[int, int], dict[int, int]]:
    """The number of (row, column) ids that meet each tree, and the steps of its diagram."""
    weight: dict[int, int] = {}
    steps: dict[int, int] = {}
    diagrams: tuple[Diagram, ...] = verdicts.diagrams
    for table in verdicts.tables.values():
        times = Counter(table.of_row)
        for at, row in enumerate(table.rows):
            for cell, uses in zip(row.cells, row.counts, strict=True):
                word = words[cell]
                if not word & LEAF:
                    weight[word] = weight.get(word, 0) + uses * times[at]
                    steps[word] = len(diagrams[cell])
    return weight, steps
