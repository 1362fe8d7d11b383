# SPDX-License-Identifier: Apache-2.0
"""Words and search trees: the format in which tables hold verdicts, services and addresses.

A *word* is 32 bits. With `LEAF` set it is an answer: a verdict (`ALLOW` or not, and the id of the
deciding rule) or the id of a column. Without `LEAF` it names a *node*. A node is a cache line; it has up
to eight children and the lowest key of each child but the first. `NEXT_WORD` on such a word means that
the search continues with the next 32 bits of the key: that is how a tree reads an IPv6 address.

A service is 32 bits, so at the root of its tree the same bit means `RANGE`: a quarter of a cache line
with one word for the keys of a range and one for all others. There, or where a range leads on, a word
may also be a `FAN`: consecutive cache lines in place of nodes, with a word for each value of the key's
leading bits. The word for the first 16 bits of an IPv4 address may also be a fan, indexed by the last 16
bits.

The word 0 means "nothing": node 0 leads nowhere, so a word that was never written fails closed.
`runtime/policy/trees.py` is the twin on the node.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

LEAF = 1 << 31
ALLOW = 1 << 30
NEXT_WORD = 1 << 30
RANGE = 1 << 30
FAN = 1 << 29
ID_MASK = (1 << 30) - 1
NOTHING = 0

WIDTH = 8
NODE_WORDS = 16
RANGE_WORDS = 4
RANGES = NODE_WORDS // RANGE_WORDS
NODE_BYTES = 4 * NODE_WORDS
NO_KEY = 0xFFFFFFFF

KIND_BITS = 16
"""The number of bits below the kind of a service key."""
_FAN_LINES, _FAN_BELOW, _FAN_KINDS = 22, 4, 3
"""The bits of a fan's word: its first cache line, the key bits that it skips, the kinds it covers."""
MOST_LINES = 1 << _FAN_LINES

Node = tuple[int, ...]
"""Sixteen words: seven lowest keys (of the children from the second on), eight children, a zero."""

Steps = Sequence[tuple[int, int]]
"""(lowest key, word), ascending; the first is for everything below the second."""

_NO_KEYS = (NO_KEY,) * WIDTH
EMPTY_NODE: Node = (0,) * NODE_WORDS


def verdict_word(allows: bool, rule: int) -> int:
    """The leaf for allow or deny, by a rule id."""
    return LEAF | (ALLOW if allows else 0) | rule


def column_word(column: int) -> int:
    """The leaf that names a column."""
    return LEAF | column


def is_range(word: int) -> bool:
    """Whether the word of a diagram names a range."""
    return not word & LEAF and bool(word & RANGE)


def is_fan(word: int) -> bool:
    """Whether a word of a diagram, after a range, or of the first 16 bits of an address names a fan."""
    return not word & (LEAF | RANGE) and bool(word & FAN)


def fan_word(line: int, below: int, kinds: int) -> int:
    """The word of a fan at a cache line: over keys of the first `kinds` kinds without `below` bits."""
    return FAN | (kinds << _FAN_BELOW | below) << _FAN_LINES | line


def parts_of_fan(word: int) -> tuple[int, int, int]:
    """(cache line, bits below, kinds) of a fan's word."""
    above = word >> _FAN_LINES
    kinds = above >> _FAN_BELOW & (1 << _FAN_KINDS) - 1
    return word & MOST_LINES - 1, above & (1 << _FAN_BELOW) - 1, kinds


def diagram_name(word: int) -> str:
    """The name of the diagram of a word that is not a leaf: its node or cache line, and its range."""
    if is_fan(word):
        return str(parts_of_fan(word)[0])
    at = word & ID_MASK
    return f"{at // RANGES}.{at % RANGES}" if word & RANGE else str(at)


def depth_of(n_steps: int) -> int:
    """The nodes on the path to a leaf in a tree of so many steps; 0 for a leaf alone."""
    depth, reach = 0, 1
    while reach < n_steps:
        depth, reach = depth + 1, reach * WIDTH
    return depth


