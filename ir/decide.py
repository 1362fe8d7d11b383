# SPDX-License-Identifier: Apache-2.0
"""Decide: from the Policy IR and its atoms to the Decision IR.

For one row and direction, the columns are split into parts by the rules that match them, and each part
is folded once. Parts, cells and diagrams are interned, so equal behaviour is stored and emitted once.
They are numbered by first use, row by row and column by column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_
from typing import assert_never

from policyc.ir.atoms import (
    AddressColumn,
    Atoms,
    Column,
    EndpointColumn,
    NamedNumbers,
    NodeColumn,
    Row,
)
from policyc.ir.bits import bits_of_each, first, members, union
from policyc.ir.decision import (
    ALLOW_LEAF,
    DENY_LEAF,
    Cell,
    DecisionIR,
    Diagram,
    PolicyTable,
    RuleEntry,
    TableLeaf,
    TablePeer,
    TableRule,
    TableService,
    TierTable,
    table_leaves,
)
from policyc.ir.fold import FoldTier, Matched, fold
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action, Direction, PolicySet, TierMode
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.services import ALL_SERVICES
from policyc.ir.tables import lower_tables
from policyc.ir.universe import FAMILIES
from policyc.ir.vocabulary import Vocabulary


def decide(
    policies: PolicySet, atoms: Atoms, all_rows: tuple[Row, ...] | None = None
) -> DecisionIR:
    """Resolve every (row, direction, column) of the partition.

    `all_rows` are the rows of the whole cluster, if `atoms` has only some of them. Default denies then
    have the same ids as when all rows are decided.
    """
    tiers, entries = lower_tables(policies, atoms.vocabulary)
    return decide_tables(atoms, tiers, entries, all_rows)


def decide_tables(
    atoms: Atoms,
    tiers: tuple[TierTable, ...],
    entries: tuple[RuleEntry, ...],
    all_rows: tuple[Row, ...] | None = None,
) -> DecisionIR:
    """Resolve every (row, direction, column) from the per-policy tables, as the node does."""
    work = _Deciding(atoms, tiers, list(entries))
    if all_rows is not None:
        work.number_defaults(all_rows)
    ingress = tuple(work.decide_row(Direction.INGRESS, row) for row in atoms.rows)
    egress = tuple(work.decide_row(Direction.EGRESS, row) for row in atoms.rows)
    return DecisionIR(
        atoms=atoms,
        tables=tiers,
        rules=tuple(work.entries),
        diagrams=tuple(work.diagrams),
        cells=tuple(work.cells),
        ingress=ingress,
        egress=egress,
    )


def services_of(rule: TableRule, vocabulary: Vocabulary, named: NamedNumbers) -> IntervalSet:
    """The service keys of a rule for a destination that declares `named`."""
    keys = ALL_SERVICES if rule.services is None else _keys(rule.services, vocabulary, named)
    if not rule.except_services:
        return keys
    return keys - _keys(rule.except_services, vocabulary, named)


def _keys(
    services: Iterable[TableService], vocabulary: Vocabulary, named: NamedNumbers
) -> IntervalSet:
    numbers = dict(named)
    pairs: list[tuple[int, int]] = []
    for service in services:
        if isinstance(service, tuple):
            pairs.append(service)
        else:
            base = vocabulary.named_ports[service].protocol.kind << 16
            pairs += [(base | n, base | n) for n in numbers.get(service, ())]
    return IntervalSet.of(pairs)


def in_deciding_order(
    tier: TierTable, policies: Iterable[PolicyTable], direction: Direction
) -> list[TableRule]:
    """The rules in evaluation order for first match: under DENY_WINS sorted by action (`place`)."""
    rules = [rule for policy in policies for rule in policy.rules(direction)]
    if tier.mode is TierMode.DENY_WINS:
        rules.sort(key=lambda rule: rule.action.place)
    return rules


_Found = tuple[int, Matched, tuple[int, int]]
"""A match: the index of its tier, the match itself, and its identity among matches."""


@dataclass
class _Deciding:
    """The tables under construction and the interned parts; every step of a diagram is interned."""

    atoms: Atoms
    tiers: tuple[TierTable, ...]
    entries: list[RuleEntry]
    diagrams: list[Diagram] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    _diagram_ids: dict[Diagram, int] = field(default_factory=dict)
    _steps: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _cell_ids: dict[Cell, int] = field(default_factory=dict)
    _default_ids: dict[RuleEntry, int] = field(default_factory=dict)
    _noted_ids: dict[tuple[int, int], int] = field(default_factory=dict)
    _folded: dict[object, int] = field(default_factory=dict)
    _service_ids: dict[IntervalSet, int] = field(default_factory=dict)
    _variants: dict[tuple[int, NamedNumbers], list[tuple[IntervalSet, int]]] = field(
        default_factory=dict
    )
    _rows_done: dict[object, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.all_columns = (1 << len(self.atoms.columns)) - 1
        self.columns_of = _columns_by_leaf(self.atoms, *_asked_of_peers(self.tiers))
        self.columns_by_named = _columns_by_named(self.atoms.columns)
        self.columns_by_family = _columns_by_family(self.atoms.columns)
        self.leaves = list(map(action_leaf, self.entries))
        self.own_bits = _own_bits(self.tiers)
        self.policies_by_subject = {d: _policies_by_subject(self.tiers, d) for d in Direction}

    def number_defaults(self, rows: Iterable[Row]) -> None:
        """Give every default deny of these rows its id, in the order in which folding meets them."""
        rows = tuple(rows)
        for direction in Direction:
            for row in rows:
                for tier, policies in self._selecting(direction, row):
                    self._default_rule(tier, policies, direction)

    def decide_row(self, direction: Direction, row: Row) -> tuple[int, ...]:
        """The cell index of each column."""
        named = row.named if direction is Direction.INGRESS else ()
        selecting = self._selecting(direction, row)
        own = (row.bits & self.own_bits, row.own4, row.own6)
        key = (direction, named, own, tuple(tuple(id(p) for p in ps) for _, ps in selecting))
        if key not in self._rows_done:
            self._rows_done[key] = self._decide(direction, row, named, selecting)
        return self._rows_done[key]

    def _selecting(
        self, direction: Direction, row: Row
    ) -> list[tuple[TierTable, list[PolicyTable]]]:
        """The policies of each tier that select a row and have rules or isolation in this direction."""
        by_subject = self.policies_by_subject[direction]
        found = sorted(at for bit in members(row.bits) for at in by_subject.get(bit, ()))
        out: list[tuple[TierTable, list[PolicyTable]]] = [(tier, []) for tier in self.tiers]
        for t, p in found:
            out[t][1].append(self.tiers[t].policies[p])
        return out

    def _decide(
        self,
        direction: Direction,
        row: Row,
        named: NamedNumbers,
        selecting: list[tuple[TierTable, list[PolicyTable]]],
    ) -> tuple[int, ...]:
        defaults = [self._default_rule(tier, ps, direction) for tier, ps in selecting]
        found: list[_Found] = []
        parts = _Parts(len(self.atoms.columns))
        for at, (tier, policies) in enumerate(selecting):
            for rule in in_deciding_order(tier, policies, direction):
                own = self.all_columns if rule.own is None else self._columns_of_own(rule.own, row)
                for services, columns in self._variants_of(rule, direction, named):
                    parts.match(1 << len(found), columns & own)
                    is_noted = self.entries[rule.rule].makes_note
                    match = Matched(rule.rule, rule.action, services, is_noted)
                    found.append((at, match, self._match_id(match)))
        cells = {}
        for matched, columns in sorted(parts.each(), key=lambda part: first(part[1])):
            cells[columns] = self._cell_of([found[index] for index in members(matched)], defaults)
        return _spread(cells, len(self.atoms.columns))

    def _columns_of_own(self, own: TablePeer, row: Row) -> int:
        """The columns of the families in which the rule's own side (`own`) holds for the subject."""
        return sum(
            columns
            for family, columns in self.columns_by_family.items()
            if _holds_of_row(own, row, family)
        )

    def _columns_of_peer(self, peer: TablePeer) -> int:
        """The columns that a peer matches."""
        match peer:
            case AllOf(parts):
                return reduce(and_, map(self._columns_of_peer, parts), self.all_columns)
            case OneOf(parts):
                return reduce(or_, map(self._columns_of_peer, parts), 0)
            case Not(part):
                return self.all_columns & ~self._columns_of_peer(part)
            case _:
                return self.columns_of.get(peer, 0)

    def _variants_of(
        self, rule: TableRule, direction: Direction, named: NamedNumbers
    ) -> list[tuple[IntervalSet, int]]:
        """(services, columns) of a rule: several pairs if named ports differ between the peers."""
        key = (rule.rule, named)
        if key not in self._variants:
            self._variants[key] = self._find_variants(rule, direction, named)
        return self._variants[key]

    def _find_variants(
        self, rule: TableRule, direction: Direction, named: NamedNumbers
    ) -> list[tuple[IntervalSet, int]]:
        vocabulary = self.atoms.vocabulary
        columns = self.all_columns
        if rule.peers is not None:
            columns = reduce(or_, map(self._columns_of_peer, rule.peers), 0)
        if direction is Direction.INGRESS or not any(
            isinstance(service, int) for service in (*(rule.services or ()), *rule.except_services)
        ):
            found = [(services_of(rule, vocabulary, named), columns)]
        else:
            by_services: dict[IntervalSet, int] = {}
            for theirs, holders in self.columns_by_named.items():
                services = services_of(rule, vocabulary, theirs)
                by_services[services] = by_services.get(services, 0) | (holders & columns)
            found = list(by_services.items())
        return [(services, mask) for services, mask in found if services and mask]

    def _default_rule(
        self, tier: TierTable, policies: list[PolicyTable], direction: Direction
    ) -> int | None:
        isolating = [p for p in policies if direction in p.isolates]
        if not isolating or tier.unmatched is Action.PASS:
            return None
        entry = RuleEntry(
            "default-deny",
            tier.unmatched,
            tier.name,
            direction,
            tuple(p.name for p in isolating),
            origins=tuple(p.origin for p in isolating),
        )
        if entry not in self._default_ids:
            self._default_ids[entry] = len(self.entries)
            self.entries.append(entry)
            self.leaves.append(action_leaf(entry))
        return self._default_ids[entry]

    def _noted(self, rule: int, by: int) -> int:
        """The id of a decision with the note of `by` before all its other notes."""
        if (rule, by) not in self._noted_ids:
            entry = self.entries[rule]
            self._noted_ids[rule, by] = len(self.entries)
            self.entries.append(replace(entry, notes=(self.entries[by], *entry.notes)))
            self.leaves.append(self.leaves[rule])
        return self._noted_ids[rule, by]

    def _cell_of(self, found: list[_Found], defaults: list[int | None]) -> int:
        """The cell of columns that these rules match."""
        key = (tuple([(at, ident) for at, _, ident in found]), tuple(defaults))
        if key not in self._folded:
            matched: list[list[Matched]] = [[] for _ in defaults]
            for at, match, _ in found:
                matched[at].append(match)
            tiers = [FoldTier(tuple(m), d) for m, d in zip(matched, defaults, strict=True)]
            rule_diagram = fold(tiers, self._noted)
            cell = Cell(
                self._diagram_id(action_diagram(rule_diagram, self.leaves)),
                self._diagram_id(rule_diagram),
            )
            if cell not in self._cell_ids:
                self._cell_ids[cell] = len(self.cells)
                self.cells.append(cell)
            self._folded[key] = self._cell_ids[cell]
        return self._folded[key]

    def _match_id(self, match: Matched) -> tuple[int, int]:
        """The identity of a match. Services are numbered, because hashing them takes longest."""
        services = self._service_ids.setdefault(match.services, len(self._service_ids))
        return match.rule, services

    def _diagram_id(self, diagram: Diagram) -> int:
        index = self._diagram_ids.get(diagram)
        if index is None:
            index = len(self.diagrams)
            shared = tuple(map(self._steps.setdefault, diagram, diagram))
            self._diagram_ids[shared] = index
            self.diagrams.append(shared)
        return index


