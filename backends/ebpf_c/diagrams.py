# SPDX-License-Identifier: Apache-2.0
"""The diagrams of services as search trees: stored whole, or as the difference from a similar diagram.

A diagram with one answer for a range of services and another for all others (a rule with a port) is a
range: a quarter of a cache line, and cheaper to search than a node.

If every peer of a pod has a rule of its own beside rules for any peer, there are as many long diagrams
as peers, and they differ in a step or two. Then a diagram is a range, or a node, with its own steps, and
leads on into the tree of its *base* everywhere else. That costs one more step per lookup. In return,
thousands of diagrams are as small as those of a port, and all share the cache lines of their base.
Bases, and diagrams that resemble no other, may begin with a fan (`fans.py`).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeVar

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.backends.ebpf_c.fans import FanShape, fans_of
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import MOST_ROUNDS, DiagramLayout, LongLayout
from policyc.ir.trees import (
    NO_KEY,
    NODE_BYTES,
    RANGES,
    WIDTH,
    Nodes,
    Steps,
    depth_of,
    nodes_of,
    verdict_word,
)
from policyc.ir.viewed import Verdicts

T = TypeVar("T")

_SAMPLES = 5
"""The steps of a diagram by which similar bases are found."""
_SHARE_OF_CHANGES = 4
"""A change has at most one in so many of the steps of the whole diagram, or fits a node."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The word of each cell, and the nodes on the longest path to a leaf; leaves have none."""

    words: tuple[int, ...]
    depths: Mapping[int, int]
    choices: tuple[Choice, ...]
    has_fans: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A diagram as steps over that of the cell `base`, with None where both are equal."""

    base: int
    steps: tuple[tuple[int, int | None], ...]


def trees_of(
    verdicts: Verdicts,
    nodes: Nodes,
    asked: DiagramLayout | None = None,
    asked_of_long: LongLayout | None = None,
) -> Trees:
    """The words of all cells: leaves if a cell always decides the same, else trees in `nodes`."""
    leaves = [verdict_word(allows, rule) for rule, allows in enumerate(verdicts.allows)]
    long = {
        cell: [(lo, leaves[rule]) for lo, rule in diagram]
        for cell, diagram in enumerate(verdicts.diagrams)
        if len(diagram) > WIDTH
    }
    changes, shared = _shared(long, len(nodes.nodes), asked)
    whole = {cell: steps for cell, steps in long.items() if cell not in changes}
    fans, fanned = fans_of(whole, len(nodes.nodes), asked_of_long)
    bases = _Bases(whole, fans, nodes)
    words: list[int] = []
    depths: dict[int, int] = {}
    for cell, diagram in enumerate(verdicts.diagrams):
        if len(diagram) == 1:
            words.append(leaves[diagram[0][1]])
            continue
        if cell in changes:
            word, depth = _changed(changes[cell], bases, nodes)
        elif cell in long:
            word, depth = bases.root(cell)
        else:
            word, depth = _short([(lo, leaves[rule]) for lo, rule in diagram], nodes)
        words.append(word)
        depths[word] = depth
    choices = tuple(each for each in (shared, fanned) if each)
    return Trees(tuple(words), depths, choices, bool(fans))


class _Bases:
    """The diagrams that are stored whole: fans at once, trees on first use."""

    def __init__(
        self, whole: Mapping[int, Steps], fans: Mapping[int, FanShape], nodes: Nodes
    ) -> None:
        self.whole, self._nodes = whole, nodes
        self._fans = {
            cell: (nodes.fan(whole[cell], shape.below, shape.kinds), shape.depth)
            for cell, shape in fans.items()
        }
        self._trees: dict[int, int] = {}

    def root(self, cell: int) -> tuple[int, int]:
        """(word, nodes on the longest path) of a diagram; a fan if it should be one."""
        return self._fans.get(cell) or (self.tree(cell), depth_of(len(self.whole[cell])))

    def tree(self, cell: int) -> int:
        """The word of a diagram as a tree of nodes, into which other nodes may lead."""
        if cell not in self._trees:
            self._trees[cell] = self._nodes.tree(self.whole[cell])
        return self._trees[cell]


def _short(steps: Steps, nodes: Nodes) -> tuple[int, int]:
    """(word, depth) of a diagram of two to eight steps."""
    found = one_range(steps)
    return (nodes.range(*found), 0) if found else (nodes.node(*zip(*steps, strict=True)), 1)


def one_range(steps: Sequence[tuple[int, T]]) -> tuple[int, int, T, T] | None:
    """(lowest key, highest, word inside, word outside) of steps that are exactly one range."""
    match steps:
        case [(_, outside), (lowest, inside)]:
            return lowest, NO_KEY, inside, outside
        case [(_, outside), (lowest, inside), (after, again)] if again == outside:
            return lowest, after - 1, inside, outside
    return None


def _shared(
    long: Mapping[int, Steps], n_nodes: int, asked: DiagramLayout | None
) -> tuple[dict[int, Change], Choice | None]:
    """The changes by which diagrams are cheaper than as trees of their own; none if they are not."""
    of_trees = sum(nodes_of(len(steps)) for steps in long.values())
    if (asked is None and NODE_BYTES * (n_nodes + of_trees) <= costs.HOT_BYTES) or not long:
        return {}, None  # the cache holds all of them
    changes = changes_of(long)
    ranges = sum(one_range(change.steps) is not None for change in changes.values())
    of_changes = -(-ranges // RANGES) + sum(
        nodes_of(len(changes[cell].steps if cell in changes else steps))
        for cell, steps in long.items()
        if cell not in changes or not one_range(changes[cell].steps)
    )
    depths = {
        DiagramLayout.TREES: sum(depth_of(len(steps)) for steps in long.values()),
        DiagramLayout.CHANGES: sum(
            _usual_depth(changes[cell], long) if cell in changes else depth_of(len(steps))
            for cell, steps in long.items()
        ),
    }
    candidates = [
        Candidate(
            layout.value,
            (
                depths[layout] * costs.NODE.at(table_bytes)
                + asked_ranges * costs.RANGE.at(table_bytes)
            )
            / len(long),
            0,
            table_bytes,
        )
        for layout, table_bytes, asked_ranges in (
            (DiagramLayout.TREES, NODE_BYTES * (n_nodes + of_trees), 0),
            (DiagramLayout.CHANGES, NODE_BYTES * (n_nodes + of_changes), ranges),
        )
    ]
    part = f"diagrams of services ({len(long)} of more than {WIDTH} steps)"
    choice = choose(part, candidates, asked.value if asked else None)
    is_shared = choice is not None and choice.chosen == DiagramLayout.CHANGES.value
    return changes if is_shared else {}, choice


def _depth(change: Change, long: Mapping[int, Steps]) -> int:
    """The nodes on the longest path through a change and its base; a range is not a node."""
    return _own_depth(change) + depth_of(len(long[change.base]))


def _usual_depth(change: Change, long: Mapping[int, Steps]) -> float:
    """The average depth if every other flow is one that the change is about."""
    return _own_depth(change) + depth_of(len(long[change.base])) / 2


def _own_depth(change: Change) -> int:
    return 0 if one_range(change.steps) else depth_of(len(change.steps))


def _changed(change: Change, bases: _Bases, nodes: Nodes) -> tuple[int, int]:
    """(word, depth) of a changed diagram. It leads on to the smallest sufficient part of its base."""
    if one_range(change.steps):
        root, depth = bases.root(change.base)
        found = one_range([(lo, root if word is None else word) for lo, word in change.steps])
        assert found is not None
        return nodes.range(*found), depth
    root = bases.tree(change.base)
    ends = [lo - 1 for lo, _ in change.steps[1:]] + [NO_KEY]
    steps = [
        (lo, nodes.within(root, lo, hi) if word is None else word)
        for (lo, word), hi in zip(change.steps, ends, strict=True)
    ]
    return nodes.tree(steps), _depth(change, bases.whole)


class _Base:
    """A diagram from which others may differ."""

    def __init__(self, cell: int, steps: Steps) -> None:
        self.cell, self.steps = cell, steps
        self.set = frozenset(steps)
        self.lowest = [lo for lo, _ in steps]

    def at(self, key: int) -> int:
        """The word for a key."""
        return self.steps[bisect_right(self.lowest, key) - 1][1]


def changes_of(long: Mapping[int, Steps]) -> dict[int, Change]:
    """Cell -> the difference of its diagram from another; cells without one are bases, or unlike others.

    The shortest diagrams are bases: a diagram without rules for one peer is the shortest.
    """
    found: dict[int, Change] = {}
    base_with: dict[tuple[int, int], _Base] = {}
    for cell in sorted(long, key=lambda cell: (len(long[cell]), cell)):
        steps = long[cell]
        mine = _Base(cell, steps)
        samples = steps[:: max(1, len(steps) // _SAMPLES)]
        like = {id(base): base for step in samples if (base := base_with.get(step)) is not None}
        base = min(like.values(), key=lambda base: len(base.set ^ mine.set), default=None)
        change = None if base is None else _change_of(base, mine)
        if change is not None and _is_worth_it(change, steps, long):
            found[cell] = change
        else:
            for step in steps:
                base_with.setdefault(step, mine)
    return found


def _is_worth_it(change: Change, steps: Steps, long: Mapping[int, Steps]) -> bool:
    most = max(WIDTH, len(steps) // _SHARE_OF_CHANGES)
    return len(change.steps) <= most and _depth(change, long) < MOST_ROUNDS


def _change_of(base: _Base, other: _Base) -> Change:
    """The diagram `other` over `base`: they differ only around steps that not both have."""
    events = sorted({lo for lo, _ in base.set ^ other.set})
    steps: list[tuple[int, int | None]] = []

    def put(lo: int, word: int | None) -> None:
        if not steps or steps[-1][1] != word:
            steps.append((lo, word))

    if not events or events[0] > 0:
        put(0, None)
    for at, lo in enumerate(events):
        word = other.at(lo)
        if word == base.at(lo):
            put(lo, None)
            continue
        put(lo, word)
        # From the next common step on, they are equal again.
        after = bisect_right(other.lowest, lo)
        until = events[at + 1] if at + 1 < len(events) else NO_KEY
        if after < len(other.lowest) and other.lowest[after] < until:
            put(other.lowest[after], None)
    return Change(base.cell, tuple(steps))
