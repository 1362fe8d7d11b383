# SPDX-License-Identifier: Apache-2.0
"""The data lemma: the seeds, read through the lookup plan, are the Decision IR.

For each direction in use, every (row, column) of the Decision IR and every service, the word that the
plan finds in the seeds is the leaf of the rule diagram. For every address, the column is that of its
atom. The proof uses step functions: both sides are cut at all keys where either changes. No solver is
used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from policyc.ir.atoms import AddressColumn
from policyc.ir.decision import NOT_ISOLATED_RULE, DecisionIR, Diagram
from policyc.ir.plan import AddressLayout, DirectionPlan, LookupPlan
from policyc.ir.services import Service
from policyc.ir.trees import (
    LEAF,
    verdict_word,
)
from policyc.verifier.decision.outcome import Broken
from policyc.verifier.translation.asked_services import (
    as_asked,
    as_wanted,
)
from policyc.verifier.translation.cell_tables import CellWords, cell_words
from policyc.verifier.translation.searches import (
    HALF_BITS,
    LAST_KEY,
    Searches,
    column_of,
    under_roots,
)
from policyc.verifier.translation.seeded import Prefixes, SeedError, SeedTable
from policyc.verifier.translation.steps import Piece, Steps, first_difference, joined, value_at
from policyc.verifier.translation.tries import longest_prefixes

LEMMA = "data"


@dataclass
class DataLemma:
    """The lemma over one generation's tables, by the names of their maps."""

    decision: DecisionIR
    plan: LookupPlan
    tables: Mapping[str, SeedTable]
    tries: Mapping[str, Prefixes] = field(default_factory=dict)
    _agreed: set[tuple[int, int]] = field(default_factory=set)
    _seen: dict[int, Steps] = field(default_factory=dict)

    def faults(self) -> Iterator[Broken]:
        """The faults, one after the other; none if the lemma holds."""
        try:
            for direction in self.plan.directions.values():
                if not direction.is_used:
                    yield from self._unused(direction)
                    continue
                yield from self._cells(direction)
                yield from self._addresses(direction)
        except SeedError as fault:
            yield Broken(LEMMA, str(fault))

    @cached_property
    def searches(self) -> Searches:
        """The searches in the nodes of this generation."""
        return Searches(self.tables["pc_nodes"], self.plan.rounds, self.plan.has_fans)

    def _cells(self, direction: DirectionPlan) -> Iterator[Broken]:
        words = cell_words(direction, self.tables)
        if not words.are_spare_empty(direction.rows.used, direction.columns.used):
            yield Broken(LEMMA, "there are words for unused ids", direction.direction)
        table = self.decision.table(direction.direction)
        done: set[tuple[int, int]] = set()  # rows that were decided together are one object
        for row, at in enumerate(direction.row_ids):
            if (id(table[row]), at) in done:
                continue
            done.add((id(table[row]), at))
            yield from self._row(direction, words, row, at)

    def _unused(self, direction: DirectionPlan) -> Iterator[Broken]:
        """A direction that the program does not evaluate: every peer is allowed, as not isolated."""
        allowed = ((0, verdict_word(True, NOT_ISOLATED_RULE)),)
        for row, cells in enumerate(self.decision.table(direction.direction)):
            wrong = [column for column, cell in enumerate(cells) if self._diagram(cell) != allowed]
            if wrong:
                mask = sum(1 << column for column in wrong)
                what = "the plan does not ask, and not all is allowed"
                yield Broken(LEMMA, what, direction.direction, row, mask)
                return

    def _row(
        self, direction: DirectionPlan, words: CellWords, row: int, at: int
    ) -> Iterator[Broken]:
        cells = self.decision.table(direction.direction)[row]
        found = words.of_row(at, direction.column_ids)
        for cell, word in sorted(set(zip(cells, found, strict=True)) - self._agreed):
            key = self._difference(cell, word)
            if key is None:
                self._agreed.add((cell, word))
                continue
            columns = zip(cells, found, strict=True)
            mask = sum(1 << c for c, pair in enumerate(columns) if pair == (cell, word))
            said = value_at(self._seen[word], key)
            what = f"the seeds give {Service.from_key(key)} the word {said:#010x}"
            yield Broken(LEMMA, what, direction.direction, row, mask, key=key)

    def _difference(self, cell: int, word: int) -> int | None:
        """A service key on which the seeds and the rule diagram of a cell differ."""
        wanted, seen = self._wanted[cell], self._seen.get(word)
        if seen is None:
            seen = self._seen[word] = as_asked(self._steps(word), self.plan.distinguished)
        return None if seen == wanted else first_difference(seen, wanted)

    def _steps(self, word: int) -> Steps:
        if word in self.codes:
            return self.codes[word]
        return ((0, word),) if word & LEAF else self.searches.service(word)

    @cached_property
    def codes(self) -> dict[int, Steps]:
        """The diagrams of code words: the code lemma proves that the code implements them."""
        codes = set(self.plan.code_words)
        return {
            word: self._diagram(cell)
            for cell, word in enumerate(self.plan.cell_words)
            if word in codes
        }

    @cached_property
    def _wanted(self) -> list[Steps]:
        """The required words of each cell's services."""
        return [as_wanted(self._diagram(cell)) for cell in range(len(self.decision.cells))]

    def _diagram(self, cell: int) -> Steps:
        diagram = self.decision.diagrams[self.decision.cells[cell].rule]
        return verdict_steps(self.decision, diagram)

    def _addresses(self, direction: DirectionPlan) -> Iterator[Broken]:
        for family, address in direction.addresses.items():
            wanted = tuple(self._atom_columns(direction, family))
            match address.layout:
                case AddressLayout.CONSTANT | AddressLayout.CODE:
                    found: Steps = address.runs
                case AddressLayout.LPM:
                    found = self._prefixed(f"pc_cidr{family}_{direction.short}")
                case _:
                    found = self._searched(direction, family)
            if found == wanted:
                continue
            yield _misplaced(direction, family, found, wanted)

    def _prefixed(self, name: str) -> Steps:
        if name not in self.tries:
            raise SeedError(f"there is no {name}")
        return longest_prefixes(self.tries[name])

    def _searched(self, direction: DirectionPlan, family: int) -> Steps:
        """The columns of all addresses of a family, found by searches in nodes."""
        address, search = direction.addresses[family], self.searches
        rounds = address.rounds
        name = f"pc_root{family}_{direction.short}"
        roots = self.tables.get(name)
        if bool(address.roots) != (roots is not None):
            raise SeedError(f"{name} is not as the plan says")
        if family == 6:
            pieces: Iterable[Piece] = search.long(address.root, rounds)
        elif roots is None:
            pieces = search.search(address.root, 0, LAST_KEY, rounds[0])
        elif address.layout is AddressLayout.FANS:
            pieces = under_roots(
                roots, HALF_BITS, lambda word, at, _: search.half(word, at, rounds[0])
            )
        else:
            find = partial(search.search, rounds=rounds[0])
            pieces = under_roots(roots, address.root_bits, find)
        return joined((first, column_of(word)) for first, word in pieces)

    def _atom_columns(self, direction: DirectionPlan, family: int) -> Iterable[tuple[int, int]]:
        atoms = self.decision.atoms
        index = atoms.column_index
        runs = atoms.classifier.addresses[family].runs()
        ids = direction.column_ids
        return joined((first, ids[index[AddressColumn(family, atom)]]) for first, _, atom in runs)


def _misplaced(direction: DirectionPlan, family: int, found: Steps, wanted: Steps) -> Broken:
    """The first address whose column is not that of its atom."""
    at = first_difference(found, wanted)
    what = f"the seeds give it the column {value_at(found, at)}, not {value_at(wanted, at)}"
    return Broken(LEMMA, what, direction.direction, family=family, address=at)


def verdict_steps(decision: DecisionIR, diagram: Diagram) -> Steps:
    """A rule diagram as the words of its verdicts."""
    rules = decision.rules
    return tuple((lo, verdict_word(not rules[rule].action.is_deny, rule)) for lo, rule in diagram)
