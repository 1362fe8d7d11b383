# SPDX-License-Identifier: Apache-2.0
"""Truth values as nodes: negations, and conjunctions without a part that another part implies.

A disjunction is the negation of a conjunction of negations.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from policyc.verifier.bytecode.nodes import ALL, EQ, NOT, Node, Nodes
from policyc.verifier.bytecode.values import Domain, Truth

MOST_PARTS = 32
"""A conjunction with more parts is not flattened when it becomes a part itself."""
_number = attrgetter("number")


def parts_of(truth: Node) -> tuple[Node, ...]:
    """The conjuncts of a truth."""
    return truth.args if truth.op is ALL and len(truth.args) <= MOST_PARTS else (truth,)


class Truths(Domain):
    """The operations on truths, over the nodes of one run."""

    def __init__(self) -> None:
        self.nodes = Nodes()

    def _no(self, a: Any) -> Truth:
        return self.contrary(a)

    def contrary(self, truth: Node) -> Node:
        """The negation."""
        if truth.contrary is None:
            truth.contrary = self.nodes.node(NOT, 0, truth)
            truth.contrary.contrary = truth
        return truth.contrary

    def _both(self, a: Any, b: Any) -> Truth:
        return a if a is b else self._all({*parts_of(a), *parts_of(b)})

    def all_of(self, truths: Iterable[Truth]) -> Truth:
        """The conjunction."""
        found: set[Node] = set()
        for each in truths:
            if isinstance(each, Node):
                found.update(parts_of(each))
            elif not each:
                return False
        return self._all(found)

    def any_of(self, truths: Iterable[Truth]) -> Truth:
        """The disjunction."""
        return self.no(self.all_of(self.no(each) for each in truths))

    def same(self, a: Truth, b: Truth) -> Truth:
        """Whether two truths are equal."""
        return self.either(self.both(a, b), self.both(self.no(a), self.no(b)))

    def _all(self, parts: set[Node]) -> Truth:
        if len(parts) > 1:
            shorter = self._shorter(parts)
            if shorter is None:
                return False
            if shorter is not parts:
                return self._all(shorter)
        if not parts:
            return True
        if len(parts) == 1:
            return next(iter(parts))
        if len(parts) == 2:
            resolved = self._resolved(*parts)
            if resolved is not None:
                return resolved
        return self.nodes.node(ALL, 0, *sorted(parts, key=_number))

    def _shorter(self, parts: set[Node]) -> set[Node] | None:
        """Parts without redundant ones, or with smaller ones; None if they cannot all hold."""
        numbers: dict[Node, int] = {}
        for part in parts:
            if part.op is NOT:
                if part.args[0] in parts:
                    return None
            elif part.op is EQ and type(part.args[1]) is int:
                value, number = part.args
                if numbers.setdefault(value, number) != number:
                    return None
        for part in parts:
            if part.op is not NOT:
                continue
            denied: Node = part.args[0]
            if denied.op is EQ:
                value, number = denied.args
                if type(number) is int and numbers.get(value, number) != number:
                    return parts - {part}
            elif denied.op is ALL:
                left = self._still_open(denied, parts)
                if left is None:
                    return parts - {part}
                if not left:
                    return None
                if len(left) < len(denied.args):
                    return self._less(parts - {part}, left)
        return parts

    def _still_open(self, denied: Node, parts: set[Node]) -> set[Node] | None:
        """The conjuncts that `parts` do not imply; None if `parts` contradict them."""
        left: set[Node] = set()
        for each in denied.args:
            if each in parts:
                continue
            if each.contrary is not None and each.contrary in parts:
                return None
            left.add(each)
        return left

    def _less(self, parts: set[Node], left: set[Node]) -> set[Node] | None:
        """`parts`, and that not all of the rest holds."""
        truth = self.no(self._all(left))
        if isinstance(truth, Node):
            return parts.union(parts_of(truth))
        return parts if truth else None

    def _resolved(self, one: Node, other: Node) -> Truth | None:
        """(a or b) and (a or not b) is a; None for anything else."""
        if one.op is not NOT or other.op is not NOT:
            return None
        mine, theirs = set(parts_of(one.args[0])), set(parts_of(other.args[0]))
        if len(mine) != len(theirs):
            return None
        here, there = mine - theirs, theirs - mine
        if len(here) == 1 and here.pop() is there.pop().contrary:
            return self.no(self._all(mine & theirs))
        return None
