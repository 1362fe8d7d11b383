# SPDX-License-Identifier: Apache-2.0
"""Branch-free search in a sorted table, for cases where code would be too long."""

from policyc.backends.llvm.text import Function


def emit_search(fn: Function, table: str, count: int, key: str, bits: int) -> str:
    """The index (an i64) of the last of `count` thresholds that is not above the key.

    `table` points to numbers of `bits`, ascending, the first of them not above any key. A conditional
    move skips half of the rest each time, so that the processor works on several keys at once.
    """
    base, left = "0", count
    while left > 1:
        half = left // 2
        at = fn.let(f"add i64 {base}, {half}")
        threshold = fn.load(bits, table, at)
        is_above = fn.let(f"icmp uge i{bits} {key}, {threshold}")
        base = fn.let(f"select i1 {is_above}, i64 {at}, i64 {base}")
        left -= half
    return base


def emit_search_between(fn: Function, table: str, first: str, after: str, key: str) -> str:
    """As `emit_search`, between two indices (i64) known at run time; thresholds of 32 bits."""
    loop, body, done = (fn.new_label(hint) for hint in ("search", "halve", "found"))
    before = fn.new_label("before")
    fn.do(f"br label %{before}")
    fn.begin(before)
    count = fn.let(f"sub i64 {after}, {first}")
    fn.do(f"br label %{loop}")
    fn.begin(loop)
    base, left = f"%base.{loop}", f"%left.{loop}"
    fn.do(f"{base} = phi i64 [ {first}, %{before} ], [ {base}.next, %{body} ]")
    fn.do(f"{left} = phi i64 [ {count}, %{before} ], [ {left}.next, %{body} ]")
    more = fn.let(f"icmp ugt i64 {left}, 1")
    fn.do(f"br i1 {more}, label %{body}, label %{done}")
    fn.begin(body)
    half = fn.let(f"lshr i64 {left}, 1")
    at = fn.let(f"add i64 {base}, {half}")
    threshold = fn.load(32, table, at)
    is_above = fn.let(f"icmp uge i32 {key}, {threshold}")
    fn.do(f"{base}.next = select i1 {is_above}, i64 {at}, i64 {base}")
    fn.do(f"{left}.next = sub i64 {left}, {half}")
    fn.do(f"br label %{loop}")
    fn.begin(done)
    return base
