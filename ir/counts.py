# SPDX-License-Identifier: Apache-2.0
"""Counts in words: the noun agrees with the number."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policyc.ir.universe import Universe


def counted(number: int, one: str, many: str = "") -> str:
    """`1 rule`, `2 rules`, `no rules`. `many` is the plural if it is not `one` and an s."""
    return f"{number or 'no'} {one if number == 1 else many or f'{one}s'}"


def cluster_words(universe: "Universe", *more: str) -> str:
    """`the given cluster: 29 pods and workloads, 1 node`, followed by `more`."""
    pods = counted(len(universe.endpoints), "pod or workload", "pods and workloads")
    return f"the given cluster: {', '.join((pods, counted(len(universe.nodes), 'node'), *more))}"
