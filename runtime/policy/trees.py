# SPDX-License-Identifier: Apache-2.0
"""Words and search trees on the node, for diagrams that are first made here.

It is the twin of `ir/trees.py`. A word with LEAF is a verdict: ALLOW or not, and a rule id. Any other
word names a node of `pc_nodes`: seven lowest keys, eight children, a zero. Equal nodes are stored once,
also those that the compiler made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.placement import MapWrite
from policyc.runtime.policy.free_ids import Pool

LEAF = 1 << 31
ALLOW = 1 << 30
NODE_WORDS = 16
WIDTH = 8
NO_KEY = 0xFFFFFFFF
NODES = "pc_nodes"

Steps = Sequence[tuple[int, int]]
"""(lowest service key, word), ascending."""
Node = tuple[int, ...]


def verdict_word(allows: bool, rule: int) -> int:
    """The leaf that says allow or deny, and by which rule."""
    return LEAF | (ALLOW if allows else 0) | rule


@dataclass
class Trees:
    """The nodes of one generation. `n_too_long` counts diagrams that the datapath cannot search."""

    bundle: Bundle
    ids: Pool
    rounds: int
    n_too_long: int = 0
    _known: dict[Node, int] | None = None
    _writes: list[MapWrite] = field(default_factory=list)

    def word(self, steps: Steps) -> int | None:
        """The word of a diagram, with new nodes as needed; None if there is no room."""
        steps = _merged(steps)
        if len(steps) > WIDTH**self.rounds:
            self.n_too_long += 1
            return None
        return self._word(steps)

    def drain_writes(self) -> list[MapWrite]:
        """The nodes made since the last call."""
        writes, self._writes = self._writes, []
        return writes

    def _word(self, steps: list[tuple[int, int]]) -> int | None:
        if len(steps) == 1:
            return steps[0][1]
        share = 1
        while share * WIDTH < len(steps):
            share *= WIDTH
        parts = [steps[at : at + share] for at in range(0, len(steps), share)]
        children = [self._word(part) for part in parts]
        known = [child for child in children if child is not None]
        if len(known) < len(parts):
            return None
        lowest = [part[0][0] for part in parts[1:]]
        spare = WIDTH - len(parts)
        return self._id((*lowest, *[NO_KEY] * spare, *known, *[known[-1]] * spare, 0))

    def _id(self, node: Node) -> int | None:
        ids = self._ids()
        if node not in ids:
            at = self.ids.take()
            if at is None:
                return None
            ids[node] = at
            self._writes.append(MapWrite(NODES, at, node))
        return ids[node]

    def _ids(self) -> dict[Node, int]:
        """The ids of nodes by their contents; read when the first diagram is made, which is rare."""
        if self._known is None:
            words = self.bundle.seed_words(NODES)
            nodes = (tuple(words[at : at + NODE_WORDS]) for at in range(0, len(words), NODE_WORDS))
            self._known = {node: at for at, node in enumerate(nodes) if at}
        return self._known


def _merged(steps: Steps) -> list[tuple[int, int]]:
    """The steps without those that repeat the previous word."""
    out: list[tuple[int, int]] = []
    for lowest, word in steps:
        if not out or out[-1][1] != word:
            out.append((lowest, word))
    return out
