# SPDX-License-Identifier: Apache-2.0
"""The module for one Decision IR: loops over batches, around the decision as code and tables.

Input: a layout and the address books. Output: LLVM IR text and the tables that it reads. `batch` defines
batches; `ends` defines the fields of an end.
"""

from collections.abc import Callable, Mapping

from policyc.backends.llvm.addresses import write_find
from policyc.backends.llvm.batch import Special
from policyc.backends.llvm.ends import NARROW, WIDE, Field
from policyc.backends.llvm.layout import OWN_NODE, Layout, Limits
from policyc.backends.llvm.lookups import write_leaf, write_service, write_word
from policyc.backends.llvm.modules import LEAF_TABLES, Module, batch, given, loop, store
from policyc.backends.llvm.text import Function
from policyc.backends.llvm.trees import Steps
from policyc.ir.policy import Direction
from policyc.ir.services import NEIGHBOUR_DISCOVERY, Kind

_FIRST_ND = Kind.ICMPV6 << 16 | NEIGHBOUR_DISCOVERY.start << 8
_ND_KEYS = len(NEIGHBOUR_DISCOVERY) << 8


def write_module(
    layout: Layout, books: Mapping[int, Steps], is_wide: bool, limits: Limits
) -> Module:
    """Every function. `books`: per family, first address and end of each run; `is_wide`: see `ends`."""
    module = Module()
    write_service(module, layout.leaves, limits)
    write_leaf(module, layout.leaves)
    for direction, grid in layout.grids.items():
        module.tables[direction.value] = grid.cells
        write_word(module, direction, grid.cells)
        write_decide(module, direction, layout)
    write_verdicts(module, layout, is_wide)
    for family, steps in books.items():
        write_find(module, family, steps, limits)
    return module


def _word_of(fn: Function, direction: Direction, row: str, column: str, service: str) -> str:
    name = direction.value
    arguments = [("i32", row), ("i32", column), ("i32", service)]
    return fn.call("i32", f"{name}_word", [*arguments, *given(name, "first", "lows", "leaves")])


def _service_of(fn: Function, column: str, at: str) -> tuple[str, str]:
    """The service key at an index, and the key for diagram lookups."""
    key = fn.load(32, column, at)
    return key, fn.call("i32", "service", [("i32", key), ("ptr", "%segments")])


def _plain(fn: Function, layout: Layout, word: str) -> str:
    """The verdict word, without the flag that only flows from a pod's own node use."""
    return fn.let(f"and i32 {word}, {OWN_NODE - 1}") if layout.binds_own_node else word


def write_decide(module: Module, direction: Direction, layout: Layout) -> None:
    """@decide_egress, @decide_ingress: rows, columns and service keys to verdict words."""
    name = direction.value
    fn = batch(f"decide_{name}", ("rows", "columns", "services"), ("words",))

    def body(at: str) -> None:
        _, service = _service_of(fn, "%services", at)
        row, column = (fn.load(32, each, at) for each in ("%rows", "%columns"))
        word = _plain(fn, layout, _word_of(fn, direction, row, column, service))
        store(fn, 32, word, "%words", at)

    loop(fn, (name, *LEAF_TABLES), body)
    module.add(fn)


def write_verdicts(module: Module, layout: Layout, is_wide: bool) -> None:
    """@verdicts: numbers of ends and service keys to both words and the verdict on the connection."""
    fn = batch("verdicts", ("src", "dst", "services"), ("egress_out", "ingress_out", "allowed"))
    size = WIDE if is_wide else NARROW
    n_rules = layout.n_rules

    def end(column: str, at: str) -> Callable[[Field], str]:
        number = fn.widened(fn.load(32, column, at), 32, 64)
        record = fn.let(f"mul i64 {number}, {size}")
        return lambda each: fn.load(32, "%ends", fn.let(f"add i64 {record}, {each}"))

    def column_of(subject: Callable[[Field], str], peer: Callable[[Field], str], far: Field) -> str:
        """The peer's column; for a node, another one if the subject runs on it."""
        column = peer(far)
        if not is_wide:
            return column
        near = peer(Field.NEAR_EGRESS if far is Field.EGRESS_COLUMN else Field.NEAR_INGRESS)
        is_near = fn.let(f"icmp eq i32 {subject(Field.HOME)}, {peer(Field.NODE)}")
        return fn.let(f"select i1 {is_near}, i32 {near}, i32 {column}")

    def body(at: str) -> None:
        src, dst = end("%src", at), end("%dst", at)
        key, service = _service_of(fn, "%services", at)
        out_column = column_of(src, dst, Field.EGRESS_COLUMN)
        in_column = column_of(dst, src, Field.INGRESS_COLUMN)
        out = _word_of(fn, Direction.EGRESS, src(Field.EGRESS_ROW), out_column, service)
        into = _word_of(fn, Direction.INGRESS, dst(Field.INGRESS_ROW), in_column, service)

        from_node = fn.let(f"icmp eq i32 {src(Field.SPEAKS_FOR)}, {dst(Field.HOME)}")
        word = Special.FROM_ITS_NODE.word(n_rules)
        passes = from_node
        if layout.binds_own_node:
            is_bound = fn.let(f"icmp slt i32 {into}, 0")
            passes = fn.let(f"and i1 {from_node}, {fn.let(f'xor i1 {is_bound}, true')}")
            out, into = _plain(fn, layout, out), _plain(fn, layout, into)
        into = fn.let(f"select i1 {passes}, i32 {word}, i32 {into}")
        is_asked = fn.let(f"icmp ne i32 {out}, {Special.OUTSIDE.word(n_rules)}")
        from_host = fn.let(f"and i1 {from_node}, {is_asked}")
        out = fn.let(f"select i1 {from_host}, i32 {word}, i32 {out}")
        pod = dst(Field.POD)
        is_pod = fn.let(f"icmp ne i32 {pod}, 0")
        equal = fn.let(f"icmp eq i32 {src(Field.POD)}, {pod}")
        same = fn.let(f"and i1 {is_pod}, {equal}")
        offset = fn.let(f"sub i32 {key}, {_FIRST_ND}")
        is_discovery = fn.let(f"icmp ult i32 {offset}, {_ND_KEYS}")
        on_link = fn.let(f"icmp ne i32 {dst(Field.ON_LINK)}, 0")
        neighbours = fn.let(f"and i1 {is_discovery}, {on_link}")
        words = []
        for word_of_end in (out, into):
            special = Special.TO_ITSELF.word(n_rules)
            chosen = fn.let(f"select i1 {same}, i32 {special}, i32 {word_of_end}")
            special = Special.NEIGHBOURS.word(n_rules)
            words.append(fn.let(f"select i1 {neighbours}, i32 {special}, i32 {chosen}"))
        store(fn, 32, words[0], "%egress_out", at)
        store(fn, 32, words[1], "%ingress_out", at)
        both = fn.let(f"and i32 {words[0]}, {words[1]}")
        bit = fn.let(f"and i32 {both}, 1")
        store(fn, 8, fn.let(f"trunc i32 {bit} to i8"), "%allowed", at)

    loop(fn, ("ends", "egress", "ingress", *LEAF_TABLES), body)
    module.add(fn)
