# SPDX-License-Identifier: Apache-2.0
"""Substitution: terms in which some parts are replaced, rewritten bottom-up."""

from collections.abc import Mapping
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
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Cmp, Op

_COMPARED = {EQ: Cmp.EQ, ULT: Cmp.ULT, SLT: Cmp.SLT}


class Substitution:
    """The replacements of nodes, and the cached results for terms.

    More replacements may be added later, for nodes that occur in no term substituted so far.
    """

    def __init__(self, domain: TermDomain, instead: Mapping[Node, Any] | None = None) -> None:
        self.domain = domain
        self._now: dict[Node, Any] = dict(instead or {})

    def put(self, node: Node, instead: Any) -> None:
        """Add a term as the replacement of a node."""
        self._now[node] = instead

    def __call__(self, term: Any) -> Any:
        """A term after substitution; a number or a truth value stays as it is."""
        if type(term) is not Node:
            return term
        now = self._now
        if term not in now:
            work = [term]
            while work:
                node = work[-1]
                if node in now:
                    work.pop()
                    continue
                missing = [each for each in node.args if type(each) is Node and each not in now]
                if missing:
                    work += missing
                    continue
                work.pop()
                now[node] = self._rebuilt(node)
        return now[term]

    def _rebuilt(self, node: Node) -> Any:
        if node.op is VARIABLE:
            return node
        now = self._now
        args = tuple(now[each] if type(each) is Node else each for each in node.args)
        if all(one is other for one, other in zip(args, node.args, strict=True)):
            return node
        return remade(self.domain, node, args)


def remade(domain: TermDomain, node: Node, args: tuple[Any, ...]) -> Any:
    """The operation of a node on other operands."""
    op, width = node.op, node.width
    if op is NOT:
        return domain.no(args[0])
    if op is ALL:
        return domain.all_of(args)
    if op in _COMPARED:
        return domain.compare(_COMPARED[op], args[0], args[1], node.of_width)
    if op is ITE:
        return domain.choose(args[0], args[1], args[2], width)
    if op is EXTRACT:
        return domain.extract(args[0], args[1], width, node.args[0].width)
    if op is CONCAT:
        return domain.concat(list(zip(args[::2], args[1::2], strict=True)))
    if op is SIGN:
        return domain.sign_extend(args[0], node.args[0].width, width)
    return domain.binary(Op(op), args[0], args[1], width)
