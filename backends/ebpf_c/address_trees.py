# SPDX-License-Identifier: Apache-2.0
"""Trees over addresses: the cost of each candidate, and the construction of the chosen one.

The leading bits of an IPv4 address may index a table (`ROOT_BITS`). After its first 16 bits, `fans.py`
may put a second table in place of the first nodes. Blocks lie close together, so the /24s of one /16 are
then two words away.
"""

from itertools import groupby

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.fans import FanShape, shapes_of
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import AddressLayout, AddressPlan
from policyc.ir.trees import (
    KIND_BITS,
    LEAF,
    MOST_LINES,
    NODE_BYTES,
    WIDTH,
    Nodes,
    Steps,
    column_word,
    depth_of,
    nodes_of,
)

ROOT_BITS = (0, 8, 12, 16)
"""Leading bits of an IPv4 address that may index a table, in place of the first nodes."""
HALF = KIND_BITS
"""Bits of each 16-bit part of an IPv4 address: the key of one sort of fan."""

Runs = tuple[tuple[int, int], ...]
"""(first address, column), as `AddressPlan` has them."""


@dataclass(frozen=True)
class AddressTree:
    """A candidate tree: the average number of nodes per lookup, over the runs, and its cache lines.

    `fans` are by the value of the first 16 bits that they are for, `fanned` is the share of runs in
    them.
    """

    root_bits: int
    depth: float
    lines: int
    fans: dict[int, FanShape] | None = None
    fanned: float = 0.0

    @property
    def ns(self) -> float:
        """Predicted nanoseconds."""
        table = costs.ARRAY.at(4 << self.root_bits) if self.root_bits else 0.0
        fan = self.fanned * costs.FAN.at(self.lines * NODE_BYTES)
        return table + fan + self.depth * costs.NODE.at(self.lines * NODE_BYTES)

    @property
    def instructions(self) -> int:
        """Predicted instructions of the program."""
        tables = (1 + (self.fans is not None)) * costs.INSTRUCTIONS_OF_ARRAY
        return round(tables + costs.INSTRUCTIONS_PER_NODE * (self.depth + 1))

    @property
    def refused(self) -> str:
        """Why it cannot be built, "" if it can."""
        return "more lines than a word can name" if self.fans and self.lines >= MOST_LINES else ""

    @property
    def table_bytes(self) -> int:
        """The bytes of its cache lines, and of the table of leading bits."""
        return self.lines * NODE_BYTES + (4 << self.root_bits if self.root_bits else 0)


def best_tree(runs: Runs, family: int) -> AddressTree:
    """The cheapest tree without fans."""
    if family == 4:
        return min((_tree4(runs, bits) for bits in ROOT_BITS), key=lambda tree: tree.ns)
    tried = Nodes()
    root = tried.tree128(_words(runs))
    return AddressTree(0, float(sum(tried.rounds(root))), len(tried.nodes))


def tree_of_fans(runs: Runs) -> AddressTree:
    """A tree over the two 16-bit parts of IPv4 addresses, with a fan wherever a node is not enough."""
    halves = dict(_slots(_words(runs), HALF))
    long = {at: steps for at, steps in halves.items() if len(steps) > WIDTH}
    fans = shapes_of(long, has_others=False)
    depth, lines, n_steps, n_fanned = 0, 0, 0, 0
    for at, steps in halves.items():
        n_steps += len(steps)
        if at in fans:
            n_fanned += len(steps)
            depth += fans[at].depth * len(steps)
            lines += fans[at].lines
        else:
            depth += depth_of(len(steps)) * len(steps)
            lines += nodes_of(len(steps))
    return AddressTree(HALF, depth / n_steps, lines, fans, n_fanned / n_steps)


def tree_plan(family: int, runs: Runs, tree: AddressTree, nodes: Nodes) -> AddressPlan:
    """The plan of a tree; its nodes are added to `nodes`."""
    words, layout = _words(runs), AddressLayout.TREE if tree.fans is None else AddressLayout.FANS
    if not tree.root_bits:
        root = nodes.tree(words) if family == 4 else nodes.tree128(words)
        return AddressPlan(family, layout, runs, root=root, rounds=nodes.rounds(root))
    roots, rounds, before = list[int](), 0, 0
    for at, steps in _slots(words, tree.root_bits):
        roots += [before] * (at - len(roots))
        shape = tree.fans.get(at) if tree.fans else None
        if shape is not None:
            word = nodes.fan(steps, shape.below, shape.kinds, has_others=False)
            depth = shape.depth
        else:
            key = 0 if tree.fans is not None else at << 32 - tree.root_bits
            word = nodes.tree([(key + lowest, leaf) for lowest, leaf in steps])
            depth = 0 if word & LEAF else nodes.rounds(word)[0]
        roots.append(word)
        rounds, before = max(rounds, depth), steps[-1][1]
    roots += [before] * ((1 << tree.root_bits) - len(roots))
    return AddressPlan(
        family,
        layout,
        runs,
        root_bits=tree.root_bits,
        roots=tuple(roots),
        rounds=(rounds, 0, 0, 0),
    )


def _tree4(runs: Runs, root_bits: int) -> AddressTree:
    below = 32 - root_bits
    inside: dict[int, int] = {}
    for start, _ in runs:
        inside[start >> below] = inside.get(start >> below, 0) + 1
    sizes = [n + bool(slot) for slot, n in inside.items()]
    depth = sum(depth_of(n) * n for n in sizes) / sum(sizes)
    n_nodes = sum(-(-n // 7) for n in sizes if n > 1)
    return AddressTree(root_bits, depth, n_nodes)


def _words(runs: Runs) -> list[tuple[int, int]]:
    return [(start, column_word(column)) for start, column in runs]


def _slots(words: Steps, root_bits: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """For each value of the leading bits in which a run begins: the steps over the remaining bits."""
    below = 32 - root_bits
    out, before = [], 0
    for at, group in groupby(words, lambda step: step[0] >> below):
        steps = [(start & (1 << below) - 1, word) for start, word in group]
        if steps[0][0]:
            steps.insert(0, (0, before))
        before = steps[-1][1]
        out.append((at, steps))
    return out
