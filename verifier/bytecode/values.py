# SPDX-License-Identifier: Apache-2.0
"""Operations on bit strings of fixed width: the single definition of what instructions compute.

A value is a Python int, 0 <= value < 2**width, or a term of a `Domain`. Known values are computed on
ints, here, for every domain; a domain adds only the operations on terms. Division and shifts are those
of the BPF instruction set (RFC 9669, 4.1): division by zero gives zero, modulo zero leaves the dividend,
and a shift's count is taken modulo the width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.nodes import Node

Term: TypeAlias = Node
"""A value that is not known; a domain makes and inspects terms."""
Bits: TypeAlias = int | Term
"""A bit string; the caller knows its width."""
Truth: TypeAlias = bool | Term


class Op(Enum):
    """Operations on two bit strings of one width, which give one of the same width."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    UDIV = "udiv"
    UMOD = "umod"
    OR = "or"
    AND = "and"
    XOR = "xor"
    SHL = "shl"
    LSHR = "lshr"
    ASHR = "ashr"


class Cmp(Enum):
    """Comparisons of two bit strings of the same width."""

    EQ = "eq"
    ULT = "ult"
    ULE = "ule"
    SLT = "slt"
    SLE = "sle"


def mask(width: int) -> int:
    """The largest number of this many bits."""
    return (1 << width) - 1


def signed(value: int, width: int) -> int:
    """The number that the bits represent in two's complement."""
    return value - (value >> (width - 1) << width)


_BINARY: dict[Op, Callable[[int, int, int], int]] = {
    Op.ADD: lambda a, b, _: a + b,
    Op.SUB: lambda a, b, _: a - b,
    Op.MUL: lambda a, b, _: a * b,
    Op.UDIV: lambda a, b, _: a // b if b else 0,
    Op.UMOD: lambda a, b, _: a % b if b else a,
    Op.OR: lambda a, b, _: a | b,
    Op.AND: lambda a, b, _: a & b,
    Op.XOR: lambda a, b, _: a ^ b,
    Op.SHL: lambda a, b, width: a << b % width,
    Op.LSHR: lambda a, b, width: a >> b % width,
    Op.ASHR: lambda a, b, width: signed(a, width) >> b % width,
}
_COMPARED: dict[Cmp, Callable[[int, int, int], bool]] = {
    Cmp.EQ: lambda a, b, _: a == b,
    Cmp.ULT: lambda a, b, _: a < b,
    Cmp.ULE: lambda a, b, _: a <= b,
    Cmp.SLT: lambda a, b, width: signed(a, width) < signed(b, width),
    Cmp.SLE: lambda a, b, width: signed(a, width) <= signed(b, width),
}


