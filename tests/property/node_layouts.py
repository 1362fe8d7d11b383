# SPDX-License-Identifier: Apache-2.0
"""Layouts of node tables, and a part of a universe that the compiler knew."""

import random

from policyc.backends.ebpf_c.frames import MEASURED, NO_CODE, Budgets
from policyc.ir.plan import (
    AddressLayout,
    CellLayout,
    DiagramLayout,
    LongLayout,
)
from policyc.ir.universe import Universe
from tests.property.cases import Case

LAYOUTS = (
    MEASURED,
    NO_CODE,
    Budgets(cells=CellLayout.HASH),
    Budgets(0, 0, AddressLayout.TREE),
    Budgets(0, 0, AddressLayout.LPM, CellLayout.HASH),
    Budgets(0, 0, diagrams=DiagramLayout.CHANGES),
    Budgets(0, 0, diagrams=DiagramLayout.CHANGES, long=LongLayout.FANS),
)


def known_part(case: Case, rng: random.Random) -> Universe | None:
    """The input of the compiler: none or some of the endpoints."""
    if rng.random() < 0.3:
        return None
    return Universe(
        tuple(e for e in case.universe.endpoints if rng.random() < 0.5), case.universe.nodes
    )
