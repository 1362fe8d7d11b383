# SPDX-License-Identifier: Apache-2.0
"""Places endpoints in a bundle's tables, and makes new rows, columns and diagrams.

It takes classifier.json, plan.json, rules.json and seeds, and gives placements and the map writes that
they need. There is no compiler on a node: this decides a new signature by walking the tiers for each
segment of service keys. If the reserved ids run out, the result is row 0 and column 0, which deny.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.endpoints.placement import (
    MapWrite,
    Placement,
)
from policyc.runtime.errors import InputError
from policyc.runtime.policy.cells import (
    CLOSED,
    Cells,
    cells_of,
)
from policyc.runtime.policy.classify import (
    Classifier,
    ColumnKey,
    RowKey,
)
from policyc.runtime.policy.effects import Effects
from policyc.runtime.policy.fold import TierRules
from policyc.runtime.policy.free_ids import Pool
from policyc.runtime.policy.trees import (
    Trees,
    verdict_word,
)
from policyc.runtime.policy.views import (
    ColumnView,
    RowView,
    View,
)

FAIL_CLOSED = 0
PLAN_SCHEMA = "policyc.dev/plan/v2"
SHORT = {"ingress": "in", "egress": "eg"}
FAMILIES = (4, 6)
_UNSPECIFIED: Mapping[int, Address] = {4: IPv4Address(0), 6: IPv6Address(0)}


@dataclass
class PolicyTables:
    """One generation's tables on the node. Generations must not share it."""

    bundle: Bundle
    _refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.bundle.plan
        if plan.get("schema") != PLAN_SCHEMA:
            raise InputError(
                f"the bundle's plan.json is {plan.get('schema')!r}, expected {PLAN_SCHEMA!r}",
                "the bundle is from another release of policyc; compile it again with this one",
            )
        self._classifier = Classifier(self.bundle.classifier)
        self._tiers = TierRules(self.bundle.classifier, self.bundle.rules, plan["rules"])
        self._effects = Effects(self.bundle)
        nodes = plan["nodes"]
        self._trees = Trees(self.bundle, Pool(nodes["used"], nodes["capacity"]), plan["rounds"])
        self._directions = [
            _Direction(self, name, directed)
            for name, directed in plan["directions"].items()
            if directed["used"]
        ]

    @property
    def class_fields(self) -> tuple[str, ...]:
        """The fields of a class, in the order of its words."""
        return tuple(self.bundle.plan["class_fields"])

    @property
    def reads_nodes(self) -> bool:
        """Whether the policies distinguish a node from an address."""
        return self._classifier.reads_nodes

    def place(self, endpoint: EndpointRecord) -> Placement:
        """The endpoint's row and columns, made if they are new; 0 if there is no room.

        In a bundle for one node, a pod of another node is only a peer: it has no row.
        """
        shortages = self.n_shortages()
        is_subject = not self.bundle.node or endpoint.node in ("", self.bundle.node)
        row = self._classifier.row(endpoint)
        columns = {
            family: self._classifier.column(endpoint, family) for family in endpoint.addresses
        }
        found: Placement = {}
        for direction in self._directions:
            at = direction.row(row) if is_subject else FAIL_CLOSED
            direction.subjects.setdefault(at, {})[str(endpoint)] = None
            found[f"{direction.name}_row"] = at
            for family in FAMILIES:
                direction.place_column(found, family, columns.get(family))
        if self.n_shortages() > shortages or self._is_short(found):
            self._refused.append(f"{endpoint.namespace}/{endpoint.name}")
        return found

    def place_node(self, node: NodeRecord, address: Address, is_local: bool) -> Placement | None:
        """A node under one address; None if no rule distinguishes it from that address."""
        key = self._classifier.node_column(node, address, is_local)
        if key is None:
            return None
        shortages = self.n_shortages()
        found: Placement = {}
        for direction in self._directions:
            found[f"{direction.name}_row"] = FAIL_CLOSED
            for family in FAMILIES:
                direction.place_column(found, family, key if family == key.family else None)
        if self.n_shortages() > shortages or self._is_short(found):
            self._refused.append(f"node {node.name}")
        return found

    def place_host(self, subject: EndpointRecord, node: NodeRecord, address: Address) -> Placement:
        """The own node under one address: the row of that endpoint, the columns of the node."""
        row = self._classifier.row(subject)
        key = self._classifier.node_column(node, address, is_local=True)
        key = key or self._classifier.address_column(address)
        shortages = self.n_shortages()
        found: Placement = {}
        for direction in self._directions:
            at = direction.row(row)
            direction.subjects.setdefault(at, {})[f"node {node.name}"] = None
            found[f"{direction.name}_row"] = at
            for family in FAMILIES:
                direction.place_column(found, family, key if family == key.family else None)
        if self.n_shortages() > shortages or self._is_short(found):
            self._refused.append(f"node {node.name}")
        return found

    def place_own_node(self, node: NodeRecord) -> Placement:
        """The own node as peer, by its first address of each family, or by one that no host has."""
        found: Placement = {}
        shortages = self.n_shortages()
        for direction in self._directions:
            found[f"{direction.name}_row"] = FAIL_CLOSED
            for family, unspecified in _UNSPECIFIED.items():
                address = next((a for a in node.addresses if a.version == family), unspecified)
                key = self._classifier.node_column(node, address, is_local=True)
                key = key or self._classifier.address_column(address)
                direction.place_column(found, family, key)
        if self.n_shortages() > shortages or self._is_short(found):
            self._refused.append(f"node {node.name}")
        return found

    def drain_writes(self) -> list[MapWrite]:
        """The writes to the generation's maps that the placements since the last call need."""
        writes = [*self._trees.drain_writes(), *self._effects.writes(self._tiers.new_rules())]
        for direction in self._directions:
            writes += direction.drain_writes()
        return writes

    def new_rules(self) -> list[dict[str, Any]]:
        """The ids that were made here, as entries of rules.json."""
        return self._tiers.new_rules()

    def refused(self) -> tuple[str, ...]:
        """Endpoints whose placement ran out of rows, columns, nodes, cells or rule ids.

        This includes endpoints that came later to a row or column without room. It also includes
        endpoints whose row was closed because another endpoint's cells found no place.
        """
        closed = (name for direction in self._directions for name in direction.closed_subjects())
        return tuple(dict.fromkeys((*self._refused, *closed)))

    @property
    def n_unnoted(self) -> int:
        """How many decisions lost their notes because the rule ids ran out."""
        return self._tiers.n_unnoted

    def n_shortages(self) -> int:
        """How many shortages there were so far."""
        here = self._trees.ids.n_refused + self._trees.n_too_long + self._tiers.n_refused
        return here + sum(direction.n_refused for direction in self._directions)

    def _is_short(self, found: Placement) -> bool:
        return any(direction.is_short(found) for direction in self._directions)

    def blocks_of(self, column: ColumnKey) -> frozenset[int]:
        """The address blocks that contain a column's addresses."""
        return self._classifier.blocks_of(column)

    def known(self) -> tuple[list[RowKey], list[ColumnKey]]:
        """The rows and columns the compiler made."""
        return self._classifier.known_rows(), self._classifier.known_columns()

    def word(self, direction: str, row: RowKey, column: ColumnKey) -> int:
        """The word of a cell: the tiers' decision, as a leaf or a tree."""
        steps = self._tiers.diagram(direction, row, column, self.blocks_of(column))
        word = self._trees.word(
            [(lo, verdict_word(not self._tiers.denies(rule), rule)) for lo, rule in steps]
        )
        return CLOSED if word is None else word


