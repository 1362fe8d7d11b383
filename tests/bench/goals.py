# SPDX-License-Identifier: Apache-2.0
"""The goals of datapath.py and across.py, and whether the figures of a run meet them.

A goal is a ratio to plain routing. It is met if the upper quartile of the ratios is not above it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Goal(NamedTuple):
    """The ratios of some beds, by way of traffic."""

    group: str
    """The group of across.py; "" for beds of datapath.py."""
    bed: str
    """A pattern of the whole name."""
    ratios: Mapping[str, float]


class Judged(NamedTuple):
    """A figure beside its goal."""

    group: str
    bed: str
    family: int
    way: str
    middle: float
    high: float
    goal: float

    @property
    def is_met(self) -> bool:
        """Whether the upper quartile, as printed, is not above the goal."""
        return round(self.high, 2) <= self.goal


_POD = "to a pod of another node"
_FROM_OUTSIDE = "from outside to a node port, the endpoint on another node"
_ON_A_WIRE = "the same, with checksums and segmentation done by the sender, as on a wire"
GOALS = (
    Goal(
        "",
        r"this project, \d+ polic(y|ies)",
        {"udp": 0.89, "request": 0.88, "connect": 0.88, "http": 0.89},
    ),
    Goal(
        "",
        r"this project, through (a Service|one of \d+ Services)",
        {"udp": 0.90, "request": 0.88, "connect": 0.90, "http": 0.91},
    ),
    Goal(
        _POD,
        "this project, --forwarding redirect",
        {"udp": 0.92, "request": 0.90, "connect": 0.98},
    ),
    Goal(
        _POD,
        "this project, --forwarding redirect, through a Service",
        {"udp": 0.93, "request": 0.91, "connect": 1.00},
    ),
    *(
        Goal(
            group,
            "this project, --outside dsr-l2(, --xdp)?",
            {"udp": 1.00, "request": 1.00, "connect": 1.05, "stream": 1.10},
        )
        for group in (_FROM_OUTSIDE, _ON_A_WIRE)
    ),
    *(
        Goal(
            group,
            "this project, --outside tunnel(, --xdp)?",
            {"udp": 1.12, "request": 1.10, "connect": 1.15, "stream": 1.15},
        )
        for group in (_FROM_OUTSIDE, _ON_A_WIRE)
    ),
)


def judged(rows: Sequence[Mapping[str, Any]]) -> Iterator[Judged]:
    """The rows for which there is a goal, in their order."""
    for row in rows:
        for goal in GOALS:
            if goal.group != row.get("group", "") or not re.fullmatch(goal.bed, row["bed"]):
                continue
            if row["way"] in goal.ratios:
                yield Judged(
                    goal.group,
                    row["bed"],
                    row["family"],
                    row["way"],
                    row["ratio"],
                    row["high"],
                    goal.ratios[row["way"]],
                )


def goal_table(rows: Sequence[Mapping[str, Any]], what: Mapping[str, str]) -> list[str]:
    """Markdown: a line for each goal and family; `what` names the ways of traffic."""
    lines = [
        "A goal is met if the upper quartile is not above it.",
        "",
        "| bed | traffic | | median | upper quartile | goal | |",
        "|---" * 7 + "|",
    ]
    group = ""
    for each in judged(rows):
        if each.group != group:
            group = each.group
            lines.append(f"| **{group}** |" + " |" * 6)
        lines.append(
            f"| {each.bed} | {what[each.way]} | IPv{each.family} | {each.middle:.2f} |"
            f" {each.high:.2f} | {each.goal:.2f} | {'met' if each.is_met else 'not met'} |"
        )
    return lines