class Domain(ABC):
    """The operations. Methods with a leading underscore get at least one term."""

    def binary(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        """`a op b`, cut to the width."""
        if isinstance(a, int) and isinstance(b, int):
            return _BINARY[op](a, b, width) & mask(width)
        return self._binary(op, a, b, width)

    def compare(self, cmp: Cmp, a: Bits, b: Bits, width: int) -> Truth:
        """Whether `a cmp b`."""
        if isinstance(a, int) and isinstance(b, int):
            return _COMPARED[cmp](a, b, width)
        return self._compare(cmp, a, b, width)

    def negate(self, a: Bits, width: int) -> Bits:
        """0 - a."""
        return self.binary(Op.SUB, 0, a, width)

    def invert(self, a: Bits, width: int) -> Bits:
        """The complement of every bit."""
        return self.binary(Op.XOR, a, mask(width), width)

    def extract(self, a: Bits, low: int, width: int, of: int) -> Bits:
        """`width` bits from bit `low` on, of a string of `of`."""
        if low < 0 or width < 1 or low + width > of:
            raise InternalError(f"bits {low} to {low + width} of {of}")
        if isinstance(a, int):
            return a >> low & mask(width)
        return a if width == of else self._extract(a, low, width, of)

    def truncate(self, a: Bits, width: int, of: int) -> Bits:
        """The lowest bits."""
        return self.extract(a, 0, width, of)

    def zero_extend(self, a: Bits, of: int, width: int) -> Bits:
        """The same number with more bits."""
        return a if isinstance(a, int) or of == width else self._zero_extend(a, of, width)

    def sign_extend(self, a: Bits, of: int, width: int) -> Bits:
        """The same two's complement number with more bits."""
        if isinstance(a, int):
            return signed(a, of) & mask(width)
        return a if of == width else self._sign_extend(a, of, width)

    def concat(self, parts: Sequence[tuple[Bits, int]]) -> Bits:
        """The concatenation of strings with their widths, the lowest bits first."""
        if len(parts) == 1:
            return parts[0][0]
        whole, at = 0, 0
        for bits, width in parts:
            if not isinstance(bits, int):
                return self._concat(parts)
            whole |= bits << at
            at += width
        return whole

    def swap(self, a: Bits, width: int) -> Bits:
        """The bytes in reverse order."""
        size = width // 8
        if isinstance(a, int):
            return int.from_bytes(a.to_bytes(size, "little"), "big")
        return self.concat(
            [(self.extract(a, 8 * (size - 1 - i), 8, width), 8) for i in range(size)]
        )

    def choose(self, condition: Truth, a: Bits, b: Bits, width: int) -> Bits:
        """`a` where the condition holds, else `b`."""
        if isinstance(condition, bool):
            return a if condition else b
        return self._choose(condition, a, b, width)

    def no(self, a: Truth) -> Truth:
        """The negation."""
        return not a if isinstance(a, bool) else self._no(a)

    def both(self, a: Truth, b: Truth) -> Truth:
        """The conjunction of two truths."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self._both(a, b)

    def either(self, a: Truth, b: Truth) -> Truth:
        """The disjunction of two truths."""
        return self.no(self.both(self.no(a), self.no(b)))

    @abstractmethod
    def _binary(self, op: Op, a: Bits, b: Bits, width: int) -> Bits: ...

    @abstractmethod
    def _compare(self, cmp: Cmp, a: Bits, b: Bits, width: int) -> Truth: ...

    @abstractmethod
    def _extract(self, a: Term, low: int, width: int, of: int) -> Bits: ...

    @abstractmethod
    def _zero_extend(self, a: Term, of: int, width: int) -> Bits: ...

    @abstractmethod
    def _sign_extend(self, a: Term, of: int, width: int) -> Bits: ...

    @abstractmethod
    def _concat(self, parts: Sequence[tuple[Bits, int]]) -> Bits: ...

    @abstractmethod
    def _choose(self, condition: Term, a: Bits, b: Bits, width: int) -> Bits: ...

    @abstractmethod
    def _no(self, a: Term) -> Truth: ...

    @abstractmethod
    def _both(self, a: Term, b: Term) -> Truth: ...


class Numbers(Domain):
    """Numbers only: a term is an internal error."""

    def _refuse(self) -> InternalError:
        return InternalError("a term where everything is a number")

    def _binary(self, op: Op, a: Bits, b: Bits, width: int) -> Bits:
        raise self._refuse()

    def _compare(self, cmp: Cmp, a: Bits, b: Bits, width: int) -> Truth:
        raise self._refuse()

    def _extract(self, a: Term, low: int, width: int, of: int) -> Bits:
        raise self._refuse()

    def _zero_extend(self, a: Term, of: int, width: int) -> Bits:
        raise self._refuse()

    def _sign_extend(self, a: Term, of: int, width: int) -> Bits:
        raise self._refuse()

    def _concat(self, parts: Sequence[tuple[Bits, int]]) -> Bits:
        raise self._refuse()

    def _choose(self, condition: Term, a: Bits, b: Bits, width: int) -> Bits:
        raise self._refuse()

    def _no(self, a: Term) -> Truth:
        raise self._refuse()

    def _both(self, a: Term, b: Term) -> Truth:
        raise self._refuse()


NUMBERS = Numbers()


def number(bits: Bits) -> int:
    """The number of a value in a domain without terms."""
    if isinstance(bits, int):
        return bits
    raise InternalError("a term where everything is a number")