def action_leaf(entry: RuleEntry) -> int:
    """The leaf of the action layer where this rule decides."""
    return DENY_LEAF if entry.action.is_deny else ALLOW_LEAF


def action_diagram(rule_diagram: Diagram, leaves: Sequence[int]) -> Diagram:
    """The action layer of a rule diagram, from the action leaf of each rule."""
    steps: list[tuple[int, int]] = []
    last = None
    for lo, rule in rule_diagram:
        leaf = leaves[rule]
        if leaf != last:
            steps.append((lo, leaf))
            last = leaf
    return tuple(steps)


class _Parts:
    """The columns, split into parts that the same rules match.

    A rule that matches few columns, or all but few, costs only the parts of these few columns. So a rule
    for each of ten thousand peers does not need a pass over all parts. `_odd` of a part are the matches
    in which it differs from `_usual`, the matches of most columns.
    """

    def __init__(self, n_columns: int) -> None:
        self._every = (1 << n_columns) - 1
        self._columns = [self._every]
        self._usual = 0
        self._odd = [0]
        self._part_of = [0] * n_columns

    def each(self) -> Iterator[tuple[int, int]]:
        """(matches as a mask, columns as a mask) of every part."""
        return zip(map(self._usual.__xor__, self._odd), self._columns, strict=True)

    def match(self, bit: int, columns: int) -> None:
        """Record that the match `bit` holds of these columns."""
        others = self._every & ~columns
        if others.bit_count() < columns.bit_count():
            self._usual |= bit
            columns = others
        touched: Iterable[int] = range(len(self._columns))
        if columns.bit_count() < len(self._columns):
            touched = dict.fromkeys(self._part_of[column] for column in members(columns))
        for part in touched:
            hit = self._columns[part] & columns
            if hit == self._columns[part]:
                self._odd[part] |= bit
            elif hit:
                self._split(part, hit, bit)

    def _split(self, part: int, hit: int, bit: int) -> None:
        self._columns[part] &= ~hit
        for column in members(hit):
            self._part_of[column] = len(self._columns)
        self._columns.append(hit)
        self._odd.append(self._odd[part] | bit)


