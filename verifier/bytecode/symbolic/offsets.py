# SPDX-License-Identifier: Apache-2.0
"""Offsets of which only a few are possible: one way each where ways joined, and what was added since."""

from collections.abc import Iterator
from typing import Any

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.values import Bits, Domain, Truth, mask, signed
from policyc.verifier.z3_when_used import z3

MOST = 16
"""Ways: more of them are no choice between members of a struct."""


def places(domain: Domain, offset: Bits) -> list[tuple[Truth, int]]:
    """The signed offsets that are possible, each with its condition. UnmodelledError if too many."""
    found: dict[int, Truth] = {}
    for condition, at in _leaves(domain, offset):
        place = signed(at & mask(64), 64)
        found[place] = domain.either(found[place], condition) if place in found else condition
        if len(found) > MOST:
            raise UnmodelledError("an offset of which too many are possible")
    return [(condition, at) for at, condition in found.items()]


def _leaves(domain: Domain, offset: Any) -> Iterator[tuple[Truth, int]]:
    if isinstance(offset, int):
        yield True, offset
        return
    if offset.decl().kind() == z3.Z3_OP_BNUM:
        yield True, offset.as_long()
        return
    condition = _condition_in(offset)
    if condition is None:
        raise UnmodelledError("an offset that is not known, in memory that needs one")
    for holds in (True, False):
        arm = z3.simplify(z3.substitute(offset, (condition, z3.BoolVal(holds))))
        for deeper, at in _leaves(domain, arm):
            yield domain.both(condition if holds else domain.no(condition), deeper), at


def _condition_in(term: Any) -> Any:
    """The condition of a choice somewhere in a term; None where it has none."""
    work, seen = [term], set()
    while work:
        each = work.pop()
        if each.get_id() in seen:
            continue
        seen.add(each.get_id())
        if each.decl().kind() == z3.Z3_OP_ITE:
            return each.arg(0)
        work += each.children()
    return None
