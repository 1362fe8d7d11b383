# SPDX-License-Identifier: Apache-2.0
"""The functions that decide one end: @service, @leaf, and a @..._word for each direction."""

from policyc.backends.llvm.layout import Code, Dense, Leaves, Limits, Searched, segment_of_key
from policyc.backends.llvm.modules import INLINE, Array, Module, given, pointers
from policyc.backends.llvm.search import emit_search_between
from policyc.backends.llvm.text import Function
from policyc.backends.llvm.trees import Word, emit_switch, emit_tree, returns
from policyc.ir.policy import Direction


def write_service(module: Module, leaves: Leaves, limits: Limits) -> None:
    """@service: the key for diagram lookups, from a service key: a segment, or the key itself."""
    fn = Function(f"define internal i32 @service(i32 %key, ptr %segments) {INLINE}")
    match leaves:
        case Dense(starts) if len(starts) <= limits.code_segments:
            steps = [(start, segment) for segment, start in enumerate(starts)]
            emit_tree(fn, Word("%key", 32), steps, returns(32))
        case Dense(starts):
            table = segment_of_key(starts)
            module.tables["segments"] = table
            bits = 8 * table.itemsize
            found = fn.load(bits, "%segments", fn.widened("%key", 32, 64))
            fn.do(f"ret i32 {fn.widened(found, bits, 32)}")
        case _:
            fn.do("ret i32 %key")
    module.add(fn)


def write_leaf(module: Module, leaves: Leaves) -> None:
    """@leaf: the verdict word of a diagram for a service."""
    arguments = f"i32 %diagram, i32 %service, {pointers('first', 'lows', 'leaves')}"
    fn = Function(f"define internal i32 @leaf({arguments}) {INLINE}")
    match leaves:
        case Code(trees):
            which, key = Word("%diagram", 32), Word("%service", 32)
            emit_switch(fn, which, trees, key, returns(32), otherwise=0)
        case Dense(starts, table):
            module.tables["leaves"] = table
            bits = 8 * table.itemsize
            row = fn.let(f"mul i64 {fn.widened('%diagram', 32, 64)}, {len(starts)}")
            at = fn.let(f"add i64 {row}, {fn.widened('%service', 32, 64)}")
            fn.do(f"ret i32 {fn.widened(fn.load(bits, '%leaves', at), bits, 32)}")
        case Searched(first, lows, words):
            module.tables |= {"first": first, "lows": lows, "leaves": words}
            diagram = fn.widened("%diagram", 32, 64)
            begin = fn.widened(fn.load(32, "%first", diagram), 32, 64)
            after = fn.load(32, "%first", fn.let(f"add i64 {diagram}, 1"))
            end = fn.widened(after, 32, 64)
            at = emit_search_between(fn, "%lows", begin, end, "%service")
            fn.do(f"ret i32 {fn.load(32, '%leaves', at)}")
    module.add(fn)


def write_word(module: Module, direction: Direction, cells: Array) -> None:
    """@egress_word, @ingress_word: the verdict word of one end, from the row and column of its grid."""
    arguments = pointers("cells", "first", "lows", "leaves")
    fn = Function(
        f"define internal i32 @{direction.value}_word"
        f"(i32 %row, i32 %column, i32 %service, {arguments}) {INLINE}"
    )
    bits = 8 * cells.itemsize
    row = fn.let(f"mul i64 {fn.widened('%row', 32, 64)}, {cells.shape[1]}")
    at = fn.let(f"add i64 {row}, {fn.widened('%column', 32, 64)}")
    diagram = fn.widened(fn.load(bits, "%cells", at), bits, 32)
    word = fn.call(
        "i32",
        "leaf",
        [("i32", diagram), ("i32", "%service"), *given("first", "lows", "leaves")],
    )
    fn.do(f"ret i32 {word}")
    module.add(fn)
