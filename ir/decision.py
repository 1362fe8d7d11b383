# SPDX-License-Identifier: Apache-2.0
"""The Decision IR: for each (row, direction, column) a diagram from service key to verdict.

There are two layers. The *action diagram* gives allow or deny, the *rule diagram* gives the rule that
decided. They are separate so that different rule ids do not prevent the sharing of equal actions. Equal
diagrams are stored once. Tiers, Pass and default denies are resolved here: no later stage walks a rule
list.

The family is part of the column. The tables are total over the partition that they were made for.
`tables` extends them to signatures that appear later: it stores, per policy and rule, the peers as
selector bits and address atoms, and the services. The node folds them in tier order (`ir/fold.py`).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Literal, TypeAlias, assert_never

from policyc.ir.atoms import Atoms
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action, Direction, Limit, TierMode
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.services import ALL_SERVICES, describe_services
from policyc.ir.spans import NOWHERE, Origin

DENY_LEAF = 0
ALLOW_LEAF = 1
NOT_ISOLATED_RULE = 0
FAIL_CLOSED_RULE = 1

Diagram = tuple[tuple[int, int], ...]
"""Steps (lowest service key, leaf), ascending, the first at 0, neighbours with different leaves."""


def leaf_of(diagram: Diagram, key: int) -> int:
    """The leaf that a diagram gives a service key."""
    return diagram[bisect_right(diagram, key, key=lambda step: step[0]) - 1][1]


def diagram_regions(diagram: Diagram) -> dict[int, IntervalSet]:
    """Leaf -> the service keys that reach it."""
    runs: dict[int, list[tuple[int, int]]] = {}
    last = ALL_SERVICES.spans[-1][1]
    for at, (lo, leaf) in enumerate(diagram):
        hi = diagram[at + 1][0] - 1 if at + 1 < len(diagram) else last
        runs.setdefault(leaf, []).append((lo, hi))
    return {leaf: IntervalSet.of(pairs) for leaf, pairs in runs.items()}


EntryKind: TypeAlias = Literal["rule", "default-deny", "default-allow", "fail-closed"]


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """The rule or default that a rule id stands for.

    `kind` is `rule`, `default-deny`, `default-allow` or `fail-closed`. `policies` are the policy that
    holds the rule, or the policies that isolate. `index` is the rule's position among those of its
    direction. `origins` are the places, in the order of `policies`. `limit` is the limit on what the
    rule allows. `log` is set if the rule's decisions are recorded as events. `notes` are the rules that
    matched a flow before this one decided and that make a note (`makes_note`), in evaluation order: the
    same rule with other notes has another id.
    """

    kind: EntryKind
    action: Action
    tier: str = ""
    direction: Direction | None = None
    policies: tuple[str, ...] = ()
    index: int = -1
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    limit: Limit | None = None
    log: bool = False
    notes: tuple["RuleEntry", ...] = ()

    @property
    def makes_note(self) -> bool:
        """Whether flows that the rule matches and does not decide are noted."""
        return self.action.goes_on or (self.log and self.action is Action.PASS)

    @property
    def without_notes(self) -> "RuleEntry":
        """The rule itself, without the notes made before it."""
        return replace(self, notes=()) if self.notes else self

    def describe(self) -> str:
        """The rule in words, with its place and the notes made before it."""
        noted = "; ".join(note.describe() for note in self.notes)
        return f"{self._describe()}, after {noted}" if noted else self._describe()

    def _describe(self) -> str:
        match self.kind:
            case "default-allow":
                return "allowed: no policy isolates the endpoint"
            case "fail-closed":
                return "denied: the endpoint has no class on this node"
            case "default-deny":
                direction = self.direction.value if self.direction else "traffic"
                return f"{direction} denied by default: isolated by {', '.join(self.policies)}"
            case "rule":
                origin = self.origins[0] if self.origins else Origin(NOWHERE, "")
                return f"{self.action.outcome.value} by {self.policies[0]} {origin.path} ({origin.span})"
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True)
class Cell:
    """Ids of an action diagram and of a rule diagram."""

    action: int
    rule: int


TableService = tuple[int, int] | int
LeafKind: TypeAlias = Literal["bit", "block", "node", "local", "remote"]
TableLeaf = tuple[LeafKind, int]
"""`bit` and a selector, `block` and a block, or `node`, `local`, `remote` and a node condition."""

TablePeer: TypeAlias = TableLeaf | AllOf["TablePeer"] | OneOf["TablePeer"] | Not["TablePeer"]
"""A peer over atoms: leaves and their boolean combinations."""


def table_leaves(peer: TablePeer) -> Iterator[TableLeaf]:
    """The leaves of a peer, from left to right."""
    match peer:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from table_leaves(part)
        case Not(part):
            yield from table_leaves(part)
        case _:
            yield peer


@dataclass(frozen=True, slots=True)
class TableRule:
    """One rule over atoms. None is any peer, any service, any subject (`own`).

    A service is `(lo, hi)` keys or the index of a named port, which resolves on the destination. The
    rule matches one of `peers`, if `own` holds for the subject, for `services` without
    `except_services`.
    """

    rule: int
    action: Action
    peers: tuple[TablePeer, ...] | None
    services: tuple[TableService, ...] | None
    own: TablePeer | None = None
    except_services: tuple[TableService, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """One policy over atoms: its subject's bit, the directions it isolates, its rules."""

    name: str
    subject: int
    isolates: frozenset[Direction]
    ingress: tuple[TableRule, ...]
    egress: tuple[TableRule, ...]
    origin: Origin = field(compare=False)

    def rules(self, direction: Direction) -> tuple[TableRule, ...]:
        """The rules of one direction."""
        return self.ingress if direction is Direction.INGRESS else self.egress


@dataclass(frozen=True, slots=True)
class TierTable:
    """One tier over atoms, policies in canonical order."""

    name: str
    mode: TierMode
    unmatched: Action
    policies: tuple[PolicyTable, ...]


@dataclass(frozen=True)
class DecisionIR:
    """The decided policy set. `ingress[row][column]` and `egress[row][column]` index `cells`."""

    atoms: Atoms
    tables: tuple[TierTable, ...]
    rules: tuple[RuleEntry, ...]
    diagrams: tuple[Diagram, ...]
    cells: tuple[Cell, ...]
    ingress: tuple[tuple[int, ...], ...]
    egress: tuple[tuple[int, ...], ...]

    def table(self, direction: Direction) -> tuple[tuple[int, ...], ...]:
        """The table of one direction: row, then column, to the index of a cell."""
        return self.ingress if direction is Direction.INGRESS else self.egress

    def cell(self, direction: Direction, row: int, column: int) -> Cell:
        """The cell of a (row, column)."""
        return self.cells[self.table(direction)[row][column]]

    def decide(self, direction: Direction, row: int, column: int, key: int) -> tuple[int, int]:
        """(action leaf, rule id) for a service key."""
        cell = self.cell(direction, row, column)
        return leaf_of(self.diagrams[cell.action], key), leaf_of(self.diagrams[cell.rule], key)

    @cached_property
    def action_diagrams(self) -> tuple[int, ...]:
        """Ids of the action diagrams that some cell uses, ascending."""
        return tuple(sorted({cell.action for cell in self.cells}))

    def describe_diagram(self, index: int) -> str:
        """An action diagram in words: the services that it allows."""
        allowed = diagram_regions(self.diagrams[index]).get(ALLOW_LEAF, IntervalSet())
        return f"allows {describe_services(allowed)}"
