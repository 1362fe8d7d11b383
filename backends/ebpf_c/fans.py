# SPDX-License-Identifier: Apache-2.0
"""Fans: tables over leading bits, at the root of long service diagrams or of 16-bit parts of addresses.

Each level of a tree waits for the one above it, and thousands of ports need five levels. One word of a
fan skips most of them, or is the answer itself. Fans are cache lines among the nodes and compete for the
same cache. So the fans of one layout share `costs.MAX_FAN_BYTES`, and the size of a fan is in proportion
to its steps.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import LongLayout
from policyc.ir.trees import (
    KIND_BITS,
    MOST_LINES,
    NODE_BYTES,
    NODE_WORDS,
    WIDTH,
    Steps,
    depth_of,
    nodes_of,
)

_BYTES_PER_STEP = 256


@dataclass(frozen=True, slots=True)
class FanShape:
    """A fan: the arguments of `Nodes.fan`, the nodes on the longest path below, all cache lines."""

    below: int
    kinds: int
    depth: int
    lines: int


def fans_of(
    long: Mapping[int, Steps], n_nodes: int, asked: LongLayout | None
) -> tuple[dict[int, FanShape], Choice | None]:
    """Cell -> its fan, of long diagrams that are stored whole; none if trees are cheaper.

    `n_nodes`: nodes beside these diagrams.
    """
    if not long:
        return {}, None
    shapes = shapes_of(long)
    of_trees = n_nodes + sum(nodes_of(len(steps)) for steps in long.values())
    of_fans = n_nodes + sum(shape.lines for shape in shapes.values())
    per_tree, per_fan = (costs.NODE.at(n * NODE_BYTES) for n in (of_trees, of_fans))
    trees_ns = sum(depth_of(len(steps)) for steps in long.values()) * per_tree / len(long)
    below_ns = sum(shape.depth for shape in shapes.values()) * per_fan / len(long)
    candidates = (
        Candidate(LongLayout.TREES.value, trees_ns, 0, of_trees * NODE_BYTES),
        Candidate(
            LongLayout.FANS.value,
            costs.FAN.at(of_fans * NODE_BYTES) + below_ns,
            0,
            of_fans * NODE_BYTES,
            "" if of_fans < MOST_LINES else "more lines than a word can name",
        ),
    )
    part = f"diagrams of services searched as a whole ({len(long)} of more than {WIDTH} steps)"
    choice = choose(part, candidates, asked.value if asked else None)
    is_fan = choice is not None and choice.chosen == LongLayout.FANS.value
    return shapes if is_fan else {}, choice


def shapes_of(long: Mapping[int, Steps], *, has_others: bool = True) -> dict[int, FanShape]:
    """The fan of each of some trees, which share the room."""
    room = costs.MAX_FAN_BYTES // max(1, len(long))
    return {which: shape_of(steps, room, has_others=has_others) for which, steps in long.items()}


def shape_of(steps: Steps, room: int, *, has_others: bool = True) -> FanShape:
    """The fan over as many bits as fit in the room, in bytes, and no more than improve it.

    `has_others`: whether there are keys of other kinds than the fan's, as for services.
    """
    starts = [lo for lo, _ in steps]
    kinds = 1
    while len(starts) - bisect_right(starts, kinds << KIND_BITS) >= WIDTH:
        kinds += 1
    most = max(NODE_BYTES, min(room, _BYTES_PER_STEP * len(steps)))
    below = 0
    while _lines(kinds, below, has_others) * NODE_BYTES > most and below < KIND_BITS - 1:
        below += 1
    shape = _shape(starts, below, kinds, has_others)
    while below < KIND_BITS - 1:
        below += 1
        smaller = _shape(starts, below, kinds, has_others)
        if smaller.depth > shape.depth:
            break
        shape = smaller
    return shape


def _lines(kinds: int, below: int, has_others: bool) -> int:
    return -(-((kinds << KIND_BITS - below) + has_others) // NODE_WORDS)


def _shape(starts: Sequence[int], below: int, kinds: int, has_others: bool) -> FanShape:
    beyond = kinds << KIND_BITS - below
    depth, lines = 0, _lines(kinds, below, has_others)
    for place, group in groupby(starts, lambda lo: min(lo >> below, beyond)):
        here = list(group)
        n_steps = len(here) + (here[0] > place << below)
        depth = max(depth, depth_of(n_steps))
        lines += nodes_of(n_steps)
    return FanShape(below, kinds, depth, lines)
