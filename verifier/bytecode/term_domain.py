# SPDX-License-Identifier: Apache-2.0
"""The operations on nodes, with local simplification: what the operands determine is computed at once.

Rewriting is local and terminates: sums lose zeros above and below, masks and shifts become slices,
numbers stand on the right. Every rewriting keeps the meaning (tests/property/test_terms.py).
"""

from typing import Any

from policyc.verifier.bytecode.comparisons import Comparisons
from policyc.verifier.bytecode.nodes import ADD, SUB, VARIABLE, XOR, Node
from policyc.verifier.bytecode.slices import Part, size, zeros_below
from policyc.verifier.bytecode.values import Bits, Op, mask

_SYMMETRIC = (Op.ADD, Op.MUL, Op.OR, Op.AND, Op.XOR)
MOST_CHANGES = 6
"""A mask that changes more often is not a mask of a few members."""
_BITWISE = (Op.OR, Op.AND, Op.XOR)


class TermDomain(Comparisons):
    """Terms are `Node`: bit strings of the given width, truths of width 0."""

    def variable(self, name: str, width: int) -> Node:
        """The variable with a name and a width; the same for the same name."""
        return self.nodes.node(VARIABLE, width, name)

    def truth(self, name: str) -> Node:
        """A truth variable."""
        return self.nodes.node(VARIABLE, 0, name)

    def fresh(self, name: str, width: int) -> Node:
        """A variable that occurs in no term yet."""
        return self.variable(f"{name} !{len(self.nodes)}", width)

    def _binary(self, op: Op, a: Any, b: Any, width: int) -> Bits:
        if op in _SYMMETRIC and _comes_behind(a, b):
            a, b = b, a
        if op in _BITWISE:
            return self._bitwise(op, a, b, width)
        match op:
            case Op.ADD:
                return self._sum(a, b, width)
            case Op.SUB:
                return self._difference(a, b, width)
            case Op.MUL:
                return self._product(a, b, width)
            case Op.UDIV | Op.UMOD:
                return self._divided(op, a, b, width)
        return self._shifted(op, a, b, width)

    # --- bit by bit -----------------------------------------------------------------------------

    def _bitwise(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        if a is b:
            return 0 if op is Op.XOR else a
        cut = list(self.cut_alike(a, b, width, _changes(b, width) if isinstance(b, int) else ()))
        if len(cut) == 1:
            return self._bits(op, a, b, width)
        return self.concat(
            [(self._bits(op, mine, theirs, here), here) for mine, theirs, here in cut]
        )

    def _bits(self, op: Op, a: Any, b: Any, width: int) -> Bits:
        """A bitwise operation on parts that have no further cuts."""
        if isinstance(a, int) and isinstance(b, int):
            return self.binary(op, a, b, width)
        if _comes_behind(a, b):
            a, b = b, a
        if isinstance(b, int):
            if b == 0:
                return 0 if op is Op.AND else a
            if b == mask(width) and op is not Op.XOR:
                return a if op is Op.AND else b
            if op is Op.XOR and a.op is XOR and isinstance(a.args[1], int):
                return self.binary(op, a.args[0], a.args[1] ^ b, width)
        if a is b:
            return 0 if op is Op.XOR else a
        return self.nodes.node(op.value, width, a, b)

    # --- numbers --------------------------------------------------------------------------------

    def _sum(self, a: Any, b: Any, width: int) -> Bits:
        if b == 0:
            return a if isinstance(a, Node) else b
        if isinstance(b, int) and a.op is ADD and isinstance(a.args[1], int):
            return self.binary(Op.ADD, a.args[0], a.args[1] + b & mask(width), width)
        if isinstance(b, int) and a.op is SUB and isinstance(a.args[0], int):
            return self.binary(Op.SUB, a.args[0] + b & mask(width), a.args[1], width)
        narrow = max(size(a, width), size(b, width)) + 1
        if narrow < width:
            return self.zero_extend(self._narrow(Op.ADD, a, b, narrow, width), narrow, width)
        below = zeros_below(a, width)
        if isinstance(b, Node):
            below = min(below, zeros_below(b, width))
        if 0 < below < width:  # there is no carry: one of the two is zero there
            mine, theirs = (self.truncate(each, below, width) for each in (a, b))
            low = self.binary(Op.OR, mine, theirs, below)
            rest = width - below
            one, other = (self.extract(each, below, rest, width) for each in (a, b))
            return self.concat([(low, below), (self.binary(Op.ADD, one, other, rest), rest)])
        return self.nodes.node(ADD, width, a, b)

    def _difference(self, a: Any, b: Any, width: int) -> Bits:
        if a is b:
            return 0
        if isinstance(b, int):
            return a if b == 0 else self.binary(Op.ADD, a, -b & mask(width), width)
        if isinstance(a, Node) and a.op is ADD:
            for mine, rest in (a.args, a.args[::-1]):
                if mine is b:
                    known: Bits = rest
                    return known
        return self.nodes.node(SUB, width, a, b)

    def _product(self, a: Any, b: Any, width: int) -> Bits:
        if isinstance(b, int):
            if b == 0:
                return 0
            if b & (b - 1) == 0:
                return self._up(a, b.bit_length() - 1, width)
        narrow = size(a, width) + size(b, width)
        if narrow < width:
            return self.zero_extend(self._narrow(Op.MUL, a, b, narrow, width), narrow, width)
        return self.nodes.node(Op.MUL.value, width, a, b)

    def _narrow(self, op: Op, a: Bits, b: Bits, narrow: int, width: int) -> Bits:
        one, other = (self.truncate(each, narrow, width) for each in (a, b))
        return self.binary(op, one, other, narrow)

    def _divided(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        is_div = op is Op.UDIV
        if isinstance(a, int) and a == 0:
            return 0
        if isinstance(b, int):
            if b == 0:
                return 0 if is_div else a
            if b & (b - 1) == 0:
                places = b.bit_length() - 1
                if is_div:
                    return self._down(a, places, width)
                return self._cleared(a, places, width)
        return self.nodes.node(op.value, width, a, b)

    # --- shifts ---------------------------------------------------------------------------------

    def _shifted(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        if isinstance(b, int):
            by = b % width
            if op is Op.SHL:
                return self._up(a, by, width)
            if op is Op.LSHR:
                return self._down(a, by, width)
            if by == 0:
                return a
            return self.sign_extend(self.extract(a, by, width - by, width), width - by, width)
        if isinstance(a, int) and (a == 0 or (op is Op.ASHR and a == mask(width))):
            return a
        if width & (width - 1) == 0 and width > 1:
            needed = width.bit_length() - 1
            count = self.zero_extend(self.truncate(b, needed, width), needed, width)
            if isinstance(count, int):
                return self.binary(op, a, count, width)
            b = count
        return self.nodes.node(op.value, width, a, b)

    def _up(self, a: Bits, by: int, width: int) -> Bits:
        if by == 0:
            return a
        return self.concat([(0, by), (self.truncate(a, width - by, width), width - by)])

    def _down(self, a: Bits, by: int, width: int) -> Bits:
        if by == 0:
            return a
        return self.zero_extend(self.extract(a, by, width - by, width), width - by, width)

    def _cleared(self, a: Bits, kept: int, width: int) -> Bits:
        """The lowest bits alone."""
        lowest: Part = (self.truncate(a, kept, width), kept) if kept else (0, 0)
        return self.concat([lowest, (0, width - kept)]) if kept else 0


def _changes(number: int, width: int) -> list[int]:
    """The bits at which a number changes from 0 to 1 or back; none if it changes too often."""
    changes = (number ^ number >> 1) & mask(width - 1) if width > 1 else 0
    if changes.bit_count() > MOST_CHANGES:
        return []
    return [at + 1 for at in range(width - 1) if changes >> at & 1]


def _comes_behind(a: Bits, b: Bits) -> bool:
    """Numbers stand on the right; of two nodes, the older one stands on the left."""
    if isinstance(b, int):
        return False
    return isinstance(a, int) or (
        isinstance(a, Node) and isinstance(b, Node) and a.number > b.number
    )