class _Direction:
    """The rows and columns that one direction distinguishes, each with a key that represents it."""

    def __init__(self, tables: PolicyTables, name: str, plan: Mapping[str, Any]) -> None:
        self.name = name
        self._tables = tables
        self._view = View(name, plan["reads"])
        self._cells: Cells = cells_of(tables.bundle, SHORT[name], plan)
        self._fields: dict[int, str] = {int(f): n for f, n in plan["column_fields"].items()}
        self._row_pool = Pool(plan["rows"]["used"], plan["rows"]["capacity"])
        self._column_pool = Pool(plan["columns"]["used"], plan["columns"]["capacity"])
        self._rows: dict[RowView, tuple[int, RowKey]] = {}
        self._columns: dict[ColumnView, tuple[int, ColumnKey]] = {}
        rows, columns = tables.known()
        for row, at in zip(rows, plan["row_ids"], strict=True):
            self._rows.setdefault(self._view.row(row), (at, row))
        for column, at in zip(columns, plan["column_ids"], strict=True):
            viewed = self._view.column(column, tables.blocks_of(column))
            self._columns.setdefault(viewed, (at, column))
        self._writes: list[MapWrite] = []
        self.subjects: dict[int, dict[str, None]] = {}
        """Row -> its endpoints."""
        self._short_rows: set[int] = set()
        self._short_columns: set[int] = set()

    def is_short(self, placed: Placement) -> bool:
        """Whether there was a shortage when the placement's row or a column was made."""
        return placed[f"{self.name}_row"] in self._short_rows or any(
            placed[name] in self._short_columns for name in self._fields.values()
        )

    def closed_subjects(self) -> Iterator[str]:
        """The endpoints whose row denies more than their policies."""
        for row in sorted(self._cells.closed):
            yield from self.subjects.get(row, ())

    @property
    def n_refused(self) -> int:
        """How often rows, columns or cells have run out."""
        return self._row_pool.n_refused + self._column_pool.n_refused + self._cells.n_refused

    def drain_writes(self) -> list[MapWrite]:
        """The cells written since the last call."""
        writes, self._writes = self._writes, []
        return writes

    def place_column(self, found: Placement, family: int, key: ColumnKey | None) -> None:
        """Set the column of one family; if families share a field, that of the existing one."""
        name = self._fields[family]
        if key is not None:
            found[name] = self.column(key)
        else:
            found.setdefault(name, FAIL_CLOSED)

    def row(self, key: RowKey) -> int:
        """The id of a row; a new row is decided against every column."""
        viewed = self._view.row(key)
        if viewed not in self._rows:
            at = self._row_pool.take()
            if at is None:
                return FAIL_CLOSED
            self._rows[viewed] = at, key
            shortages = self._tables.n_shortages()
            words = {
                column: self._tables.word(self.name, key, column_key)
                for column, column_key in self._columns.values()
            }
            self._writes += self._cells.new_row(at, words)
            if self._tables.n_shortages() > shortages:
                self._short_rows.add(at)
        return self._rows[viewed][0]

    def column(self, key: ColumnKey) -> int:
        """The id of a column; a new column is decided against every row."""
        viewed = self._view.column(key, self._tables.blocks_of(key))
        if viewed not in self._columns:
            at = self._column_pool.take()
            if at is None:
                return FAIL_CLOSED
            self._columns[viewed] = at, key
            shortages = self._tables.n_shortages()
            words = {
                row: self._tables.word(self.name, row_key, key)
                for row, row_key in self._rows.values()
            }
            self._writes += self._cells.new_column(at, words)
            if self._tables.n_shortages() > shortages:
                self._short_columns.add(at)
        return self._columns[viewed][0]
