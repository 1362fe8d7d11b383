# SPDX-License-Identifier: Apache-2.0
"""Decide the rows that changed policies select, and merge them with the verdicts of all other rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, chain

from policyc.compiler.driver.rebuild.facts import PolicyFacts
from policyc.compiler.driver.rebuild.policies import Policies
from policyc.compiler.driver.rebuild.record import Default, Record
from policyc.ir.bits import members
from policyc.ir.decision import (
    FAIL_CLOSED_RULE,
    NOT_ISOLATED_RULE,
    DecisionIR,
    Diagram,
)
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import FIRST_ROW
from policyc.ir.policy import Direction
from policyc.ir.tables import RESERVED_RULES
from policyc.ir.viewed import Verdicts, ViewedRow, ViewedTable, first_of, viewed_row

_NOT_ISOLATED: Diagram = ((0, NOT_ISOLATED_RULE),)


@dataclass(frozen=True)
class Numbering:
    """The ids of rules: `first` of each policy's, and of each default deny."""

    first: tuple[int, ...]
    defaults: Mapping[Default, int]
    count: int


def numbering_of(facts: Policies, defaults: Iterable[Default]) -> Numbering:
    """The ids of the rules of policies, in their order, and of defaults after them."""
    *first, at = accumulate(facts.rules, initial=len(RESERVED_RULES))
    ids = {default: at + n for n, default in enumerate(defaults)}
    return Numbering(tuple(first), ids, at + len(ids))


def defaults_of(record: Record, facts: Policies) -> list[Default]:
    """The default denies of all rows, in the order of folding."""
    changed = facts.changed.items()
    if all(_isolates(each) == _isolates(record.policies[at]) for at, each in changed):
        return list(record.defaults)
    rows = [members(row.bits) for row in record.partition.rows]
    found: dict[Default, None] = {}
    for direction in Direction:
        isolating = _by_subject(
            (at, each) for at, each in enumerate(facts) if each.reads(direction).is_isolating
        )
        for bits in rows:
            policies = sorted(chain.from_iterable(isolating.get(bit, ()) for bit in bits))
            if policies:
                found[direction, tuple(policies)] = None
    return list(found)


def _isolates(each: PolicyFacts) -> tuple[int, bool, bool]:
    """The subjects that a policy isolates, and the directions."""
    return each.subject, each.ingress.is_isolating, each.egress.is_isolating


