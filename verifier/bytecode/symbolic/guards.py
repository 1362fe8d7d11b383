# SPDX-License-Identifier: Apache-2.0
"""Under which conditions a place is reached: a conjunction, kept as its parts.

Parts let two guards be compared without a solver: what both have is said once where ways join, and a
condition with its contrary vanishes there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from policyc.verifier.bytecode.values import Truth
from policyc.verifier.z3_when_used import z3

Literal = tuple[int, bool]
"""Which term, by its id in Z3, and whether it holds."""


@dataclass(frozen=True)
class Guard:
    """A conjunction of terms and contraries of terms. Empty: always reached."""

    parts: Mapping[Literal, Any] = field(default_factory=dict)

    def term(self) -> Any:
        """The guard as a term of Z3."""
        found = [_as_term(literal, atom) for literal, atom in self.parts.items()]
        return z3.And(*found) if len(found) != 1 else found[0]

    def but(self, others: "Guard") -> Any:
        """What of it the others do not say."""
        rest = [_as_term(at, atom) for at, atom in self.parts.items() if at not in others.parts]
        return z3.And(*rest) if len(rest) != 1 else rest[0]

    def says(self, truth: Truth) -> bool | None:
        """Whether one of the parts is that, or its contrary; None where neither is."""
        if isinstance(truth, bool):
            return truth
        (at, holds), _ = _literal(truth)
        if (at, holds) in self.parts:
            return True
        return False if (at, not holds) in self.parts else None

    def with_(self, truth: Truth) -> "Guard | None":
        """Where the truth holds, too; None where it cannot."""
        said = self.says(truth)
        if said is not None:
            return self if said else None
        literal, atom = _literal(truth)
        return Guard({**self.parts, literal: atom})


def joined(guards: Iterable[Guard]) -> Guard:
    """Where any of them holds: two at a time, of which no two hold at once."""
    first, *rest = guards
    for each in rest:
        first = _joined(first, each)
    return first


def _joined(one: Guard, other: Guard) -> Guard:
    common = {at: atom for at, atom in one.parts.items() if at in other.parts}
    mine = {at: atom for at, atom in one.parts.items() if at not in common}
    theirs = {at: atom for at, atom in other.parts.items() if at not in common}
    mine, theirs = _without_contrary(mine, theirs)
    if not mine or not theirs:
        return Guard(common)
    either = z3.Or(_all(mine), _all(theirs))
    literal, atom = _literal(either)
    return Guard({**common, literal: atom})


def _without_contrary(
    mine: dict[Literal, Any], theirs: dict[Literal, Any]
) -> tuple[dict[Literal, Any], dict[Literal, Any]]:
    """(c and X) or (not c) is X or (not c); (c) or (not c) is true."""
    for at, holds in list(mine):
        if (at, not holds) in theirs:
            if len(theirs) == 1:
                mine = {key: atom for key, atom in mine.items() if key != (at, holds)}
            elif len(mine) == 1:
                theirs = {key: atom for key, atom in theirs.items() if key != (at, not holds)}
    return mine, theirs


def _all(parts: Mapping[Literal, Any]) -> Any:
    found = [_as_term(literal, atom) for literal, atom in parts.items()]
    return z3.And(*found) if len(found) != 1 else found[0]


def _literal(truth: Any) -> tuple[Literal, Any]:
    holds = True
    while truth.decl().kind() == z3.Z3_OP_NOT:
        truth, holds = truth.arg(0), not holds
    return (truth.get_id(), holds), truth


def _as_term(literal: Literal, atom: Any) -> Any:
    return atom if literal[1] else z3.Not(atom)