def nodes_of(n_steps: int) -> int:
    """The number of nodes of a tree of so many steps."""
    total = 0
    while n_steps > 1:
        n_steps = -(-n_steps // WIDTH)
        total += n_steps
    return total


def merged(steps: Steps) -> list[tuple[int, int]]:
    """Steps without those that repeat the word of the step before."""
    out: list[tuple[int, int]] = []
    for lowest, word in steps:
        if not out or out[-1][1] != word:
            out.append((lowest, word))
    return out


@dataclass
class Nodes:
    """The nodes of all trees, equal ones once. Ids are their indices; node 0 leads nowhere."""

    nodes: list[Node] = field(default_factory=lambda: [EMPTY_NODE])
    _ids: dict[Node, int] = field(default_factory=dict)
    _ranges: dict[tuple[int, ...], int] = field(default_factory=dict)
    _open: int = 0
    """The node with room for a range, 0 where there is none."""

    @classmethod
    def after(cls, nodes: Sequence[Node]) -> "Nodes":
        """A table that begins with these nodes, of which the first leads nowhere."""
        return cls(list(nodes), {node: at for at, node in enumerate(nodes) if at})

    def tree(self, steps: Steps, *, is_chained: bool = False) -> int:
        """The word of a tree over 32-bit keys: a leaf if there is one step, else its root.

        `is_chained` makes a node even of one step, because NEXT_WORD can only lead to a node.
        """
        steps = merged(steps)
        if len(steps) == 1 and not is_chained:
            return steps[0][1]
        return self._node_over(steps)

    def node(self, lowest: Sequence[int], words: Sequence[int]) -> int:
        """The node of up to eight steps, given as their keys and their words, no two of them equal."""
        missing = WIDTH - len(words)
        last = (words[-1],) * missing
        return self._id((*lowest[1:], *_NO_KEYS[:missing], *words, *last, 0))

    def range(self, lowest: int, highest: int, inside: int, outside: int) -> int:
        """The word of a range: `inside` for its keys, else `outside`, which may be a tree's word."""
        found = (lowest, highest - lowest, inside, outside)
        word = self._ranges.get(found)
        if word is not None:
            return word
        slot = len(self._ranges) % RANGES
        if not slot:
            self._open = len(self.nodes)
            self.nodes.append(EMPTY_NODE)
        at, line = slot * RANGE_WORDS, self.nodes[self._open]
        self.nodes[self._open] = line[:at] + found + line[at + RANGE_WORDS :]
        word = self._ranges[found] = RANGE | self._open * RANGES + slot
        return word

    def fan(self, steps: Steps, below: int, kinds: int, *, has_others: bool = True) -> int:
        """The word of a fan of steps (`fan_word`): a tree for each value of the bits that it reads.

        Keys of other kinds, which are above, use the last tree; 16-bit parts of addresses have no other
        kinds. No word of the steps is a range.
        """
        beyond = kinds << KIND_BITS - below
        words: list[int] = []
        before = NOTHING
        for place, group in groupby(merged(steps), lambda step: min(step[0] >> below, beyond)):
            words += [before] * (place - len(words))
            here = list(group)
            if here[0][0] > place << below:
                here.insert(0, (place << below, before))
            before = here[-1][1]
            words.append(self.tree(here))
        words += [before] * (beyond + has_others - len(words))
        words += [NOTHING] * (-len(words) % NODE_WORDS)
        line = len(self.nodes)
        self.nodes += zip(*[iter(words)] * NODE_WORDS, strict=True)
        return fan_word(line, below, kinds)

    def _node_over(self, steps: list[tuple[int, int]]) -> int:
        if len(steps) <= WIDTH:
            return self.node(*zip(*steps, strict=True))
        share = WIDTH ** max(0, depth_of(len(steps)) - 1)
        parts = [steps[at : at + share] for at in range(0, len(steps), share)]
        children = [part[0][1] if len(part) == 1 else self._node_over(part) for part in parts]
        lowest = [part[0][0] for part in parts[1:]]
        spare = WIDTH - len(children)
        return self._id((*lowest, *[NO_KEY] * spare, *children, *[children[-1]] * spare, 0))

    def _id(self, node: Node) -> int:
        if node not in self._ids:
            self._ids[node] = len(self.nodes)
            self.nodes.append(node)
        return self._ids[node]

    def tree128(self, runs: Steps, part: int = 0) -> int:
        """The word of a tree over the rest of a 128-bit key, from its 32-bit word `part` on."""
        if len(merged(runs)) == 1 and part == 0:
            return runs[0][1]
        below = 32 * (3 - part)
        return self.tree(self._chained(merged(runs), part, below), is_chained=True)

    def _chained(self, runs: list[tuple[int, int]], part: int, below: int) -> list[tuple[int, int]]:
        """The steps over one 32-bit word.

        If a value of the word is divided further, its step leads to a tree over the next word.
        """
        steps: list[tuple[int, int]] = []
        at, current = 0, runs[0][1]
        while at < len(runs):
            value = runs[at][0] >> below
            inside: list[tuple[int, int]] = []
            while at < len(runs) and runs[at][0] >> below == value:
                inside.append((runs[at][0] & ((1 << below) - 1), runs[at][1]))
                at += 1
            if inside[0][0] != 0:
                inside.insert(0, (0, current))
            current = inside[-1][1]
            if len(inside) == 1:
                steps.append((value, current))
                continue
            steps.append((value, NEXT_WORD | self.tree128(inside, part + 1)))
            if value < NO_KEY and not (at < len(runs) and runs[at][0] >> below == value + 1):
                steps.append((value + 1, current))
        return steps

    def within(self, word: int, lowest: int, highest: int) -> int:
        """The deepest word below `word` that gives the same answers for all keys of a range."""
        while not word & (LEAF | NEXT_WORD):
            node = self.nodes[word]
            first, last = (_place_of(node, key) for key in (lowest, highest))
            children = set(node[WIDTH - 1 + first : WIDTH + last])
            if len(children) > 1:
                break
            word = children.pop()
        return word

    def rounds(self, word: int) -> tuple[int, int, int, int]:
        """The number of nodes on the longest path to a leaf, for each 32-bit word of the key."""
        found = [0, 0, 0, 0]
        self._walk(word, 0, 0, found, set())
        return found[0], found[1], found[2], found[3]

    def _walk(
        self, word: int, part: int, depth: int, found: list[int], seen: set[tuple[int, int, int]]
    ) -> None:
        if word & LEAF or (word, part, depth) in seen:
            found[part] = max(found[part], depth)
            return
        seen.add((word, part, depth))
        if word & NEXT_WORD:
            found[part] = max(found[part], depth)
            part, depth = part + 1, 0
        for child in set(self.nodes[word & ID_MASK][WIDTH - 1 : 2 * WIDTH - 1]):
            self._walk(child, part, depth + 1, found, seen)


def search(nodes: Sequence[Node], word: int, key: int, rounds: int) -> int:
    """The leaf for a 32-bit key as the datapath finds it; NOTHING if the rounds do not reach one."""
    for _ in range(rounds):
        if word & (LEAF | NEXT_WORD):
            break
        word = child_of(nodes[word & ID_MASK], key)
    return word


def search_service(nodes: Sequence[Node], word: int, key: int, rounds: int) -> int:
    """The leaf for a service key, whose tree may begin with a range, a fan, or a fan after a range."""
    if is_range(word):
        at = word & ID_MASK
        words = nodes[at // RANGES][at % RANGES * RANGE_WORDS :]
        word = words[2] if (key - words[0]) & 0xFFFFFFFF <= words[1] else words[3]
    return search_fan(nodes, word, key, rounds)


def search_fan(nodes: Sequence[Node], word: int, key: int, rounds: int) -> int:
    """The leaf for a key whose tree may begin with a fan."""
    if is_fan(word):
        line, below, kinds = parts_of_fan(word)
        place = min(key, kinds << KIND_BITS) >> below
        word = nodes[line + place // NODE_WORDS][place % NODE_WORDS]
    return search(nodes, word, key, rounds)


def search128(nodes: Sequence[Node], word: int, key: int, rounds: Sequence[int]) -> int:
    """The same for a 128-bit key, with the rounds for each of its words."""
    for part in range(4):
        if word & LEAF:
            break
        word = search(nodes, word & ID_MASK, key >> 32 * (3 - part) & 0xFFFFFFFF, rounds[part])
        if not word & (LEAF | NEXT_WORD):
            return NOTHING
    return word if word & LEAF else NOTHING


def child_of(node: Node, key: int) -> int:
    """The child of a node for a key."""
    return node[WIDTH - 1 + _place_of(node, key)]


def _place_of(node: Node, key: int) -> int:
    return bisect_right(node, key, 0, WIDTH - 1)
