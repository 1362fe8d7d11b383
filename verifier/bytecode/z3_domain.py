# SPDX-License-Identifier: Apache-2.0
"""The operations on Z3's bit vectors. What is known stays a Python int; the rest becomes a term.

Terms are kept small where that costs a look at one node: a zero-extended value that is cut again,
bytes that are put together as they were taken apart. Nothing is simplified beyond that.
"""

from collections.abc import Sequence
from typing import Any

from policyc.verifier.bytecode.values import Bits, Cmp, Domain, Op, Term, Truth, mask
from policyc.verifier.z3_when_used import z3


class Z3Domain(Domain):
    """Terms are `z3.BitVecRef` of the width that is said, truths `z3.BoolRef`."""

    def lift(self, a: Bits, width: int) -> Any:
        """A value as a term of Z3."""
        return z3.BitVecVal(a, width) if isinstance(a, int) else a

    def lift_truth(self, a: Truth) -> Any:
        """A truth as a term of Z3."""
        return z3.BoolVal(a) if isinstance(a, bool) else a

    def _binary(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        known = _neutral(op, a, b, width)
        if known is None and op is Op.LSHR and isinstance(b, int) and b == width - 1:
            known = _sign_of_difference(a, width)
        return known if known is not None else _apply(op, self.lift(a, width), self.lift(b, width))

    def _compare(self, cmp: Cmp, a: Bits, b: Bits, width: int) -> Truth:
        left, right = self.lift(a, width), self.lift(b, width)
        if left.eq(right):
            return cmp in (Cmp.EQ, Cmp.ULE, Cmp.SLE)
        found: Truth = _COMPARED[cmp](left, right)
        return found

    def _extract(self, a: Any, low: int, width: int, of: int) -> Bits:
        kind = a.decl().kind()
        if kind == z3.Z3_OP_ZERO_EXT:
            inner, size = a.arg(0), a.arg(0).size()
            if low >= size:
                return 0
            if low + width <= size:
                return self.extract(inner, low, width, size)
        if kind == z3.Z3_OP_EXTRACT:
            inner, below = a.arg(0), a.params()[1]
            return self.extract(inner, low + below, width, inner.size())
        if kind == z3.Z3_OP_CONCAT:
            found = self._extract_of_concat(a, low, width)
            if found is not None:
                return found
        if kind == z3.Z3_OP_BNUM:
            return int(a.as_long()) >> low & mask(width)
        term: Bits = z3.Extract(low + width - 1, low, a)
        return term

    def _extract_of_concat(self, a: Any, low: int, width: int) -> Bits | None:
        """From one of the parts, if all of it lies there."""
        at = 0
        for inner in reversed(a.children()):
            size = inner.size()
            if at <= low and low + width <= at + size:
                return self.extract(inner, low - at, width, size)
            at += size
        return None

    def _zero_extend(self, a: Any, of: int, width: int) -> Bits:
        term: Bits = z3.ZeroExt(width - of, a)
        return term

    def _sign_extend(self, a: Any, of: int, width: int) -> Bits:
        term: Bits = z3.SignExt(width - of, a)
        return term

    def _concat(self, parts: Sequence[tuple[Bits, int]]) -> Bits:
        joined: list[tuple[Bits, int]] = []
        for bits, width in parts:
            before = self._joined(joined[-1], (bits, width)) if joined else None
            if before is None:
                joined.append((bits, width))
            else:
                joined[-1] = before
        top = joined[-1][0]
        if len(joined) > 1 and isinstance(top, int) and top == 0:
            low = self._concat(joined[:-1])
            of = sum(width for _, width in joined[:-1])
            return self.zero_extend(low, of, of + joined[-1][1])
        if len(joined) == 1:
            return joined[0][0]
        term: Bits = z3.Concat([self.lift(bits, width) for bits, width in reversed(joined)])
        return term

    def _joined(self, low: tuple[Any, int], high: tuple[Any, int]) -> tuple[Bits, int] | None:
        """Two neighbours as one: both known, or cut from neighbouring places of one term."""
        width = low[1] + high[1]
        if isinstance(low[0], int) and isinstance(high[0], int):
            return low[0] | high[0] << low[1], width
        if isinstance(low[0], int) or isinstance(high[0], int):
            return None
        below, above = _cut(low[0]), _cut(high[0])
        if below is None or above is None or not below[0].eq(above[0]):
            return None
        if below[1] + low[1] != above[1]:
            return None
        return self.extract(below[0], below[1], width, below[0].size()), width

    def _choose(self, condition: Term, a: Bits, b: Bits, width: int) -> Bits:
        left, right = self.lift(a, width), self.lift(b, width)
        if left.eq(right):
            return a
        term: Bits = z3.If(condition, left, right)
        return term

    def _no(self, a: Any) -> Truth:
        term: Truth = a.arg(0) if a.decl().kind() == z3.Z3_OP_NOT else z3.Not(a)
        return term

    def _both(self, a: Any, b: Any) -> Truth:
        term: Truth = a if a.eq(b) else z3.And(a, b)
        return term


_COMPARED = {
    Cmp.EQ: lambda a, b: a == b,
    Cmp.ULT: lambda a, b: z3.ULT(a, b),
    Cmp.ULE: lambda a, b: z3.ULE(a, b),
    Cmp.SLT: lambda a, b: a < b,
    Cmp.SLE: lambda a, b: a <= b,
}


def _apply(op: Op, a: Any, b: Any) -> Bits:
    width = a.size()
    term: Bits
    match op:
        case Op.ADD:
            term = a + b
        case Op.SUB:
            term = a - b
        case Op.MUL:
            term = a * b
        case Op.UDIV:
            term = z3.If(b == 0, z3.BitVecVal(0, width), z3.UDiv(a, b))
        case Op.UMOD:
            term = z3.If(b == 0, a, z3.URem(a, b))
        case Op.OR:
            term = a | b
        case Op.AND:
            term = a & b
        case Op.XOR:
            term = a ^ b
        case Op.SHL:
            term = a << _count(b, width)
        case Op.LSHR:
            term = z3.LShR(a, _count(b, width))
        case Op.ASHR:
            term = a >> _count(b, width)
    return term


def _sign_of_difference(a: Any, width: int) -> Bits | None:
    """The uppermost bit of x - y, where neither has it: whether x < y. None for other terms.

    Branchless code counts so; as a comparison it is far less for a solver.
    """
    if a.decl().kind() != z3.Z3_OP_BSUB:
        return None
    x, y = a.children()
    if max(_bits_of(x), _bits_of(y)) >= width:
        return None
    term: Bits = z3.If(_is_below(x, y), z3.BitVecVal(1, width), z3.BitVecVal(0, width))
    return term


def _is_below(x: Any, y: Any) -> Any:
    """X < y of terms that do not overflow: without a one that was added, in no more bits than needed."""
    if y.decl().kind() == z3.Z3_OP_BADD and y.num_args() == 2:
        one, z = y.children() if z3.is_bv_value(y.arg(0)) else reversed(y.children())
        if z3.is_bv_value(one) and one.as_long() == 1:
            return z3.ULE(*_narrow(x, z))
    return z3.ULT(*_narrow(x, y))


def _narrow(x: Any, y: Any) -> tuple[Any, Any]:
    extended = z3.Z3_OP_ZERO_EXT
    if x.decl().kind() == y.decl().kind() == extended and x.arg(0).size() == y.arg(0).size():
        return x.arg(0), y.arg(0)
    return x, y


def _bits_of(a: Any) -> int:
    """So many bits at most that a term needs, as its shape tells."""
    match a.decl().kind():
        case z3.Z3_OP_BNUM:
            return int(a.as_long()).bit_length()
        case z3.Z3_OP_ZERO_EXT:
            return _bits_of(a.arg(0))
        case z3.Z3_OP_BADD:
            carries = (len(a.children()) - 1).bit_length()
            return min(int(a.size()), max(map(_bits_of, a.children())) + carries)
    return int(a.size())


def _count(b: Any, width: int) -> Any:
    """A shift's count modulo the width."""
    if b.decl().kind() == z3.Z3_OP_BNUM:
        return z3.BitVecVal(b.as_long() % width, width)
    # In w bits the number w itself may have no place: w is a power of two, or is less than 2**w.
    if width & (width - 1) == 0:
        return b & (width - 1)
    return z3.URem(b, z3.BitVecVal(width, width))


def _cut(a: Any) -> tuple[Any, int] | None:
    """The term that this is a part of, and from which bit on."""
    if a.decl().kind() == z3.Z3_OP_EXTRACT:
        return a.arg(0), a.params()[1]
    return None


def _neutral(op: Op, a: Bits, b: Bits, width: int) -> Bits | None:
    """The result where one side is a number that decides it; None where it does not."""
    if isinstance(b, int):
        if b == 0:
            if op in (Op.AND, Op.MUL, Op.UDIV):
                return 0
            return a  # also of UMOD
        if b == mask(width) and op is Op.AND:
            return a
        if b == 1 and op in (Op.MUL, Op.UDIV):
            return a
    if isinstance(a, int):
        if a == 0 and op is not Op.SUB:
            return b if op in (Op.ADD, Op.OR, Op.XOR) else 0
        if a == mask(width) and op is Op.AND:
            return b
    return None
