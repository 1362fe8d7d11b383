# SPDX-License-Identifier: Apache-2.0
"""Slices and concatenations of bit strings: slices come from their source, neighbours are joined again.

Upper bits that are known to be zero are a slice of their own, so each number is as narrow as can be
shown. A slice of a choice becomes a choice of slices only if the result is smaller.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from policyc.verifier.bytecode.nodes import (
    ADD,
    AND,
    CONCAT,
    EXTRACT,
    ITE,
    MUL,
    NOT,
    OR,
    SIGN,
    SUB,
    XOR,
    Node,
)
from policyc.verifier.bytecode.truths import Truths
from policyc.verifier.bytecode.values import Bits, Op, Term, Truth

Part = tuple[Bits, int]
"""A bit string and its width."""

_BITWISE = {AND: Op.AND, OR: Op.OR, XOR: Op.XOR}
_FROM_BELOW = {ADD: Op.ADD, SUB: Op.SUB, MUL: Op.MUL}
"""Operations whose lowest result bits depend on the lowest operand bits alone."""


def parts(bits: Bits, width: int) -> list[Part]:
    """The parts of a concatenation, the lowest bits first."""
    if isinstance(bits, Node) and bits.op is CONCAT:
        return list(zip(bits.args[::2], bits.args[1::2], strict=True))
    return [(bits, width)]


def size(bits: Bits, width: int) -> int:
    """The number of bits, from the lowest on, that may be other than zero."""
    if isinstance(bits, int):
        return bits.bit_length()
    if isinstance(bits, Node) and bits.op is CONCAT:
        top, of = bits.args[-2:]
        return width if isinstance(top, Node) else width - of + int(top).bit_length()
    return width


def zeros_below(bits: Bits, width: int) -> int:
    """The number of lowest bits that are zero."""
    if isinstance(bits, Node) and bits.op is CONCAT:
        bits, width = bits.args[:2]
    if isinstance(bits, int):
        return (bits & -bits).bit_length() - 1 if bits else width
    return 0


class Slices(Truths):
    """Extraction, concatenation, choice."""

    def __init__(self) -> None:
        super().__init__()
        self._extracted: dict[tuple[Node, int, int], Bits] = {}

    def cut_alike(
        self, a: Bits, b: Bits, width: int, more: Iterable[int] = ()
    ) -> Iterator[tuple[Bits, Bits, int]]:
        """Two strings cut at the part boundaries of both, and at the bits `more`."""
        low = 0
        for end in sorted({*_ends(a, width), *_ends(b, width), *more}):
            here = end - low
            yield self.extract(a, low, here, width), self.extract(b, low, here, width), here
            low = end

    def _extract(self, a: Any, low: int, width: int, of: int) -> Bits:
        key = (a, low, width)
        found = self._extracted.get(key)
        if found is None:
            found = self._extracted[key] = self._part_of(a, low, width)
        return found

    def _part_of(self, node: Node, low: int, width: int) -> Bits:
        of = node.width
        op, args = node.op, node.args
        if op is CONCAT:
            return self.concat(list(self._of_concat(node, low, width)))
        if op is EXTRACT:
            inner: Node = args[0]
            return self.extract(inner, low + args[1], width, inner.width)
        if op in _BITWISE:
            one, other = (self.extract(each, low, width, of) for each in args)
            return self.binary(_BITWISE[op], one, other, width)
        if op in _FROM_BELOW and low == 0:
            one, other = (self.truncate(each, width, of) for each in args)
            return self.binary(_FROM_BELOW[op], one, other, width)
        if op is SIGN and low + width <= args[0].width:
            return self.extract(args[0], low, width, args[0].width)
        if op is ITE and any(_gets_less(each) for each in args[1:]):
            condition, one, other = args
            return self.choose(
                condition,
                self.extract(one, low, width, of),
                self.extract(other, low, width, of),
                width,
            )
        if op in (ADD, SUB) and (low, width) == (of - 1, 1):
            sign = self._sign(node)
            if sign is not None:
                return self.choose(sign, 1, 0, 1)
        return self.nodes.node(EXTRACT, width, node, low)

    def _sign(self, node: Node) -> Truth | None:
        """Whether the uppermost bit of a sum or difference is set, as a comparison; or None."""
        raise NotImplementedError

    def _of_concat(self, node: Node, low: int, width: int) -> Iterator[Part]:
        at, high = 0, low + width
        for bits, of in parts(node, node.width):
            first, last = max(low, at), min(high, at + of)
            if first < last:
                yield self.extract(bits, first - at, last - first, of), last - first
            at += of

    def _zero_extend(self, a: Term, of: int, width: int) -> Bits:
        return self.concat([(a, of), (0, width - of)])

    def _sign_extend(self, a: Any, of: int, width: int) -> Bits:
        if size(a, of) < of:
            return self.zero_extend(a, of, width)
        return self.nodes.node(SIGN, width, a.args[0] if a.op is SIGN else a)

    def _concat(self, parts_: Sequence[Part]) -> Bits:
        joined: list[Part] = []
        for bits, width in parts_:
            for part in parts(bits, width):
                before = self._joined(joined[-1], part) if joined else None
                if before is None:
                    joined.append(part)
                else:
                    joined[-1] = before
        if len(joined) == 1:
            return joined[0][0]
        flat = [each for part in joined for each in part]
        return self.nodes.node(CONCAT, sum(width for _, width in joined), *flat)

    def _joined(self, low: Part, high: Part) -> Part | None:
        """Two neighbours as one: both known, or adjacent slices, or choices by one condition."""
        (a, a_width), (b, b_width) = low, high
        width = a_width + b_width
        if isinstance(a, int) or isinstance(b, int):
            both_known = isinstance(a, int) and isinstance(b, int)
            return self._known(a, b, a_width, width) if both_known else None
        below, above = _cut(a), _cut(b)
        if below is not None and above is not None:
            if below[0] is above[0] and below[1] + a_width == above[1]:
                return self.extract(below[0], below[1], width, below[0].width), width
            return None
        if isinstance(a, Node) and isinstance(b, Node) and a.op is b.op is ITE:
            condition, one, other = a.args
            if condition is b.args[0]:
                here = self.concat([(one, a_width), (b.args[1], b_width)])
                there = self.concat([(other, a_width), (b.args[2], b_width)])
                return self.choose(condition, here, there, width), width
        return None

    def _known(self, a: Any, b: Any, low_width: int, width: int) -> Part:
        return a | b << low_width, width

    def _choose(self, condition: Any, a: Bits, b: Bits, width: int) -> Bits:
        if a is b or (isinstance(a, int) and isinstance(b, int) and a == b):
            return a
        truth: Node = condition
        if truth.op is NOT:
            return self.choose(truth.args[0], b, a, width)
        a, b = _under(a, truth, 1), _under(b, truth, 2)
        if a is b or (isinstance(a, int) and isinstance(b, int) and a == b):
            return a
        narrow = max(size(a, width), size(b, width))
        if narrow < width:
            here, there = (self.truncate(each, narrow, width) for each in (a, b))
            chosen = self.choose(truth, here, there, narrow)
            return self.zero_extend(chosen, narrow, width)
        merged = self._merged_choice(truth, a, b, width)
        return merged if merged is not None else self.nodes.node(ITE, width, truth, a, b)

    def _merged_choice(self, truth: Node, a: Bits, b: Bits, width: int) -> Bits | None:
        """One choice instead of two, if an arm is a choice that has the other arm among its own."""
        for one, other, holds in ((a, b, True), (b, a, False)):
            if not (isinstance(one, Node) and one.op is ITE):
                continue
            condition, first, second = one.args
            mine = truth if holds else self.contrary(truth)
            if _is_same(second, other):
                return self.choose(self.both(mine, condition), first, other, width)
            if _is_same(first, other):
                return self.choose(self.both(mine, self.no(condition)), second, other, width)
        return None


def _is_same(one: Bits, other: Bits) -> bool:
    return one is other or (isinstance(one, int) and isinstance(other, int) and one == other)


def _under(bits: Bits, truth: Node, arm: int) -> Bits:
    """The value of a choice if it is known which of its arms counts (1 or 2)."""
    while isinstance(bits, Node) and bits.op is ITE and bits.args[0] is truth:
        bits = bits.args[arm]
    return bits


def _gets_less(bits: Bits) -> bool:
    return isinstance(bits, int) or (isinstance(bits, Node) and bits.op is CONCAT)


def _cut(bits: Any) -> tuple[Node, int] | None:
    """The string of which this is a slice, and the slice's first bit."""
    node: Node = bits
    return (node.args[0], node.args[1]) if node.op is EXTRACT else None


def _ends(bits: Bits, width: int) -> Iterator[int]:
    """The positions where parts end."""
    at = 0
    for _, of in parts(bits, width):
        at += of
        yield at
