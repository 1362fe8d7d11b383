# SPDX-License-Identifier: Apache-2.0
"""The value of nodes under known variables: a number, or a truth value as 0 or 1.

Written without the rewritings, so that each can be checked against the other.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from policyc.verifier.bytecode.nodes import (
    ALL,
    CONCAT,
    EQ,
    EXTRACT,
    ITE,
    NOT,
    SIGN,
    SLT,
    ULT,
    VARIABLE,
    Node,
)
from policyc.verifier.bytecode.values import NUMBERS, Op, mask, number, signed

Values = dict[Node, int]
"""The value of each node."""


def evaluate(nodes: Iterable[Node], values: Values) -> None:
    """Add the values of nodes to `values`.

    The nodes come in an order with operands first; variables have values already.
    """
    for node in nodes:
        if node not in values:
            values[node] = value_of(node, values)


def value_of(node: Node, values: Mapping[Node, int]) -> int:
    """The value of a node whose operands have values. KeyError for a variable."""
    if node.op is VARIABLE:
        return values[node]
    return _MEANINGS[node.op](node, values)


def known(bits: Any, values: Mapping[Node, int]) -> int:
    """The value of a node, or of a number or truth value itself."""
    return values[bits] if type(bits) is Node else int(bits)


def _not(node: Node, values: Mapping[Node, int]) -> int:
    return 1 - values[node.args[0]]


def _all(node: Node, values: Mapping[Node, int]) -> int:
    return int(all(values[each] for each in node.args))


def _ite(node: Node, values: Mapping[Node, int]) -> int:
    condition, one, other = node.args
    return known(one if values[condition] else other, values)


def _extract(node: Node, values: Mapping[Node, int]) -> int:
    inner, low = node.args
    return values[inner] >> int(low) & mask(node.width)


def _concat(node: Node, values: Mapping[Node, int]) -> int:
    found, at = 0, 0
    args = node.args
    for place in range(0, len(args), 2):
        found |= known(args[place], values) << at
        at += args[place + 1]
    return found


def _sign(node: Node, values: Mapping[Node, int]) -> int:
    inner: Node = node.args[0]
    return signed(values[inner], inner.width) & mask(node.width)


def _eq(node: Node, values: Mapping[Node, int]) -> int:
    one, other = node.args
    return int(known(one, values) == known(other, values))


def _ult(node: Node, values: Mapping[Node, int]) -> int:
    one, other = node.args
    return int(known(one, values) < known(other, values))


def _slt(node: Node, values: Mapping[Node, int]) -> int:
    one, other = (signed(known(each, values), node.of_width) for each in node.args)
    return int(one < other)


def _computed(op: Op) -> "_Meaning":
    def compute(node: Node, values: Mapping[Node, int]) -> int:
        one, other = (known(each, values) for each in node.args)
        return number(NUMBERS.binary(op, one, other, node.width))

    return compute


_Meaning = Callable[[Node, Mapping[Node, int]], int]
_MEANINGS: Mapping[str, _Meaning] = {
    NOT: _not,
    ALL: _all,
    ITE: _ite,
    EXTRACT: _extract,
    CONCAT: _concat,
    SIGN: _sign,
    EQ: _eq,
    ULT: _ult,
    SLT: _slt,
    **{op.value: _computed(op) for op in Op},
}
