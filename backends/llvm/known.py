# SPDX-License-Identifier: Apache-2.0
"""The policy-dependent functions of the policy program, as LLVM IR: constants and search code.

The fixed part (`runtime/datapath/policy_shell.bpf.c`) declares four functions. Here they are defined for
one lookup plan. All of them are inlined, so code that the policies do not use is optimised away.
"""

from policyc.backends.llvm.text import Function
from policyc.backends.llvm.trees import DoubleBuffer, Steps, Word, emit_switch, emit_tree, returns
from policyc.ir.plan import AddressLayout, CellLayout, DirectionPlan, LookupPlan
from policyc.ir.policy import Direction
from policyc.ir.trees import (
    NOTHING,
    verdict_word,
)
from policyc.ir.viewed import Verdicts

SIDES = (Direction.INGRESS, Direction.EGRESS)
"""In the order of enum pc_side."""
LAYOUTS = {
    AddressLayout.CONSTANT: 0,
    AddressLayout.CODE: 0,
    AddressLayout.TREE: 1,
    AddressLayout.FANS: 1,
    AddressLayout.LPM: 2,
}
INLINE = "alwaysinline nounwind"


def known_functions(verdicts: Verdicts, plan: LookupPlan) -> str:
    """The definitions of pc_constant, pc_diagram, pc_column4 and pc_column6."""
    return "\n".join(
        [_constants(plan), _diagrams(verdicts, plan), _columns(plan, 4), _columns(plan, 6)]
    )


def constants(plan: LookupPlan, direction: DirectionPlan) -> tuple[int, ...]:
    """The values of enum pc_known for one side, in its order."""
    told = sum(1 << kind for kind in plan.distinguished)
    shared = (
        int(plan.counters.words > 0),
        told,
        plan.rounds,
        int(plan.has_fans),
        int(plan.effects),
    )
    if not direction.is_used:
        return (*shared, 0)
    fields = plan.class_fields
    columns = (fields.index(direction.column_fields[family]) for family in (4, 6))
    four, six = direction.addresses[4], direction.addresses[6]
    return (
        *shared,
        1,
        fields.index(f"{direction.direction.value}_row"),
        *columns,
        int(direction.cells is CellLayout.DENSE),
        direction.rows.capacity,
        direction.columns.capacity,
        direction.buckets,
        LAYOUTS[four.layout],
        32 - four.root_bits if four.roots else 0,
        four.root,
        four.rounds[0],
        int(four.layout is AddressLayout.FANS),
        LAYOUTS[six.layout],
        six.root,
        *six.rounds,
    )


def _constants(plan: LookupPlan) -> str:
    fn = Function(f"define internal i32 @pc_constant(i32 %side, i32 %which) {INLINE}")
    values = {
        side << 8 | which: value
        for side, direction in enumerate(SIDES)
        for which, value in enumerate(constants(plan, plan.directions[direction]))
    }
    shifted = fn.let("shl i32 %side, 8")
    asked = Word(fn.let(f"or i32 {shifted}, %which"), 32)
    steps: dict[int, Steps] = {number: [(0, value)] for number, value in values.items()}
    emit_switch(fn, asked, steps, asked, returns(32), 0)
    return fn.text()


def _diagrams(verdicts: Verdicts, plan: LookupPlan) -> str:
    """The diagrams in code; every other word has none, and is searched in the nodes."""
    fn = Function(f"define internal i32 @pc_diagram(i32 %word, i32 %service) {INLINE}")
    cell_of = {word: cell for cell, word in enumerate(plan.cell_words)}
    trees: dict[int, Steps] = {
        word: [
            (lo, verdict_word(verdicts.allows[rule], rule))
            for lo, rule in verdicts.diagrams[cell_of[word]]
        ]
        for word in plan.code_words
    }
    emit_switch(fn, Word("%word", 32), trees, Word("%service", 32), returns(32), NOTHING)
    return fn.text()


def _columns(plan: LookupPlan, family: int) -> str:
    """The columns of addresses of a family, if they are found by code; else 0."""
    parameters = "i32 %address" if family == 4 else "i64 %high, i64 %low"
    fn = Function(f"define internal i32 @pc_column{family}(i32 %side, {parameters}) {INLINE}")
    trees: dict[int, Steps] = {}
    for side, direction in enumerate(SIDES):
        directed = plan.directions[direction]
        if directed.is_used and not LAYOUTS[directed.addresses[family].layout]:
            trees[side] = directed.addresses[family].runs
    key = Word("%address", 32) if family == 4 else DoubleBuffer("%high", "%low")
    fn_side = Word("%side", 32)
    if not trees:
        emit_tree(fn, key, [(0, 0)], returns(32))
    else:
        emit_switch(fn, fn_side, trees, key, returns(32), 0)
    return fn.text()
