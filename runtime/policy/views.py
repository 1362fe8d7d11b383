# SPDX-License-Identifier: Apache-2.0
"""What one direction's rules read of an endpoint class, on the node: the twin of `ir/views.py`.

Rows and columns that a direction does not distinguish share an id in it. plan.json says what is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policyc.runtime.policy.classify import (
    ColumnKey,
    Named,
    RowKey,
)


@dataclass(frozen=True, slots=True)
class RowView:
    """A row, as the rules of one direction read it."""

    bits: frozenset[int]
    named: Named
    own4: frozenset[int]
    own6: frozenset[int]


@dataclass(frozen=True, slots=True)
class ColumnView:
    """A column, as the rules of one direction read it; `family` 0 if families are the same."""

    family: int
    bits: frozenset[int]
    blocks: frozenset[int]
    named: Named
    conditions: frozenset[int]
    is_local: bool


class View:
    """Selects what a direction reads, as `reads` of plan.json says."""

    def __init__(self, direction: str, reads: Mapping[str, Any]) -> None:
        self._named_of_row = direction == "ingress"
        self._subject_bits = frozenset(reads["subject_bits"])
        self._peer_bits = frozenset(reads["peer_bits"])
        self._own_blocks = frozenset(reads["own_blocks"])
        self._blocks = frozenset(reads["blocks"])
        self._ports = frozenset(reads["ports"])
        self._conditions = frozenset(reads["conditions"])
        self._reads_locality = bool(reads["reads_locality"])
        self._by_family = bool(reads["by_family"])

    def row(self, row: RowKey) -> RowView:
        """The part of a row that is read."""
        return RowView(
            row.bits & self._subject_bits,
            self._named(row.named if self._named_of_row else ()),
            row.own4 & self._own_blocks,
            row.own6 & self._own_blocks,
        )

    def column(self, column: ColumnKey, blocks: frozenset[int]) -> ColumnView:
        """The part of a column that is read; `blocks` are the blocks that contain its addresses."""
        held = (column.node or frozenset()) & self._conditions
        return ColumnView(
            column.family if self._by_family else 0,
            (column.bits or frozenset()) & self._peer_bits,
            blocks & self._blocks,
            self._named(() if self._named_of_row else column.named),
            held,
            column.is_local and self._reads_locality and bool(held),
        )

    def _named(self, named: Named) -> Named:
        return tuple((index, numbers) for index, numbers in named if index in self._ports)