def _spread(cells: dict[int, int], n_columns: int) -> tuple[int, ...]:
    """The cell of each column, from the cell of each set of columns. The sets cover all columns."""
    most = max(cells, key=int.bit_count)
    out = [cells[most]] * n_columns
    for columns, cell in cells.items():
        if columns != most:
            for column in members(columns):
                out[column] = cell
    return tuple(out)


def _policies_by_subject(
    tiers: tuple[TierTable, ...], direction: Direction
) -> dict[int, list[tuple[int, int]]]:
    """Subject's bit -> (tier, policy) of the policies that have it and apply in a direction."""
    out: dict[int, list[tuple[int, int]]] = {}
    for t, tier in enumerate(tiers):
        for p, policy in enumerate(tier.policies):
            if policy.rules(direction) or direction in policy.isolates:
                out.setdefault(policy.subject, []).append((t, p))
    return out


def _asked_of_peers(tiers: tuple[TierTable, ...]) -> tuple[int, int]:
    """The selectors and the blocks that rules test on the peer, as masks."""
    leaves = {
        leaf
        for tier in tiers
        for policy in tier.policies
        for rule in (*policy.ingress, *policy.egress)
        for peer in rule.peers or ()
        for leaf in table_leaves(peer)
    }
    bits, blocks = (
        union(1 << at for kind, at in leaves if kind == name) for name in ("bit", "block")
    )
    return bits, blocks


