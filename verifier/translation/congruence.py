# SPDX-License-Identifier: Apache-2.0
"""Looks into tables of which nothing is known: equal keys find equal words, and no more is assumed.

What a look finds is a variable. The program's and the reading's are brought together one after the
other: where a key of the program's is proved to be one of the reading's, under the guard of the look,
what both find is the same from then on. So no goal has a table in it, and none is deep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.symbolic.guards import Guard
from policyc.verifier.bytecode.symbolic.surroundings import TableRead
from policyc.verifier.bytecode.values import Bits
from policyc.verifier.bytecode.z3_domain import Z3Domain
from policyc.verifier.z3_when_used import z3

_Spot = tuple[str, Any, Any]
PLAIN_MS, CLAIM_MS = 3000, 60000


@dataclass
class Looks:
    """The looks that a reading makes, each once."""

    domain: Z3Domain
    made: list[TableRead] = field(default_factory=list)
    _known: dict[_Spot, Any] = field(default_factory=dict)

    def look(self, name: str, key: Bits, offset: Bits | None) -> Any:
        """The variable for what is found; as `TableRead` has it."""
        spot = (name, _identity(key), _identity(offset))
        found = self._known.get(spot)
        if found is None:
            title = f"reading {name} #{len(self.made)}"
            found = z3.Bool(title) if offset is None else z3.BitVec(title, 32)
            self._known[spot] = found
            self.made.append(TableRead(name, Guard(), key, offset, found))
        return found


def _identity(value: Any) -> Any:
    return value.get_id() if hasattr(value, "get_id") else ("number", value)


@dataclass
class Congruence:
    """Which look of the program is which of the reading's; `now` puts the latter's variables into terms.

    A variable of the program's counts only where the look was made: where it was not, every way that
    joins takes another value (`symbolic/merging.py`). So it may be put for the other everywhere, though
    both are the same under the guard alone.
    """

    domain: Z3Domain
    facts: Sequence[Any] = ()
    """What is so of every flow that is looked at."""
    known: Sequence[tuple[Any, Any]] = ()
    """Variables, and what they are of these flows."""
    unmatched: list[TableRead] = field(default_factory=list)
    _found: list[tuple[Any, Any]] = field(default_factory=list)
    _asked: dict[int, tuple[Any, bool]] = field(default_factory=dict)

    @property
    def n_matched(self) -> int:
        """How many looks of the program are known by now."""
        return len(self._found)

    def now(self, term: Any) -> Any:
        """A term with what is known of these flows, and the variables of the reading."""
        pairs = (*self.known, *self._found)
        return z3.simplify(z3.substitute(term, *pairs)) if pairs else term

    def bring_together(self, program: Sequence[TableRead], reading: Sequence[TableRead]) -> None:
        """Find for each look of the program the one of the reading that has its key, if any has."""
        by_map: dict[str, list[TableRead]] = {}
        for look in reading:
            by_map.setdefault(look.map, []).append(look)
        for look in program:
            found = self._partner(look, by_map.get(look.map, []))
            if found is None:
                self.unmatched.append(look)
            else:
                self._found.append((look.found, found.found))

    def _partner(self, look: TableRead, candidates: Sequence[TableRead]) -> TableRead | None:
        """The first candidate with the same key; a model that tells one apart is tried on the others."""
        left = [
            (each, differences)
            for each in candidates
            if (differences := self._differences(look, each)) is not None
        ]
        guard = self.now(look.guard.term())
        model = None
        while left:
            candidate, differ = left[0]
            if not differ or (model is not None and all(map(self._never, differ))):
                return candidate
            claims = (guard,) if model is None else (guard, z3.Or(*differ))
            model = self.model(*claims)
            if model is None:
                return candidate
            left = [(each, how) for each, how in left if not _tells_apart(model, how)]
        return None

    def _never(self, difference: Any) -> bool:
        """`_is_plain` of one term, asked once."""
        found = self._asked.get(difference.get_id())
        if found is None:
            found = difference, self._is_plain([difference])
            self._asked[difference.get_id()] = found
        return found[1]

    def _is_plain(self, differences: Sequence[Any]) -> bool:
        """Whether the keys are the same whatever the guard says: most are, and that is soon told."""
        solver = z3.SolverFor("QF_BV")
        solver.set("timeout", PLAIN_MS)
        solver.add(z3.Or(*differences), *self.facts)
        return bool(solver.check() == z3.unsat)

    def model(self, *claims: Any) -> Any:
        """A model of all claims, None where there is none. InternalError where Z3 gives up."""
        solver = z3.SolverFor("QF_BV")
        solver.set("timeout", CLAIM_MS)
        solver.add(*claims, *self.facts)
        answer = solver.check()
        if answer == z3.unknown:
            raise InternalError(f"the solver gave up: {solver.reason_unknown()}")
        return solver.model() if answer == z3.sat else None

    def _differences(self, one: TableRead, other: TableRead) -> list[Any] | None:
        """Terms of which one holds where the keys or offsets differ; None where they surely do."""
        if (one.offset is None) != (other.offset is None):
            return None
        pairs: list[tuple[Any, Any]] = [(one.key, other.key), (_offset(one), _offset(other))]
        found = []
        for mine, theirs in pairs:
            if isinstance(mine, int) and isinstance(theirs, int):
                if mine != theirs:
                    return None
                continue
            width = next(each.size() for each in (mine, theirs) if not isinstance(each, int))
            left, right = (self.now(self.domain.lift(each, width)) for each in (mine, theirs))
            if not left.eq(right):
                found.append(left != right)
        return found


def _tells_apart(model: Any, differences: Sequence[Any]) -> bool:
    return any(z3.is_true(model.eval(each, model_completion=True)) for each in differences)


def _offset(look: TableRead) -> Bits:
    return 0 if look.offset is None else look.offset
