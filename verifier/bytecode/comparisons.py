# SPDX-License-Identifier: Apache-2.0
"""Comparisons as nodes: reduced to the parts that can differ; a choice is compared arm by arm.

There are three comparisons: equal, and less with and without signs. "At most" is the negation of
"greater".
"""

from typing import Any

from policyc.verifier.bytecode.nodes import ADD, CONCAT, EQ, ITE, SLT, SUB, ULT, XOR, Node
from policyc.verifier.bytecode.slices import Slices, parts, size, zeros_below
from policyc.verifier.bytecode.values import Bits, Cmp, Truth, mask

_COMPARED = {EQ: Cmp.EQ, ULT: Cmp.ULT, SLT: Cmp.SLT}
_Key = tuple[str, Node, int]


class Comparisons(Slices):
    """EQ, ULT, SLT and the comparisons derived from them."""

    def __init__(self) -> None:
        super().__init__()
        self._of_choices: dict[_Key, Truth] = {}

    def _compare(self, cmp: Cmp, a: Bits, b: Bits, width: int) -> Truth:
        match cmp:
            case Cmp.EQ:
                return self._equal(a, b, width)
            case Cmp.ULT:
                return self._below(a, b, width)
            case Cmp.ULE:
                return self.no(self._below(b, a, width))
            case Cmp.SLT:
                return self._below_signed(a, b, width)
            case Cmp.SLE:
                return self.no(self._below_signed(b, a, width))

    def equal(self, a: Bits, b: Bits, width: int) -> Truth:
        """Whether two bit strings are equal."""
        return self.compare(Cmp.EQ, a, b, width)

    # --- equal ----------------------------------------------------------------------------------

    def _equal(self, a: Any, b: Any, width: int) -> Truth:
        if a is b:
            return True
        if isinstance(a, int):
            a, b = b, a
        if _is_concat(a) and (isinstance(b, int) or _is_concat(b)):
            return self._equal_parts(a, b, width)
        if isinstance(b, int):
            return self._equal_to_number(a, b, width)
        narrow = max(size(a, width), size(b, width))
        if narrow < width or _is_concat(a) or _is_concat(b):
            return self._equal_ends(a, b, width)
        found = self._equal_choice(a, b, width)
        if found is not None:
            return found
        if a.op is b.op is ADD and _is_same(a.args[1], b.args[1]):
            return self.equal(a.args[0], b.args[0], width)
        one, other = (a, b) if a.number < b.number else (b, a)
        return self.nodes.node(EQ, 0, one, other)

    def _equal_parts(self, a: Bits, b: Bits, width: int) -> Truth:
        """Equality of all parts, cut where either bit string is a concatenation."""
        found: list[Truth] = []
        for mine, theirs, here in self.cut_alike(a, b, width):
            same = self.equal(mine, theirs, here)
            if same is False:
                return False
            found.append(same)
        return self.all_of(found)

    def _equal_ends(self, a: Node, b: Node, width: int) -> Truth:
        """Equality if one side is a concatenation: its known end parts apart, the rest as it is."""
        whole, other = (a, b) if _is_concat(a) else (b, a)
        known: list[Truth] = []
        low = 0
        rest: list[tuple[Bits, int]] = []
        left: list[tuple[Bits, int]] = []
        for bits, of in parts(whole, width):
            there = self.extract(other, low, of, width)
            if isinstance(bits, int):
                known.append(self.equal(there, bits, of))
            else:
                rest.append((bits, of))
                left.append((there, of))
            low += of
        one, two = self.concat(rest), self.concat(left)
        of = sum(each for _, each in rest)
        if of == width:
            first, second = (a, b) if a.number < b.number else (b, a)
            return self.nodes.node(EQ, 0, first, second)
        return self.all_of([*known, self.equal(one, two, of)])

    def _equal_to_number(self, a: Node, number: int, width: int) -> Truth:
        op = a.op
        if op is ITE:
            return self._of_choice(EQ, a, number, width)
        if type(a.args[-1]) is int:
            if op is ADD:
                return self.equal(a.args[0], number - a.args[1] & mask(width), width)
            if op is XOR:
                return self.equal(a.args[0], number ^ a.args[1], width)
        if op is SUB and number == 0:
            return self.equal(a.args[0], a.args[1], width)
        if op is SUB and type(a.args[0]) is int:
            return self.equal(a.args[1], a.args[0] - number & mask(width), width)
        if width == 1 and number == 0:
            return self.no(self.equal(a, 1, 1))
        return self.nodes.node(EQ, 0, a, number)

    def _equal_choice(self, a: Node, b: Node, width: int) -> Truth | None:
        """Equality with a choice that has the other side among its arms."""
        for one, other in ((a, b), (b, a)):
            if one.op is ITE:
                condition, first, second = one.args
                if first is other:
                    return self.either(condition, self.equal(second, other, width))
                if second is other:
                    return self.either(self.no(condition), self.equal(first, other, width))
        return None

    # --- less -----------------------------------------------------------------------------------

    def _below(self, a: Any, b: Any, width: int) -> Truth:
        if a is b:
            return False
        narrow = max(size(a, width), size(b, width))
        if narrow < width:
            a, b = (self.truncate(each, narrow, width) for each in (a, b))
            return self.compare(Cmp.ULT, a, b, narrow)
        if isinstance(b, int):
            if b == 0:
                return False
            if b == 1:
                return self.equal(a, 0, width)
            if b == mask(width):
                return self.no(self.equal(a, b, width))
            if a.op is ITE:
                return self._of_choice(ULT, a, b, width)
            zeros = zeros_below(b, width)
            if zeros:  # the value of those bits does not matter
                upper = self.extract(a, zeros, width - zeros, width)
                return self.compare(Cmp.ULT, upper, b >> zeros, width - zeros)
        if isinstance(a, int):
            return a < mask(width) and self.no(self._below(b, a + 1, width))
        if width == 1:
            return self.both(self.equal(a, 0, 1), self.equal(b, 1, 1))
        found = self._below_by_parts(a, b, width)
        return found if found is not None else self.nodes.node(ULT, 0, a, b)

    def _below_by_parts(self, a: Bits, b: Bits, width: int) -> Truth | None:
        """Less by the upper parts if they are known; by the lower parts if the upper ones are equal."""
        if isinstance(a, Node) and isinstance(b, Node) and b.op is ADD and b.args[1] == 1:
            one_less: Bits = b.args[0]
            if size(one_less, width) < width:  # so it does not overflow
                return self.no(self.compare(Cmp.ULT, one_less, a, width))
        if not (_is_concat(a) or _is_concat(b)):
            return None
        cut = list(self.cut_alike(a, b, width))
        if len(cut) < 2:
            return None
        mine, theirs, top = cut[-1]
        rest = width - top
        if _is_same(mine, theirs):
            one, other = (self.truncate(each, rest, width) for each in (a, b))
            return self.compare(Cmp.ULT, one, other, rest)
        if isinstance(mine, int) and isinstance(theirs, int):
            return mine < theirs
        mine, theirs, lowest = cut[0]
        is_less = self.compare(Cmp.ULT, mine, theirs, lowest)
        if is_less is False:
            one, other = (self.extract(each, lowest, width - lowest, width) for each in (a, b))
            return self.compare(Cmp.ULT, one, other, width - lowest)
        if is_less is True:
            one, other = (self.extract(each, lowest, width - lowest, width) for each in (a, b))
            return self.compare(Cmp.ULE, one, other, width - lowest)
        return None

    def _below_signed(self, a: Any, b: Any, width: int) -> Truth:
        if a is b:
            return False
        if isinstance(a, int) and isinstance(b, int):
            return self.compare(Cmp.SLT, a, b, width)
        if size(a, width) < width and size(b, width) < width:
            return self._below(a, b, width)
        if isinstance(a, int):
            if a == mask(width - 1):
                return False  # no value is above the largest
            return self.no(self._below_signed(b, a + 1 & mask(width), width))
        if isinstance(b, int):
            if a.op is ITE:
                return self._of_choice(SLT, a, b, width)
            if b == 0:
                return self.equal(self.extract(a, width - 1, 1, width), 1, 1)
            if size(a, width) < width:  # it is not negative, the number is
                return False
        return self.nodes.node(SLT, 0, a, b)

    def _of_choice(self, op: str, choice: Node, number: int, width: int) -> Truth:
        """A choice compared with a number: arm by arm, if one of the arms is known."""
        key = (op, choice, number)
        found = self._of_choices.get(key)
        if found is not None:
            return found
        condition, one, other = choice.args
        if isinstance(one, int) or isinstance(other, int):
            here, there = (self._beside(op, each, number, width) for each in (one, other))
            found = self.either(self.both(condition, here), self.both(self.no(condition), there))
        else:
            found = self.nodes.node(op, 0, choice, number)
        self._of_choices[key] = found
        return found

    def _beside(self, op: str, bits: Bits, number: int, width: int) -> Truth:
        return self.compare(_COMPARED[op], bits, number, width)

    def _sign(self, node: Node) -> Truth | None:
        """Branchless code uses the sign of a difference; the equivalent comparison is much smaller."""
        width = node.width
        one, other = node.args
        if node.op is SUB:
            if max(size(one, width), size(other, width)) < width:
                return self.compare(Cmp.ULT, one, other, width)
        elif isinstance(other, int) and other >> (width - 1) and size(one, width) < width:
            return self.compare(Cmp.ULT, one, (1 << width) - other, width)
        return None


def _is_concat(bits: Bits) -> bool:
    return isinstance(bits, Node) and bits.op is CONCAT


def _is_same(one: Bits, other: Bits) -> bool:
    return one is other or (isinstance(one, int) and isinstance(other, int) and one == other)
