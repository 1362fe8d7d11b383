# SPDX-License-Identifier: Apache-2.0
"""Sweeping: terms over a flow alone that program and reading write differently become one term.

Random inputs distinguish most terms. A solver decides the rest. If two terms are the same for every
flow, the term that was made first stands for both, so the other never has it as a part.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from policyc.verifier.bytecode.nodes import CONCAT, EXTRACT, MUL, VARIABLE, Node, below
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.term_truths import reduced
from policyc.verifier.bytecode.values import Truth
from policyc.verifier.translation.inputs import Inputs
from policyc.verifier.translation.solving import Solving, UndecidedError

LEAST_BITS = 8
"""Narrower terms are equal on too many inputs, and are cheap to prove."""


def sweep(
    domain: TermDomain,
    terms: Iterable[Node],
    now: Substitution,
    inputs: Inputs,
    solving: Solving,
    facts: tuple[Truth, ...],
) -> int:
    """Add a representative for equal terms to `now`; returns how many were replaced."""
    n_found = 0
    for group in _alike(terms, inputs):
        first, *rest = group
        for node in rest:
            one, other = now(first), now(node)
            if one is other:
                continue
            apart = domain.no(domain.equal(one, other, node.width))
            try:
                model = solving.model(domain.all_of((*facts, apart)))
            except UndecidedError:
                continue
            if model is None:
                now.put(node, one)
                n_found += 1
            else:
                inputs.add(model)
    return n_found


def products_as_one(
    domain: TermDomain, goal: Truth, facts: Truth, inputs: Inputs, solving: Solving
) -> Truth:
    """A goal under facts that it has as parts, in which products of the same factors are one.

    For a solver, the equality of two products is hard, and the equality of their factors is easy.
    """
    distinct: set[tuple[Node, Node]] = set()
    while isinstance(goal, Node):
        pair = next(
            (each for each in _pairs_of_products(goal) if each not in distinct),
            None,
        )
        if pair is None:
            break
        one, other = pair
        same = domain.all_of(
            domain.equal(mine, theirs, one.width)
            for mine, theirs in zip(one.args, other.args, strict=True)
        )
        apart = domain.both(facts, domain.no(same))
        if inputs.reach(apart) or not _is_never(domain, apart, solving):
            distinct.add(pair)
        else:
            goal = Substitution(domain, {other: one})(goal)
    return goal


def _is_never(domain: TermDomain, truth: Truth, solving: Solving) -> bool:
    try:
        return solving.model(reduced(domain, truth)) is None
    except UndecidedError:
        return False


def _pairs_of_products(goal: Node) -> Iterator[tuple[Node, Node]]:
    """Pairs of products of one width, in creation order."""
    products = sorted(
        (node for node in below(goal) if node.op is MUL), key=lambda node: node.number
    )
    for at, other in enumerate(products):
        for one in products[:at]:
            if one.width == other.width:
                yield one, other


def _alike(terms: Iterable[Node], inputs: Inputs) -> Iterator[list[Node]]:
    """Terms that no random input distinguishes, in creation order."""
    groups: dict[tuple[int, ...], list[Node]] = defaultdict(list)
    for node in _of_flow(terms, inputs):
        values = inputs.all_of(node)
        if len(set(values)) > 2:
            groups[(node.width, *values)].append(node)
    for group in sorted(groups.values(), key=lambda nodes: nodes[-1].number):
        if len(group) > 1:
            yield sorted(group, key=lambda node: node.number)


def _of_flow(terms: Iterable[Node], inputs: Inputs) -> Iterator[Node]:
    """Terms over the flow alone, without tables, that are more than cut and joined variables."""
    of_tables: set[Node] = set()
    for node in below(*terms):
        if inputs.is_found(node) or any(each in of_tables for each in node.children):
            of_tables.add(node)
        elif node.width >= LEAST_BITS and node.op not in (VARIABLE, EXTRACT, CONCAT):
            yield node