def _by_subject(policies: Iterable[tuple[int, PolicyFacts]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at, each in policies:
        found.setdefault(each.subject, []).append(at)
    return found


@dataclass(frozen=True)
class Affected:
    """The rows (indices) to be decided again, and the policies that matter to them."""

    rows: tuple[int, ...]
    policies: tuple[int, ...]


def affected(record: Record, subjects: Mapping[int, int]) -> Affected:
    """The rows that changed policies select, or selected; `subjects` are the current ones, by policy."""
    mask = 0
    for at, subject in subjects.items():
        mask |= 1 << subject | 1 << record.policies.subjects[at]
    rows = [(at, row.bits) for at, row in enumerate(record.partition.rows) if row.bits & mask]
    selected = 0
    for _, bits in rows:
        selected |= bits
    policies = [
        at
        for at, subject in enumerate(record.policies.subjects)
        if at in subjects or selected >> subject & 1
    ]
    return Affected(tuple(at for at, _ in rows), tuple(policies))


@dataclass(frozen=True)
class Anew:
    """The decision on the affected rows alone, with rule ids of its own."""

    decision: DecisionIR
    affected: Affected

    def diagrams(self, facts: Sequence[PolicyFacts], numbering: Numbering) -> list[Diagram]:
        """The rule diagram of each of its cells, with the rule ids of the whole."""
        ids = list(range(len(RESERVED_RULES)))
        for at in self.affected.policies:
            first = numbering.first[at]
            ids += range(first, first + facts[at].n_rules)
        places = {facts[at].title: at for at in self.affected.policies}
        for entry in self.decision.rules[len(ids) :]:
            assert entry.direction is not None
            isolating = tuple(places[name] for name in entry.policies)
            ids.append(numbering.defaults[entry.direction, isolating])
        diagrams = self.decision.diagrams
        return [renamed(diagrams[cell.rule], ids) for cell in self.decision.cells]


def renamed(diagram: Diagram, ids: Sequence[int]) -> Diagram:
    """The diagram with other rule ids."""
    return tuple((lo, ids[rule]) for lo, rule in diagram)


def put_together(
    record: Record,
    facts: Policies,
    numbering: Numbering,
    anew: Anew,
    rules: Sequence[str],
) -> Verdicts:
    """The verdicts of all rows; `rules` are the current ones in words."""
    work = _Together(record, _known_diagrams(record, numbering), anew.diagrams(facts, numbering))
    tables = {}
    for direction in Direction:
        if direction in record.tables:
            tables[direction] = work.table(direction, anew)
        else:  # if no policy applies, all rows have this one cell
            work.ids.setdefault(_NOT_ISOLATED, len(work.ids))
    n_defaults = len(numbering.defaults)
    n_rules = numbering.count - n_defaults - len(RESERVED_RULES)
    allows = [not entry.action.is_deny for entry in RESERVED_RULES]
    allows += [True] * n_rules + [False] * n_defaults
    return Verdicts(rules, allows, tuple(work.ids), tables)


def _known_diagrams(record: Record, numbering: Numbering) -> Sequence[Diagram]:
    """The diagrams of the record, with the current rule ids."""
    before = numbering_of(record.policies, record.defaults)
    if before == numbering:
        return record.diagrams
    ids = list(range(len(RESERVED_RULES)))
    for first, count in zip(numbering.first, record.policies.rules, strict=True):
        ids += range(first, first + count)
    # A default that no row uses any more is in no row that stays.
    ids += [numbering.defaults.get(default, FAIL_CLOSED_RULE) for default in record.defaults]
    return [renamed(diagram, ids) for diagram in record.diagrams]


@dataclass
class _Together:
    """Numbers the cells of all rows by first use, as `ir/decide.py` does."""

    record: Record
    known: Sequence[Diagram]
    new: Sequence[Diagram]
    ids: dict[Diagram, int] = field(default_factory=dict)

    def table(self, direction: Direction, anew: Anew) -> ViewedTable:
        """The table of a direction: the rows decided again, and all others as recorded."""
        before = self.record.tables[direction]
        changed = self._changed(direction, anew)
        rows: list[ViewedRow] = []
        of_row: list[int] = []
        places: dict[int, int] = {}
        for row_id, at in enumerate(before.of_row, start=FIRST_ROW):
            row = changed.get(row_id)
            if row is not None:
                of_row.append(len(rows))
                rows.append(self._with_ids(row, self.new))
                continue
            if at not in places:
                places[at] = len(rows)
                rows.append(self._with_ids(before.rows[at], self.known))
            of_row.append(places[at])
        return ViewedTable(tuple(rows), tuple(of_row))

    def _with_ids(self, row: ViewedRow, diagrams: Sequence[Diagram]) -> ViewedRow:
        ids = self.ids
        cells = [ids.setdefault(diagrams[cell], len(ids)) for cell in row.cells]
        return ViewedRow(tuple(cells), row.parts, row.counts)

    def _changed(self, direction: Direction, anew: Anew) -> dict[int, ViewedRow]:
        """The viewed rows that were decided again, with the decision's own cells."""
        frame = self.record.frames.directions[direction]
        columns = first_of(frame.column_ids)
        found: dict[int, ViewedRow] = {}
        for at, row in zip(anew.affected.rows, anew.decision.table(direction), strict=True):
            if frame.row_ids[at] not in found:
                found[frame.row_ids[at]] = viewed_row([row[column] for column in columns])
        return found
