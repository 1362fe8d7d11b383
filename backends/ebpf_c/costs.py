# SPDX-License-Identifier: Apache-2.0
"""What operations cost in the kernel: the one table that layouts are chosen by.

Nanoseconds net of an empty program, for keys drawn uniformly. `tests/bench/costs.py` measures them;
between its points the cost is interpolated over the logarithm of the size. Ratios matter here, not the
figures: another machine moves them together.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2


@dataclass(frozen=True)
class Curve:
    """Cost by size: ascending (size, ns) points, flat outside them."""

    what: str
    unit: str
    points: Sequence[tuple[int, float]]

    def at(self, size: float) -> float:
        """Nanoseconds at a size."""
        sizes = [point[0] for point in self.points]
        at = bisect_left(sizes, size)
        if at == 0:
            return self.points[0][1]
        if at == len(sizes):
            return self.points[-1][1]
        (low, before), (high, after) = self.points[at - 1], self.points[at]
        share = (log2(size) - log2(low)) / (log2(high) - log2(low))
        return before + share * (after - before)


KIB, MIB = 1 << 10, 1 << 20

ARRAY = Curve(
    "one value of an array map",
    "bytes in use",
    ((16 * KIB, 1.0), (256 * KIB, 2.5), (2 * MIB, 9.0), (32 * MIB, 30.0), (256 * MIB, 90.0)),
)
NODE = Curve(
    "one node of a search tree: its line, and seven comparisons without a branch",
    "bytes of all nodes",
    ((16 * KIB, 3.5), (256 * KIB, 5.0), (2 * MIB, 12.0), (32 * MIB, 35.0), (256 * MIB, 95.0)),
)
BUCKETS = Curve(
    "a search in at most two buckets of a hash table written inline",
    "bytes of all buckets",
    ((16 * KIB, 5.0), (256 * KIB, 9.0), (2 * MIB, 20.0), (32 * MIB, 60.0), (256 * MIB, 150.0)),
)
CODE = Curve(
    "a balanced tree of branches",
    "leaves",
    ((1, 0.0), (2, 0.5), (10, 1.5), (100, 11.0), (1000, 28.0), (4000, 49.0)),
)
LPM = Curve(
    "a lookup in an LPM trie",
    "prefixes",
    ((1, 15.0), (10, 18.0), (1000, 49.0), (10000, 85.0), (100000, 398.0)),
)

INSTRUCTIONS_PER_LEAF = 3.5
INSTRUCTIONS_PER_NODE = 55
INSTRUCTIONS_OF_ARRAY = 12
INSTRUCTIONS_OF_BUCKETS = 60
INSTRUCTIONS_OF_LPM = 14

MAX_CODE_LEAVES = 256
"""Of one function: clang's time grows with their square beyond a few hundred."""
MAX_CODE_STEPS = 512
"""Of all diagrams together: the verifier's time, and the instruction cache's room."""
MAX_TABLE_BYTES = 256 * MIB
"""Of one table: a node has other work for its memory."""
