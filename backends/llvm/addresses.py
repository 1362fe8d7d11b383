# SPDX-License-Identifier: Apache-2.0
"""@find4 and @find6: from raw addresses to ends, by code if there are few runs, else by search."""

import numpy as np

from policyc.backends.llvm.layout import Limits
from policyc.backends.llvm.modules import INLINE, Array, Module, batch, loop, store
from policyc.backends.llvm.search import emit_search
from policyc.backends.llvm.text import Function
from policyc.backends.llvm.trees import DoubleBuffer, Key, Steps, Word, emit_tree, returns


def write_find(module: Module, family: int, steps: Steps, limits: Limits) -> None:
    """@find4, @find6: the end that holds an address, or the end for all addresses of its run."""
    if len(steps) <= limits.code_addresses:
        _write_find_by_code(module, family, steps)
    else:
        _write_find_by_search(module, family, steps)


def _address_columns(family: int) -> tuple[str, ...]:
    """IPv6 addresses come as two columns, the high and the low 64 bits."""
    return ("addresses",) if family == 4 else ("highs", "lows")


def _write_find_by_code(module: Module, family: int, steps: Steps) -> None:
    parts = ["i32 %key"] if family == 4 else ["i64 %high", "i64 %low"]
    tree = Function(f"define internal i32 @end{family}({', '.join(parts)}) {INLINE}")
    key: Key = Word("%key", 32) if family == 4 else DoubleBuffer("%high", "%low")
    emit_tree(tree, key, steps, returns(32))
    module.add(tree)
    columns = _address_columns(family)
    fn = batch(f"find{family}", columns, ("found",))
    bits = 32 if family == 4 else 64

    def body(at: str) -> None:
        given = [(f"i{bits}", fn.load(bits, f"%{column}", at)) for column in columns]
        store(fn, 32, fn.call("i32", f"end{family}", given), "%found", at)

    loop(fn, (), body)
    module.add(fn)


def _write_find_by_search(module: Module, family: int, steps: Steps) -> None:
    starts, found = f"starts{family}", f"found{family}"
    module.tables[starts] = _starts_table([start for start, _ in steps], family)
    module.tables[found] = np.array([end for _, end in steps], dtype=np.uint32)
    fn = batch(f"find{family}", _address_columns(family), ("found",))

    def body(at: str) -> None:
        if family == 4:
            key, bits = fn.load(32, "%addresses", at), 32
        else:
            key, bits = (
                _whole(fn, *(fn.load(64, f"%{each}", at) for each in ("highs", "lows"))),
                128,
            )
        run = emit_search(fn, f"%{starts}", len(steps), key, bits)
        store(fn, 32, fn.load(32, f"%{found}", run), "%found", at)

    loop(fn, (starts, found), body)
    module.add(fn)


def _whole(fn: Function, high: str, low: str) -> str:
    """An i128 from two 64-bit halves."""
    shifted = fn.let(f"shl i128 {fn.widened(high, 64, 128)}, 64")
    return fn.let(f"or i128 {shifted}, {fn.widened(low, 64, 128)}")


def _starts_table(starts: list[int], family: int) -> Array:
    """Ascending addresses as native code loads them: u32, or u128 as a host stores it."""
    if family == 4:
        return np.array(starts, dtype=np.uint32)
    raw = b"".join(start.to_bytes(16, "little") for start in starts)
    return np.frombuffer(raw, dtype=np.uint64)
