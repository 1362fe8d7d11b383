# SPDX-License-Identifier: Apache-2.0
"""Lemma 3: each cell's diagrams give the action and the rule that the Policy IR gives.

For every row, direction, column and service key. The policy's side reads the row's and the column's
signatures (selector bits, blocks, named ports) and the Policy IR; columns that a row's rules and cells
cannot tell apart are one obligation, and an obligation met before is not asked again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never

import z3

from policyc.ir.atoms import EndpointColumn, NamedNumbers, NodeColumn, Row
from policyc.ir.decision import ALLOW_LEAF, Cell, DecisionIR, RuleEntry
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Rule, Tier, TierMode
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.tables import RESERVED_RULES
from policyc.verifier.outcome import Broken, Obligation
from policyc.verifier.terms import Term, asked_by, declares, diagram_term, is_service, service_key

RULE_BITS = 32
UNKNOWN_RULE = (1 << RULE_BITS) - 1
Place = tuple[int, int, int]
"""(tier, policy within the tier, rule within the policy's direction)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns that share a cell, the rules whose peers match, and (egress) the named ports."""

    cell: int
    matched: frozenset[Place] = frozenset()
    named: NamedNumbers = ()


@dataclass
class CellLemma:
    """Makes the obligations of one Decision IR."""

    policies: PolicySet
    decision: DecisionIR
    _asked: set[object] = field(default_factory=set)
    _masks: dict[tuple[Direction, Place], int] = field(default_factory=dict)
    _cells: dict[tuple[int, ...], list[tuple[int, int]]] = field(default_factory=dict)

    def obligations(self) -> Iterator[Obligation]:
        """Every obligation, each once."""
        for direction in Direction:
            for index, row in enumerate(self.decision.atoms.rows):
                yield from self._of_row(direction, index, row)

    def _of_row(self, direction: Direction, index: int, row: Row) -> Iterator[Obligation]:
        selecting = self._selecting(row)
        for part, columns in self._parts(direction, index, row, selecting).items():
            named = row.named if direction is Direction.INGRESS else part.named
            question = (direction, tuple(selecting), part.cell, part.matched, named)
            if question not in self._asked:
                self._asked.add(question)
                what = f"a cell of row {index} does not say what the policies say"
                broken = Broken("cells", what, direction, index, columns)
                violated = self._violated(direction, selecting, part, named)
                yield Obligation(violated, broken)

    def _selecting(self, row: Row) -> list[tuple[int, int]]:
        """(tier, policy) of each policy that selects the row."""
        found: list[tuple[int, int]] = []
        for bit in _set_bits(row.bits):
            found += self._policies_by_subject.get(bit, ())
        return sorted(found)

    @cached_property
    def _policies_by_subject(self) -> dict[int, list[tuple[int, int]]]:
        bit_of = self.decision.atoms.vocabulary.bit_of
        out: dict[int, list[tuple[int, int]]] = {}
        for t, tier in enumerate(self.policies.tiers):
            for p, policy in enumerate(tier.policies):
                out.setdefault(bit_of[policy.subject], []).append((t, p))
        return out

    def _parts(
        self, direction: Direction, index: int, row: Row, selecting: list[tuple[int, int]]
    ) -> dict[_Part, int]:
        """The row's columns, as masks, by all that can matter."""
        parts = {
            _Part(cell): columns
            for cell, columns in self._columns_by_cell(self.decision.table(direction)[index])
        }
        for t, p in selecting:
            for r in range(len(self._policy(t, p).rules(direction))):
                columns = self._columns_of(direction, (t, p, r)) & self._where_own(
                    direction, (t, p, r), row
                )
                parts = _split(parts, (t, p, r), columns)
        if direction is Direction.EGRESS:
            parts = {
                _Part(part.cell, part.matched, named): columns & holders
                for part, columns in parts.items()
                for named, holders in self._columns_by_named.items()
                if columns & holders
            }
        return parts

    def _columns_by_cell(self, row: tuple[int, ...]) -> list[tuple[int, int]]:
        """(cell, its columns) of a row of the table; equal rows are looked at once."""
        if row not in self._cells:
            found: dict[int, int] = {}
            for column, cell in enumerate(row):
                found[cell] = found.get(cell, 0) | 1 << column
            self._cells[row] = list(found.items())
        return self._cells[row]

    def _columns_of(self, direction: Direction, place: Place) -> int:
        """The columns whose signature a rule's peers match (A12, A15)."""
        if (direction, place) not in self._masks:
            rule = self._policy(place[0], place[1]).rules(direction)[place[2]]
            self._masks[direction, place] = self._columns_of_peer(OneOf(rule.peers))
        return self._masks[direction, place]

    def _where_own(self, direction: Direction, place: Place, row: Row) -> int:
        """The columns of the families in which a rule's own side holds of the row."""
        own = self._policy(place[0], place[1]).rules(direction)[place[2]].own
        if isinstance(own, AnyPeer):
            return self._all_columns
        return sum(
            columns
            for family, columns in self._columns_by_family.items()
            if self._is_own(own, row, family)
        )

    def _is_own(self, own: Peer, row: Row, family: int) -> bool:
        """Whether a peer matches the row itself, under its address of one family."""
        vocabulary = self.decision.atoms.vocabulary
        match own:
            case AnyPeer():
                return True
            case EndpointPeer(selector):
                return bool(row.bits >> vocabulary.bit_of[selector] & 1)
            case AddressPeer():
                return bool(row.own(family) >> vocabulary.block_of[own] & 1)
            case NodePeer():  # a row is of an endpoint
                return False
            case AllOf(parts):
                return all(self._is_own(part, row, family) for part in parts)
            case OneOf(parts):
                return any(self._is_own(part, row, family) for part in parts)
            case Not(part):
                return not self._is_own(part, row, family)
            case _:
                assert_never(own)

    @cached_property
    def _all_columns(self) -> int:
        return (1 << len(self.decision.atoms.columns)) - 1

    @cached_property
    def _columns_by_family(self) -> dict[int, int]:
        out: dict[int, int] = {}
        for at, column in enumerate(self.decision.atoms.columns):
            out[column.family] = out.get(column.family, 0) | 1 << at
        return out

    def _columns_of_peer(self, peer: Peer) -> int:
        vocabulary = self.decision.atoms.vocabulary
        match peer:
            case AnyPeer():
                return self._all_columns
            case EndpointPeer(selector):
                return self._columns_by_bit.get(vocabulary.bit_of[selector], 0)
            case AddressPeer():
                return self._columns_by_block.get(vocabulary.block_of[peer], 0)
            case NodePeer():
                return self._columns_of_nodes(peer)
            case AllOf(parts):
                found = self._all_columns
                for part in parts:
                    found &= self._columns_of_peer(part)
                return found
            case OneOf(parts):
                found = 0
                for part in parts:
                    found |= self._columns_of_peer(part)
                return found
            case Not(part):
                return self._all_columns & ~self._columns_of_peer(part)
            case _:
                assert_never(peer)

    def _columns_of_nodes(self, peer: NodePeer) -> int:
        """The columns of nodes of which the condition holds and that are where the peer wants them."""
        bit = self.decision.atoms.vocabulary.node_of[peer.condition]
        found = 0
        for at, column in enumerate(self.decision.atoms.columns):
            if isinstance(column, NodeColumn) and column.conditions >> bit & 1:
                is_there = peer.where is Where.ANYWHERE or (
                    column.is_local == (peer.where is Where.LOCAL)
                )
                found |= is_there << at
        return found

    @cached_property
    def _columns_by_bit(self) -> dict[int, int]:
        """Selector -> the endpoint columns in whose signature it holds; addresses have none."""
        out: dict[int, int] = {}
        for at, column in enumerate(self.decision.atoms.columns):
            if isinstance(column, EndpointColumn):
                for bit in _set_bits(column.bits):
                    out[bit] = out.get(bit, 0) | 1 << at
        return out

    @cached_property
    def _columns_by_block(self) -> dict[int, int]:
        """Block -> the columns, endpoints and addresses, whose address atom is inside it."""
        out: dict[int, int] = {}
        for at, column in enumerate(self.decision.atoms.columns):
            atoms = self.decision.atoms.classifier.addresses[column.family]
            for block in _set_bits(atoms.blocks[column.atom]):
                out[block] = out.get(block, 0) | 1 << at
        return out

    @cached_property
    def _columns_by_named(self) -> dict[NamedNumbers, int]:
        out: dict[NamedNumbers, int] = {}
        for at, column in enumerate(self.decision.atoms.columns):
            named = column.named if isinstance(column, EndpointColumn) else ()
            out[named] = out.get(named, 0) | 1 << at
        return out

    @cached_property
    def _ids(self) -> dict[RuleEntry, int]:
        return {entry: index for index, entry in enumerate(self.decision.rules)}

    def _policy(self, tier: int, policy: int) -> Policy:
        return self.policies.tiers[tier].policies[policy]

    def _violated(
        self,
        direction: Direction,
        selecting: list[tuple[int, int]],
        part: _Part,
        named: NamedNumbers,
    ) -> Term:
        """The cell and the policies disagree, in the action or in the rule."""
        key = service_key()
        cell: Cell = self.decision.cells[part.cell]
        diagrams = self.decision.diagrams
        allows = diagram_term(
            diagrams[cell.action], key, lambda leaf: z3.BoolVal(leaf == ALLOW_LEAF)
        )
        decides = diagram_term(diagrams[cell.rule], key, _rule_value)
        should_allow, should_decide = self._policy_terms(direction, selecting, part, named, key)
        wrong = z3.Or(allows != should_allow, decides != should_decide)
        return z3.And(is_service(key), wrong)

    def _policy_terms(
        self,
        direction: Direction,
        selecting: list[tuple[int, int]],
        part: _Part,
        named: NamedNumbers,
        key: Term,
    ) -> tuple[Term, Term]:
        """(allowed, deciding rule) by the tiers, last tier first."""
        ports = self.decision.atoms.vocabulary.named_ports
        declared = declares(key, {ports[index]: numbers for index, numbers in named})
        allowed, rule_id = z3.BoolVal(True), _rule_value(self._id(RESERVED_RULES[0]))
        for t in range(len(self.policies.tiers) - 1, -1, -1):
            tier = self.policies.tiers[t]
            mine = [p for tier_index, p in selecting if tier_index == t]
            after = allowed, rule_id
            default = self._default(tier, [tier.policies[p] for p in mine], direction)
            if default is not None:
                allowed, rule_id = z3.BoolVal(False), _rule_value(self._id(default))
            for place in reversed(_in_order(tier, t, mine, direction)):
                if place not in part.matched:
                    continue
                policy = tier.policies[place[1]]
                rule = policy.rules(direction)[place[2]]
                asked = asked_by(key, rule, declared)
                if rule.action is Action.PASS:
                    then = after
                else:
                    entry = _entry(tier, policy, direction, place[2], rule)
                    then = z3.BoolVal(not rule.action.is_deny), _rule_value(self._id(entry))
                allowed = z3.If(asked, then[0], allowed)
                rule_id = z3.If(asked, then[1], rule_id)
        return allowed, rule_id

    def _default(
        self, tier: Tier, policies: list[Policy], direction: Direction
    ) -> RuleEntry | None:
        isolating = [p for p in policies if direction in p.isolates]
        if not isolating or tier.unmatched is Action.PASS:
            return None
        names = tuple(p.title for p in isolating)
        return RuleEntry("default-deny", tier.unmatched, tier.name, direction, names)

    def _id(self, entry: RuleEntry) -> int:
        """The id that must decide; one past all rules where there is no such entry: never equal."""
        return self._ids.get(entry, UNKNOWN_RULE)


def _rule_value(rule: int) -> Term:
    return z3.BitVecVal(rule, RULE_BITS)


def _entry(tier: Tier, policy: Policy, direction: Direction, index: int, rule: Rule) -> RuleEntry:
    name = policy.title
    return RuleEntry("rule", rule.action, tier.name, direction, (name,), index)


def _in_order(tier: Tier, t: int, policies: list[int], direction: Direction) -> list[Place]:
    """The places of a tier's rules in the order in which the first match decides."""
    places = [(t, p, r) for p in policies for r in range(len(tier.policies[p].rules(direction)))]
    if tier.mode is TierMode.DENY_WINS:
        places.sort(key=lambda at: not tier.policies[at[1]].rules(direction)[at[2]].action.is_deny)
    return places


def _split(parts: dict[_Part, int], place: Place, columns: int) -> dict[_Part, int]:
    out: dict[_Part, int] = {}
    for part, mask in parts.items():
        if mask & ~columns:
            out[part] = mask & ~columns
        if mask & columns:
            out[_Part(part.cell, part.matched | {place})] = mask & columns
    return out


def _set_bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
