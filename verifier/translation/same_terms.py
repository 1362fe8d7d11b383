# SPDX-License-Identifier: Apache-2.0
"""Lookups into unknown tables: equal keys find equal words, and nothing else is assumed.

The result of a lookup is a variable. The program's lookups and the reading's are unified one by one: if
a key of the program is proved equal to a key of the reading, under the guard of the lookup, one variable
stands for both results from then on. So no goal contains a table, and no goal is deep. Most keys are
already the same node; for the others, a few sample inputs choose the candidates to prove.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from policyc.verifier.bytecode.nodes import Node, below
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.symbolic.environment import TableRead
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.term_truths import reduced
from policyc.verifier.bytecode.values import Truth
from policyc.verifier.translation.claims import Claim
from policyc.verifier.translation.consistent import Consistent, Found, differ
from policyc.verifier.translation.flow_cases import Case
from policyc.verifier.translation.inputs import Inputs, Spot
from policyc.verifier.translation.solving import Model, Solving, UndecidedError, holding
from policyc.verifier.translation.sweeping import products_as_one, sweep


@dataclass
class SameTerms:
    """The terms of one case; values that were proved equal are one variable.

    A variable of the program is used only if its lookup was made: if it was not, every join of paths
    takes another value (`symbolic/merging.py`). So it may replace the other variable everywhere, though
    both are equal under the guard alone.
    """

    domain: TermDomain
    case: Case
    solving: Solving
    unmatched: list[TableRead] = field(default_factory=list)
    n_matched: int = 0
    gave_up: bool = False
    """Whether a solver could not decide whether two keys are equal."""
    _found: dict[Spot, Node] = field(default_factory=dict)

    @cached_property
    def now(self) -> Substitution:
        """Terms under the facts about this case's flows, and about the lookups so far."""
        return Substitution(self.domain, dict(self.case.known))

    @cached_property
    def inputs(self) -> Inputs:
        """Sample flows and tables that distinguish terms."""
        return Inputs()

    def bring_together(self, program: Sequence[TableRead], reading: Sequence[TableRead]) -> None:
        """Find for each lookup of the program the lookup of the reading that has its key, if any has."""
        self._sweep([*program, *reading])
        for look in reading:
            spot = self._spot(look)
            self.now.put(look.found, self._found.setdefault(spot, look.found))
            self.inputs.learn(look.found, spot)
        of_reading = list(self._found.items())
        for look in program:
            guard = self.now(look.guard.term())
            if guard is False:
                continue  # no flow of the case reaches it
            spot = self._spot(look)
            found = self._found.get(spot)
            if found is None:
                found = self._partner(guard, spot, of_reading)
            if found is None:
                self.unmatched.append(look)
                self.inputs.learn(look.found, spot)
                self._found[spot] = look.found
                continue
            self.n_matched += 1
            self.now.put(look.found, found)

    def _sweep(self, looks: Sequence[TableRead]) -> None:
        """Unify terms over flows before any lookup: service keys above all."""
        terms = [
            each
            for look in looks
            for each in (look.key, look.offset, look.guard.term())
            if isinstance(each, Node)
        ]
        self.inputs.take_hints(below(*terms))
        apart = Inputs(own=frozenset(look.found for look in looks))
        apart.take_hints(below(*terms))
        sweep(self.domain, terms, self.now, apart, self.solving, self.case.facts)

    def _spot(self, look: TableRead) -> Spot:
        return Spot(look.map, self.now(look.key), self.now(look.offset))

    def _partner(self, guard: Truth, spot: Spot, known: Sequence[tuple[Spot, Node]]) -> Node | None:
        """The first lookup of the reading that has the key whenever the program makes its lookup."""
        left = [
            (self.domain.all_of((*self.case.facts, guard, apart)), found)
            for other, found in known
            if (apart := differ(self.domain, spot, other)) is not True
        ]
        for apart, found in left:
            if self.inputs.reach(apart):
                continue
            try:
                model = self.solving.model(self._less(guard, apart))
            except UndecidedError:
                self.gave_up = True
                continue
            if model is None:
                return found
            self.inputs.add(model)
        return None

    def _less(self, guard: Truth, apart: Truth) -> Truth:
        """The same question, simplified under the guard, and with fewer products."""
        less = reduced(self.domain, apart)
        facts = self.domain.all_of((*self.case.facts, guard))
        return products_as_one(self.domain, less, facts, self.inputs, self.solving)

    def _places(self) -> Iterator[Found]:
        """The spots of lookups, each once; the reading makes its lookups always."""
        guards = {look.found: self.now(look.guard.term()) for look in self.unmatched}
        for spot, found in self._found.items():
            yield Found(guards.get(found, True), spot, found)

    def broken(self, claims: Sequence[Claim]) -> Iterator[tuple[Claim, Model]]:
        """Claims that do not hold, each with a model. UndecidedError if no solver can decide."""
        left = [
            (claim, self.domain.all_of((*self.case.facts, self.now(claim.never))))
            for claim in claims
        ]
        tables = Consistent(self.domain, self.solving, list(self._places()))
        while left:
            model = tables.model(self.domain.any_of(never for _, never in left))
            if model is None:
                return
            held = holding(model, [never for _, never in left])
            yield from (
                (claim, model) for (claim, _), is_so in zip(left, held, strict=True) if is_so
            )
            left = [each for each, is_so in zip(left, held, strict=True) if not is_so]
