# SPDX-License-Identifier: Apache-2.0
"""Hash-consed terms: equal terms are one object (a *node*).

A bit string has a width; a truth value has the width 0. A known value is a Python number or truth value,
not a node. So a node never has operands from which it could have been computed (see the rewritings
around `term_domain.py`).
"""

from collections.abc import Iterator
from typing import Any, Final

VARIABLE: Final = "variable"
NOT: Final = "not"
ALL: Final = "all"
EQ: Final = "eq"
ULT: Final = "ult"
SLT: Final = "slt"
ITE: Final = "ite"
EXTRACT: Final = "extract"
CONCAT: Final = "concat"
SIGN: Final = "sign"
ADD: Final = "add"
SUB: Final = "sub"
MUL: Final = "mul"
UDIV: Final = "udiv"
UMOD: Final = "umod"
OR: Final = "or"
AND: Final = "and"
XOR: Final = "xor"
SHL: Final = "shl"
LSHR: Final = "lshr"
ASHR: Final = "ashr"


class Node:
    """An operation on operands; `number` is the node's position in creation order.

    The operands by operation. A variable has its name. NOT has a truth, ALL has two or more truths,
    ordered by number. EQ, ULT and SLT have two bit strings of one width; in EQ a known number comes
    second. ITE has a truth and two bit strings. EXTRACT has a bit string and the lowest bit. CONCAT has
    each part and its width, the lowest bits first. SIGN (sign extension) has a bit string. The others
    have two operands of the node's width, as `values.Op` defines them.
    """

    __slots__ = ("args", "contrary", "number", "op", "width")

    def __init__(self, op: str, width: int, args: tuple[Any, ...], number: int) -> None:
        self.op, self.width, self.args, self.number = op, width, args, number
        self.contrary: Node | None = None

    @property
    def children(self) -> Iterator["Node"]:
        """The operands that are nodes."""
        return (each for each in self.args if type(each) is Node)

    @property
    def of_width(self) -> int:
        """The width of the operands of a comparison."""
        return max(each.width for each in self.children)

    def __repr__(self) -> str:
        if self.op is VARIABLE:
            return str(self.args[0])
        return f"{self.op}{self.width or ''}#{self.number}"


class Nodes:
    """All nodes of one run, each once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, tuple[Any, ...]], Node] = {}

    def __len__(self) -> int:
        return len(self._made)

    def node(self, op: str, width: int, *args: Any) -> Node:
        """The node of an operation, without rewriting."""
        key = (op, width, args)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Node(op, width, args, len(self._made))
        return found


def below(*roots: Node) -> list[Node]:
    """All nodes under the roots, roots included: operands come before the nodes that use them."""
    found: list[Node] = []
    seen: set[Node] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        work = [(root, root.children)]
        while work:
            node, children = work[-1]
            for child in children:
                if child not in seen:
                    seen.add(child)
                    work.append((child, child.children))
                    break
            else:
                work.pop()
                found.append(node)
    return found


def variables(*roots: Node) -> list[Node]:
    """The variables in terms."""
    return [node for node in below(*roots) if node.op is VARIABLE]