def _columns_by_leaf(atoms: Atoms, bits: int, blocks: int) -> dict[TableLeaf, int]:
    """Leaf -> mask of the columns it matches: any column by its block (A15), each kind by its bits.

    Only of these selectors and blocks.
    """
    out: dict[TableLeaf, int] = {}
    addresses = atoms.classifier.addresses.values()
    inside = {each.family: [held & blocks for held in each.blocks] for each in addresses}
    for index, column in enumerate(atoms.columns):
        for leaf in _leaves_of(column, inside[column.family][column.atom], bits):
            out[leaf] = out.get(leaf, 0) | 1 << index
    return out


def _leaves_of(column: Column, inside: int, bits: int) -> list[TableLeaf]:
    """The leaves that match a column in these blocks; most columns match none."""
    found: list[TableLeaf] = []
    if inside:
        found += [("block", block) for block in members(inside)]
    match column:
        case EndpointColumn():
            held = column.bits & bits
            if held:
                found += [("bit", bit) for bit in members(held)]
        case NodeColumn():
            for condition in members(column.conditions):
                found.append(("node", condition))
                found.append(("local" if column.is_local else "remote", condition))
        case AddressColumn():
            pass
        case _:
            assert_never(column)
    return found


def _columns_by_family(columns: tuple[Column, ...]) -> dict[int, int]:
    """Family -> mask of its columns."""
    return dict.fromkeys(FAMILIES, 0) | bits_of_each(column.family for column in columns)


def _own_bits(tiers: tuple[TierTable, ...]) -> int:
    """The selectors that rules test on their own side, as a mask."""
    found = 0
    for tier in tiers:
        for policy in tier.policies:
            for rule in (*policy.ingress, *policy.egress):
                for kind, index in () if rule.own is None else table_leaves(rule.own):
                    found |= (kind == "bit") << index
    return found


def _holds_of_row(own: TablePeer, row: Row, family: int) -> bool:
    """Whether a rule's own side holds for a subject, under its address of one family."""
    match own:
        case AllOf(parts):
            return all(_holds_of_row(part, row, family) for part in parts)
        case OneOf(parts):
            return any(_holds_of_row(part, row, family) for part in parts)
        case Not(part):
            return not _holds_of_row(part, row, family)
        case ("bit", index):
            return bool(row.bits >> index & 1)
        case ("block", index):
            return bool(row.own(family) >> index & 1)
        case ("node" | "local" | "remote", _):  # a subject is an endpoint, and so no node
            return False
        case _:
            assert_never(own)


def _columns_by_named(columns: tuple[Column, ...]) -> dict[NamedNumbers, int]:
    """Named-port numbers -> mask of the columns that declare exactly these; addresses: none (A19)."""
    return bits_of_each(c.named if isinstance(c, EndpointColumn) else () for c in columns)
