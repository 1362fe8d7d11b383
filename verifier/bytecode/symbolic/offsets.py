# SPDX-License-Identifier: Apache-2.0
"""Offsets with few possible values: one value for each path that joined, plus what was added since."""

from collections.abc import Iterator

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.nodes import ITE, Node, below
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Truth, mask, signed

MOST = 16
"""The maximal number of paths: more of them are not a choice between members of a struct."""
FEW = 4
"""The number of words of a node among which a branch-free search chooses."""


def places(domain: TermDomain, offset: Bits) -> list[tuple[Truth, int]]:
    """The possible signed offsets, each with its condition. UnmodelledError if there are too many."""
    found: dict[int, Truth] = {}
    for condition, at in _leaves(domain, offset):
        place = signed(at & mask(64), 64)
        found[place] = domain.either(found[place], condition) if place in found else condition
        if len(found) > MOST:
            raise UnmodelledError("an offset of which too many are possible")
    return [(condition, at) for at, condition in found.items()]


def one_of_few(domain: TermDomain, offset: Bits) -> list[tuple[Truth, int]]:
    """The possible offsets, each with its condition; none if they are unknown or too many."""
    found: list[tuple[Truth, int]] = []
    try:
        for leaf in _leaves(domain, offset):
            found.append(leaf)
            if len(found) > FEW:
                return []
    except UnmodelledError:
        return []
    return found


def _leaves(domain: TermDomain, offset: Bits) -> Iterator[tuple[Truth, int]]:
    if isinstance(offset, int):
        yield True, offset
        return
    condition = _condition_in(offset)
    if condition is None:
        raise UnmodelledError("an offset that is not known, in memory that needs one")
    for holds, arm in zip(
        (condition, domain.no(condition)), _arms(domain, offset, condition), strict=True
    ):
        for deeper, at in _leaves(domain, arm):
            yield domain.both(holds, deeper), at


def _arms(domain: TermDomain, offset: Bits, condition: Node) -> tuple[Bits, Bits]:
    """The offset where a condition holds, and where it does not."""
    one, other = (Substitution(domain, {condition: holds})(offset) for holds in (True, False))
    return one, other


def _condition_in(offset: Bits) -> Node | None:
    """The condition of a choice somewhere in a term; None if the term has none."""
    if isinstance(offset, Node):
        for each in reversed(below(offset)):
            if each.op is ITE:
                condition: Node = each.args[0]
                return condition
    return None
