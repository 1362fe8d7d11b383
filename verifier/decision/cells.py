# SPDX-License-Identifier: Apache-2.0
"""Lemma 3: each cell's diagrams give the action and the rule that the Policy IR gives.

Covers every row, direction, column and service key. Rules that make notes have questions of their own:
where would such a rule match if it decided, and do the ids record it exactly there? The policy's side
reads the row's and the column's signatures (selector bits, blocks, named ports) and the Policy IR.
Columns that a row's rules and cells cannot distinguish are one question (`cell_question.py`), which
names everything that its answer depends on.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from policyc.ir.atoms import NamedNumbers, Row
from policyc.ir.bits import members
from policyc.ir.decision import ALLOW_LEAF, DENY_LEAF, DecisionIR, Diagram, RuleEntry
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, Leaf, leaves
from policyc.ir.policy import Action, Direction, NamedPort, Policy, PolicySet, Rule, Tier, TierMode
from policyc.ir.selectors import OneOf
from policyc.ir.tables import RESERVED_RULES
from policyc.verifier.decision.cell_columns import (
    SignatureColumns,
    equal_columns,
)
from policyc.verifier.decision.cell_question import (
    ALLOW,
    DENY,
    NO_RULE,
    NOT_ISOLATED,
    NOTE,
    PASS,
    CellQuestion,
    RuleWords,
    TierWords,
)
from policyc.verifier.decision.column_parts import ColumnParts
from policyc.verifier.decision.outcome import (
    Broken,
    Obligation,
)
from policyc.verifier.decision.service_questions import (
    AskedWords,
    PortWords,
    asked_words,
    declared,
)

UNKNOWN_RULE = (1 << 32) - 1
_IS_NOTED, _IS_DECIDED = 1, 2
"""The ids in a question about a note, beside NOT_ISOLATED."""
Place = tuple[int, int, int]
"""(tier, policy within the tier, rule within the policy's direction)."""
Selecting = tuple[tuple[int, int], ...]
"""(tier, policy within the tier) of each policy that selects a row, ascending."""
Step = tuple[int, int]
"""The steps of diagrams with renamed rules. Long questions mostly share the same steps and rules."""
Part = tuple[int, int, NamedNumbers]
"""The common data of columns: cell, matching rules (a mask over Frame.places), (egress) named ports."""


@dataclass(frozen=True, slots=True)
class _TierFrame:
    """A tier at a row: the id of its default deny, and (place, action, id) of its rules.

    The rules have the bits from `first` on.
    """

    default: int | None
    first: int
    rules: tuple[tuple[Place, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The policies that select a row, in one direction, for any peer."""

    places: tuple[Place, ...]
    tiers: tuple[_TierFrame, ...]


class CellLemma:
    """Makes the obligations of one Decision IR."""

    def __init__(self, policies: PolicySet, decision: DecisionIR) -> None:
        self.policies = policies
        self.decision = decision
        self._rows_done: set[object] = set()
        self._frames: dict[tuple[Direction, Selecting], _Frame] = {}
        self._words: dict[RuleWords, RuleWords] = {}
        self._steps: dict[Step, Step] = {}
        self._asked_words: dict[tuple[Direction, NamedNumbers], dict[Place, AskedWords]] = {}
        self._masks: dict[tuple[Direction, Place], int] = {}
        self._groups: dict[Direction, list[tuple[int, int]]] = {}

    def obligations(self) -> Iterator[Obligation]:
        """Every obligation; equal questions may occur again."""
        for direction in Direction:
            for index, row in enumerate(self.decision.atoms.rows):
                yield from self._of_row(direction, index, row)

    def _of_row(self, direction: Direction, index: int, row: Row) -> Iterator[Obligation]:
        frame = self._frame(direction, self._selecting(row))
        owns = tuple(self._where_own(direction, place, row) for place in frame.places)
        cells = self.decision.table(direction)[index]
        named = row.named if direction is Direction.INGRESS else ()
        same = (direction, frame.places, frame.tiers, owns, named, cells)
        if same in self._rows_done:
            return
        self._rows_done.add(same)
        for part, columns in self._parts(direction, frame, owns, cells):
            what = f"a cell of row {index} does not say what the policies say"
            broken = Broken("cells", what, direction, index, columns)
            its_named = named if direction is Direction.INGRESS else part[2]
            yield Obligation(self._question(direction, frame, part, its_named), broken)
            for note in self._notes_of(frame, part):
                what = f"a cell of row {index} does not say what rule {note} notes"
                question = self._note_question(direction, frame, part, its_named, note)
                yield Obligation(question, replace(broken, what=what))

    def _selecting(self, row: Row) -> Selecting:
        """(tier, policy) of each policy that selects the row."""
        found: list[tuple[int, int]] = []
        for bit in members(row.bits):
            found += self._policies_by_subject.get(bit, ())
        return tuple(sorted(found))

    def _frame(self, direction: Direction, selecting: Selecting) -> _Frame:
        if (direction, selecting) not in self._frames:
            self._frames[direction, selecting] = self._find_frame(direction, selecting)
        return self._frames[direction, selecting]

    def _find_frame(self, direction: Direction, selecting: Selecting) -> _Frame:
        places: list[Place] = []
        tiers: list[_TierFrame] = []
        for t, tier in enumerate(self.policies.tiers):
            mine = [p for tier_index, p in selecting if tier_index == t]
            default = self._default(tier, [tier.policies[p] for p in mine], direction)
            rules: list[tuple[Place, str, int]] = []
            for place in _in_order(tier, t, mine, direction):
                policy = tier.policies[place[1]]
                rule = policy.rules(direction)[place[2]]
                entry = _entry(tier, policy, direction, place[2], rule)
                rules.append((place, _does(rule.action), self._id(entry)))
                places.append(place)
            if default is not None or rules:  # a tier without a matching rule passes everything on
                its_default = None if default is None else self._id(default)
                first = len(places) - len(rules)
                tiers.append(_TierFrame(its_default, first, tuple(rules)))
        return _Frame(tuple(places), tuple(tiers))

    @cached_property
    def _policies_by_subject(self) -> dict[int, list[tuple[int, int]]]:
        bit_of = self.decision.atoms.vocabulary.bit_of
        out: dict[int, list[tuple[int, int]]] = {}
        for t, tier in enumerate(self.policies.tiers):
            for p, policy in enumerate(tier.policies):
                out.setdefault(bit_of[policy.subject], []).append((t, p))
        return out

    def _parts(
        self, direction: Direction, frame: _Frame, owns: tuple[int, ...], cells: tuple[int, ...]
    ) -> Iterator[tuple[Part, int]]:
        """A row's columns, as masks, by everything that can matter; `cells` is the row of the table."""
        parts = ColumnParts(self._columns_by_cell(direction, cells))
        for bit, place in enumerate(frame.places):
            parts.match(bit, self._columns_of(direction, place) & owns[bit])
        for cell, matched, columns in parts.found():
            if direction is Direction.INGRESS:
                yield (cell, matched, ()), columns
                continue
            for named, holders in self._columns.by_named.items():
                if columns & holders:
                    yield (cell, matched, named), columns & holders

    def _columns_by_cell(self, direction: Direction, row: tuple[int, ...]) -> list[tuple[int, int]]:
        """(cell, its columns) of a row of the table; columns that are equal in all rows at once."""
        groups = self._groups.get(direction)
        if groups is None:
            groups = self._groups[direction] = equal_columns(self.decision.table(direction))
        usual = row[groups[0][0]]
        found = {usual: 0}
        for first, columns in groups:
            cell = row[first]
            if cell != usual:
                found[cell] = found.get(cell, 0) | columns
        found[usual] = self._columns.every & ~sum(found.values())
        return list(found.items())

    def _columns_of(self, direction: Direction, place: Place) -> int:
        """The columns whose signature a rule's peers match (A12, A15)."""
        if (direction, place) not in self._masks:
            rule = self._policy(place[0], place[1]).rules(direction)[place[2]]
            self._masks[direction, place] = self._columns.of_peer(OneOf(rule.peers))
        return self._masks[direction, place]

    def _where_own(self, direction: Direction, place: Place, row: Row) -> int:
        """The columns of the families in which a rule's own side holds for the row."""
        own = self._policy(place[0], place[1]).rules(direction)[place[2]].own
        if isinstance(own, AnyPeer):
            return self._columns.every
        return sum(
            columns
            for family, columns in self._columns.by_family.items()
            if self._columns.is_own(own, row, family)
        )

    @cached_property
    def _columns(self) -> SignatureColumns:
        vocabulary = self.decision.atoms.vocabulary
        bits = blocks = 0
        for leaf in _peer_leaves(self.policies):
            if isinstance(leaf, EndpointPeer):
                bits |= 1 << vocabulary.bit_of[leaf.selector]
            elif isinstance(leaf, AddressPeer):
                blocks |= 1 << vocabulary.block_of[leaf]
        return SignatureColumns(self.decision.atoms, bits, blocks)

    @cached_property
    def _not_isolated(self) -> int:
        return self._id(RESERVED_RULES[0])

    @cached_property
    def _ids(self) -> dict[RuleEntry, int]:
        return {entry: index for index, entry in enumerate(self.decision.rules)}

    def _policy(self, tier: int, policy: int) -> Policy:
        return self.policies.tiers[tier].policies[policy]

    def _question(
        self, direction: Direction, frame: _Frame, part: Part, named: NamedNumbers
    ) -> CellQuestion:
        """The question of a part: its rule ids are renamed in order of first use."""
        index, matched, _ = part
        asked = self._asked_words.setdefault((direction, named), {})
        numbers = {self._not_isolated: 0}
        rest = members(matched)
        shared = self._words.setdefault
        tiers: list[TierWords] = []
        for tier in frame.tiers:
            default = NO_RULE
            if tier.default is not None:
                default = numbers.setdefault(tier.default, len(numbers))
            n_mine = bisect_left(rest, tier.first + len(tier.rules))
            mine, rest = rest[:n_mine], rest[n_mine:]
            rules: list[RuleWords] = []
            for bit in mine:
                place, does, rule = tier.rules[bit - tier.first]
                if does == NOTE:
                    continue
                if place not in asked:
                    asked[place] = self._asked(direction, place, named)
                number = NO_RULE if does == PASS else numbers.setdefault(rule, len(numbers))
                words = (asked[place], does, number)
                rules.append(shared(words, words))
            if rules or default != NO_RULE:
                tiers.append((default, tuple(rules)))
        cell = self.decision.cells[index]
        diagrams = self.decision.diagrams
        steps = _joined(
            (lo, numbers.setdefault(self._without_notes(leaf), len(numbers)))
            for lo, leaf in diagrams[cell.rule]
        )
        decides = tuple(map(self._steps.setdefault, steps, steps))
        return CellQuestion(tuple(tiers), diagrams[cell.action], decides)

    def _notes_of(self, frame: _Frame, part: Part) -> list[int]:
        """The rules whose notes matter in a part: the rules that match there, or that its ids name."""
        cell = self.decision.cells[part[0]]
        leaves = {leaf for _, leaf in self.decision.diagrams[cell.rule]}
        found = {note for leaf in leaves for note in self._notes.get(leaf, ())}
        for tier in frame.tiers:
            for bit, (_, _, rule) in enumerate(tier.rules, start=tier.first):
                if part[1] >> bit & 1 and rule in self._noting:
                    found.add(rule)
        return sorted(found)

    def _note_question(
        self, direction: Direction, frame: _Frame, part: Part, named: NamedNumbers, note: int
    ) -> CellQuestion:
        """Where a rule that makes notes is reached: as if it allowed, and every deciding rule denied."""
        asked = self._asked_words.setdefault((direction, named), {})
        tiers: list[TierWords] = []
        for tier in frame.tiers:
            rules: list[RuleWords] = []
            for bit, (place, does, rule) in enumerate(tier.rules, start=tier.first):
                if not part[1] >> bit & 1 or (does == NOTE and rule != note):
                    continue
                if place not in asked:
                    asked[place] = self._asked(direction, place, named)
                if rule == note:
                    rules.append((asked[place], ALLOW, _IS_NOTED))
                elif does == PASS:
                    rules.append((asked[place], PASS, NO_RULE))
                else:
                    rules.append((asked[place], DENY, _IS_DECIDED))
            default = NO_RULE if tier.default is None else _IS_DECIDED
            if rules or default != NO_RULE:
                tiers.append((default, tuple(rules)))

        def number(leaf: int) -> int:
            if note in self._notes.get(leaf, ()):
                return _IS_NOTED
            is_open = self._without_notes(leaf) == self._not_isolated
            return NOT_ISOLATED if is_open else _IS_DECIDED

        diagram = self.decision.diagrams[self.decision.cells[part[0]].rule]
        steps = _joined((lo, number(leaf)) for lo, leaf in diagram)
        allows = _joined(
            (lo, DENY_LEAF if leaf == _IS_DECIDED else ALLOW_LEAF) for lo, leaf in steps
        )
        return CellQuestion(tuple(tiers), allows, steps)

    def _without_notes(self, rule: int) -> int:
        entry = self.decision.rules[rule]
        return self._id(entry.without_notes) if entry.notes else rule

    @cached_property
    def _notes(self) -> dict[int, tuple[int, ...]]:
        """Id -> the ids of the rules that it records as noted before."""
        return {
            rule: tuple(self._id(note) for note in entry.notes)
            for rule, entry in enumerate(self.decision.rules)
            if entry.notes
        }

    @cached_property
    def _noting(self) -> frozenset[int]:
        """The rules that make notes."""
        rules = enumerate(self.decision.rules)
        return frozenset(at for at, entry in rules if entry.makes_note and not entry.notes)

    def _asked(self, direction: Direction, place: Place, named: NamedNumbers) -> AskedWords:
        """The services of a rule at a destination that declares `named`."""
        rule = self._policy(place[0], place[1]).rules(direction)[place[2]]
        ports = self.decision.atoms.vocabulary.named_ports
        numbers = {ports[index]: found for index, found in named}

        def words(port: NamedPort) -> Iterable[PortWords]:
            return declared(port.protocol, numbers.get(port, ()))

        return asked_words(rule.ports, rule.except_ports, words)

    def _default(
        self, tier: Tier, policies: list[Policy], direction: Direction
    ) -> RuleEntry | None:
        isolating = [p for p in policies if direction in p.isolates]
        if not isolating or tier.unmatched is Action.PASS:
            return None
        names = tuple(p.title for p in isolating)
        return RuleEntry("default-deny", tier.unmatched, tier.name, direction, names)

    def _id(self, entry: RuleEntry) -> int:
        """The id that must decide; if there is no such entry, one past all rules: never equal."""
        return self._ids.get(entry, UNKNOWN_RULE)


def _peer_leaves(policies: PolicySet) -> set[Leaf]:
    """The leaves that rules test on the peer."""
    return {
        leaf
        for tier in policies.tiers
        for policy in tier.policies
        for direction in Direction
        for rule in policy.rules(direction)
        for peer in rule.peers
        for leaf in leaves(peer)
    }


def _does(action: Action) -> str:
    if action is Action.PASS:
        return PASS
    if action.goes_on:
        return NOTE
    return DENY if action.is_deny else ALLOW


def _entry(tier: Tier, policy: Policy, direction: Direction, index: int, rule: Rule) -> RuleEntry:
    name = policy.title
    return RuleEntry(
        "rule",
        rule.action,
        tier.name,
        direction,
        (name,),
        index,
        limit=rule.limit,
        log=rule.log,
    )


def _joined(steps: Iterable[tuple[int, int]]) -> Diagram:
    """Steps as a diagram: neighbours with one leaf are one."""
    found: list[tuple[int, int]] = []
    for lo, leaf in steps:
        if not found or found[-1][1] != leaf:
            found.append((lo, leaf))
    return tuple(found)


def _in_order(tier: Tier, t: int, policies: list[int], direction: Direction) -> list[Place]:
    """The places of a tier's rules in evaluation order for first match."""
    places = [(t, p, r) for p in policies for r in range(len(tier.policies[p].rules(direction)))]
    if tier.mode is TierMode.DENY_WINS:
        places.sort(key=lambda at: tier.policies[at[1]].rules(direction)[at[2]].action.place)
    return places
