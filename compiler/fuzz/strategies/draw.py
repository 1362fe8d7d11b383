# SPDX-License-Identifier: Apache-2.0
"""The draw of one example: objects as in YAML, and the options under which the compiler reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policyc.backends.ebpf_c.frames import MEASURED, NO_CODE, Budgets
from policyc.ir.plan import AddressLayout, CellLayout, DiagramLayout, LongLayout

Object = dict[str, Any]
"""A Kubernetes object, of JSON values."""

LAYOUTS: Mapping[str, Budgets] = {
    "measured": MEASURED,
    "tables": NO_CODE,
    "hashed": Budgets(cells=CellLayout.HASH),
    "trees": Budgets(0, 0, AddressLayout.TREE),
    "tries": Budgets(0, 0, AddressLayout.LPM, CellLayout.HASH),
    "changes": Budgets(0, 0, diagrams=DiagramLayout.CHANGES),
    "fans": Budgets(0, 0, diagrams=DiagramLayout.CHANGES, long=LongLayout.FANS),
}
"""Layouts of the tables, by name; `measured` is what `compile` uses."""


@dataclass(frozen=True)
class Draw:
    """One example.

    `later` are pods (namespace/name) that the compiler is not given: the node places them. `salt`
    selects the flows that are tried.
    """

    objects: tuple[Object, ...]
    later: frozenset[str] = frozenset()
    layout: str = "measured"
    salt: int = 0
