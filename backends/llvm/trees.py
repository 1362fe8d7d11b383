# SPDX-License-Identifier: Apache-2.0
"""Decisions as code: balanced trees over sorted thresholds, and a switch over several of them.

Input: steps (threshold, leaf) in ascending order; the first threshold is the least value of the domain
and is never compared. Output: instructions of one function that end every path. Nothing is assumed of
the target: no numbers wider than 64 bits (an IPv6 address is two 64-bit numbers), no memory, no
`unreachable`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from policyc.backends.llvm.text import Function

Steps = Sequence[tuple[int, int]]
LOW = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Word:
    """A value in one register, up to 64 bits wide."""

    name: str
    bits: int

    def is_below(self, fn: Function, threshold: int) -> str:
        """An i1: whether the value is below the threshold."""
        return fn.let(f"icmp ult i{self.bits} {self.name}, {threshold}")


@dataclass(frozen=True, slots=True)
class DoubleBuffer:
    """A value of 128 bits in two registers."""

    high: str
    low: str

    def is_below(self, fn: Function, threshold: int) -> str:
        """An i1: the high half is below that of the threshold, or equal and the low half is below."""
        high, low = threshold >> 64, threshold & LOW
        under = fn.let(f"icmp ult i64 {self.high}, {high}")
        if not low:
            return under
        same = fn.let(f"icmp eq i64 {self.high}, {high}")
        below = fn.let(f"icmp ult i64 {self.low}, {low}")
        both = fn.let(f"and i1 {same}, {below}")
        return fn.let(f"or i1 {under}, {both}")


Key = Word | DoubleBuffer
Finish = Callable[[Function, int], None]
"""Ends a path with its leaf: a return, or a store and a branch, as the target needs."""


def returns(bits: int) -> Finish:
    """Paths that return their leaf as a number of so many bits."""

    def finish(fn: Function, leaf: int) -> None:
        fn.do(f"ret i{bits} {leaf}")

    return finish


def emit_tree(fn: Function, key: Key, steps: Steps, finish: Finish) -> None:
    """Binary comparison until one step is left: its threshold is the last that is not above the key."""
    if len(steps) == 1:
        finish(fn, steps[0][1])
        return
    middle = len(steps) // 2
    below, above = fn.new_label("below"), fn.new_label("above")
    condition = key.is_below(fn, steps[middle][0])
    fn.do(f"br i1 {condition}, label %{below}, label %{above}")
    fn.begin(below)
    emit_tree(fn, key, steps[:middle], finish)
    fn.begin(above)
    emit_tree(fn, key, steps[middle:], finish)


def emit_switch(
    fn: Function, which: Word, trees: Mapping[int, Steps], key: Key, finish: Finish, otherwise: int
) -> None:
    """The tree with the number `which`; the leaf `otherwise` for a number without a tree."""
    labels = {number: fn.new_label("tree") for number in trees}
    default = fn.new_label("none")
    cases = " ".join(f"i{which.bits} {number}, label %{label}" for number, label in labels.items())
    fn.do(f"switch i{which.bits} {which.name}, label %{default} [ {cases} ]")
    fn.begin(default)
    finish(fn, otherwise)
    for number, steps in trees.items():
        fn.begin(labels[number])
        emit_tree(fn, key, steps, finish)


def depth(steps: Steps) -> int:
    """The number of comparisons on the longest path of a tree."""
    return max(0, len(steps) - 1).bit_length()
