# SPDX-License-Identifier: Apache-2.0
"""Places endpoints in a bundle's tables, and makes the rows, columns and diagrams that are new.

Takes classifier.json, plan.json, rules.json and the diagram seeds; gives placements and the map
writes they need. No compiler is at hand: a signature nobody has seen is decided here, by walking
the tiers for each stretch of service keys. Row 0 and column 0 are the answer when the reserved
ids run out: they deny.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from policyc.runtime.bundle import Bundle
from policyc.runtime.classify import Classifier, ColumnKey, RowKey
from policyc.runtime.endpoints import Address, EndpointRecord, NodeRecord
from policyc.runtime.placement import MapWrite, Placement
from policyc.runtime.tiers import TierRules

FAIL_CLOSED = 0
ALLOW_LEAF, DENY_LEAF = 1, 0
DENY_ALL_DIAGRAM, FAIL_CLOSED_DIAGRAM = 0, 1
Diagram = tuple[tuple[int, int], ...]


@dataclass
class Pool:
    """Ids of one kind: `next_id` is the first that is free, `capacity` the end."""

    next_id: int
    capacity: int
    n_refused: int = 0

    def take(self, count: int = 1) -> int | None:
        """The first of `count` ids, None where there is no room."""
        if not self.has(count):
            self.n_refused += 1
            return None
        first = self.next_id
        self.next_id += count
        return first

    def has(self, count: int = 1) -> bool:
        """Whether there is room for `count` more."""
        return self.next_id + count <= self.capacity


@dataclass
class PolicyTables:
    """One generation's tables as the node knows them. Not to be shared between generations."""

    bundle: Bundle
    _refused: list[str] = field(default_factory=list)
    _n_too_long: int = 0

    def __post_init__(self) -> None:
        plan = self.bundle.plan
        self._classifier = Classifier(self.bundle.classifier)
        self._tiers = TierRules(self.bundle.classifier, self.bundle.rules, plan["rules"])
        self._stride: int = plan["columns"]["capacity"]
        self._rows = {key: 1 + at for at, key in enumerate(self._classifier.known_rows())}
        self._columns = {key: 1 + at for at, key in enumerate(self._classifier.known_columns())}
        self._row_ids = Pool(plan["rows"]["used"], plan["rows"]["capacity"])
        self._column_ids = Pool(plan["columns"]["used"], plan["columns"]["capacity"])
        self._diagram_ids = Pool(plan["diagrams"]["used"], plan["diagrams"]["capacity"])
        self._step_ids = Pool(plan["steps"]["used"], plan["steps"]["capacity"])
        self._max_steps = 1 << plan["step_rounds"]
        self._diagrams = self._seeded_diagrams()
        self._writes: list[MapWrite] = []

    @property
    def reads_nodes(self) -> bool:
        """Whether the policies can tell a node from an address."""
        return self._classifier.reads_nodes

    def place(self, endpoint: EndpointRecord) -> Placement:
        """The endpoint's row and columns, made where they are new; 0 where there is no room."""
        shortages = self._n_shortages()
        row = self._row(self._classifier.row(endpoint))
        columns = {
            family: self._column(self._classifier.column(endpoint, family))
            for family in endpoint.addresses
        }
        if self._n_shortages() > shortages:
            self._refused.append(f"{endpoint.namespace}/{endpoint.name}")
        return Placement(row, columns.get(4, FAIL_CLOSED), columns.get(6, FAIL_CLOSED))

    def place_node(self, node: NodeRecord, address: Address, is_local: bool) -> Placement | None:
        """A node under one address; None where it is no more than that address to every rule."""
        key = self._classifier.node_column(node, address, is_local)
        if key is None:
            return None
        shortages = self._n_shortages()
        column = self._column(key)
        if self._n_shortages() > shortages:
            self._refused.append(f"node {node.name}")
        if address.version == 4:
            return Placement(FAIL_CLOSED, column, FAIL_CLOSED)
        return Placement(FAIL_CLOSED, FAIL_CLOSED, column)

    def drain_writes(self) -> list[MapWrite]:
        """What the placements since the last call need in the generation's maps."""
        writes, self._writes = self._writes, []
        return writes

    def new_rules(self) -> list[dict[str, object]]:
        """The default denies that were made here, as entries of rules.json."""
        return self._tiers.new_rules()

    def refused(self) -> tuple[str, ...]:
        """Endpoints whose placement ran out of rows, columns, diagrams, steps or rule ids."""
        return tuple(self._refused)

    def _n_shortages(self) -> int:
        """How often something has run out so far."""
        pools = (self._row_ids, self._column_ids, self._diagram_ids, self._step_ids)
        return sum(p.n_refused for p in pools) + self._n_too_long + self._tiers.n_refused

    def _row(self, key: RowKey) -> int:
        if key not in self._rows:
            at = self._row_ids.take()
            if at is None:
                return FAIL_CLOSED
            self._rows[key] = at
            for column_key, column in self._columns.items():
                self._decide(key, at, column_key, column)
        return self._rows[key]

    def _column(self, key: ColumnKey) -> int:
        if key not in self._columns:
            at = self._column_ids.take()
            if at is None:
                return FAIL_CLOSED
            self._columns[key] = at
            for row_key, row in self._rows.items():
                self._decide(row_key, row, key, at)
        return self._columns[key]

    def _decide(self, row_key: RowKey, row: int, column_key: ColumnKey, column: int) -> None:
        """Decide one cell in both directions."""
        blocks = self._classifier.blocks_of(column_key)
        for direction, name in (("ingress", "pc_cell_in"), ("egress", "pc_cell_eg")):
            rules = self._tiers.diagram(direction, row_key, column_key, blocks)
            actions = _merged(
                (lo, DENY_LEAF if self._tiers.denies(rule) else ALLOW_LEAF) for lo, rule in rules
            )
            ids = self._diagram(actions), self._diagram(rules)
            if None in ids:
                ids = DENY_ALL_DIAGRAM, FAIL_CLOSED_DIAGRAM
            words = tuple(at for at in ids if at is not None)
            self._writes.append(MapWrite(name, row * self._stride + column, words))

    def _diagram(self, diagram: Diagram) -> int | None:
        """The id of a diagram, None where there is no room for it."""
        if diagram not in self._diagrams:
            if len(diagram) >= self._max_steps:
                self._n_too_long += 1
                return None
            if not self._diagram_ids.has():  # or the steps below would be taken for nothing
                self._diagram_ids.n_refused += 1
                return None
            first, at = self._step_ids.take(len(diagram)), None
            if first is not None:
                at = self._diagram_ids.take()
            if first is None or at is None:
                return None
            for offset, step in enumerate(diagram):
                self._writes.append(MapWrite("pc_step", first + offset, step))
            self._writes.append(MapWrite("pc_diagram", at, (first, len(diagram))))
            self._diagrams[diagram] = at
        return self._diagrams[diagram]

    def _seeded_diagrams(self) -> dict[Diagram, int]:
        table, steps = self.bundle.seed_words("pc_diagram"), self.bundle.seed_words("pc_step")
        pairs = tuple(zip(steps[::2], steps[1::2], strict=True))
        found: dict[Diagram, int] = {}
        for at, (first, count) in enumerate(zip(table[::2], table[1::2], strict=True)):
            found.setdefault(pairs[first : first + count], at)
        return found


def _merged(steps: Iterable[tuple[int, int]]) -> Diagram:
    """Steps without those that repeat the leaf before them."""
    out: list[tuple[int, int]] = []
    for lo, leaf in steps:
        if not out or out[-1][1] != leaf:
            out.append((lo, leaf))
    return tuple(out)
