# SPDX-License-Identifier: Apache-2.0
"""The cost of operations in the kernel: the one table by which layouts are chosen.

Nanoseconds net of an empty program, with the same key always (`hot`) and with random keys, as
`tests/bench/costs.py` measured them. Real traffic lies between the two, so the mean of both counts.
Between measured points, a cost is interpolated over the logarithm of the size. Only ratios matter:
another machine scales all costs together.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import log2
from operator import itemgetter

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True)
class Curve:
    """Cost by size: ascending (size, hot ns, random ns), constant outside them."""

    what: str
    unit: str
    points: Sequence[tuple[int, float, float]]

    def at(self, size: float) -> float:
        """Nanoseconds at a size."""
        at = bisect_left(self.points, size, key=itemgetter(0))
        above = self.points[min(at, len(self.points) - 1)]
        below = self.points[max(at - 1, 0)]
        low, high = (below[1] + below[2]) / 2, (above[1] + above[2]) / 2
        if above is below:
            return low
        share = (log2(size) - log2(below[0])) / (log2(above[0]) - log2(below[0]))
        return low + share * (high - low)


KIB, MIB = 1 << 10, 1 << 20

ARRAY = Curve(
    "one value of an array map",
    "bytes in use",
    (
        (16 * KIB, 0.6, 0.6),
        (256 * KIB, 0.6, 0.8),
        (2 * MIB, 0.6, 6.5),
        (32 * MIB, 0.8, 120.0),
        (128 * MIB, 0.9, 146.0),
    ),
)
NODE = Curve(
    "one node of a search tree: its line, and seven comparisons without a branch",
    "bytes of all nodes",
    (
        (16 * KIB, 4.2, 4.5),
        (256 * KIB, 4.2, 4.6),
        (2 * MIB, 4.2, 4.8),
        (32 * MIB, 4.2, 121.0),
        (128 * MIB, 4.2, 145.0),
    ),
)
RANGE = Curve(
    "one range: a quarter of a line, and a comparison without a branch",
    "bytes of all nodes and ranges",
    (
        (16 * KIB, 2.3, 2.3),
        (256 * KIB, 2.3, 2.5),
        (2 * MIB, 2.3, 4.8),
        (32 * MIB, 2.3, 119.0),
        (128 * MIB, 2.3, 140.0),
    ),
)
FAN = Curve(
    "one word of a fan, by the leading bits of the service",
    "bytes of all lines",
    (
        (16 * KIB, 2.6, 2.6),
        (256 * KIB, 2.6, 2.6),
        (1 * MIB, 2.6, 3.6),
    ),
)
BUCKETS = Curve(
    "a search in at most two buckets, and the row's usual word",
    "bytes of all buckets",
    (
        (16 * KIB, 3.9, 4.5),
        (256 * KIB, 3.9, 4.6),
        (2 * MIB, 4.2, 6.0),
        (32 * MIB, 4.2, 71.0),
        (128 * MIB, 4.2, 82.0),
    ),
)
CODE = Curve(
    "a balanced tree of branches",
    "leaves",
    (
        (1, 0.0, 0.0),
        (2, 0.2, 3.6),
        (4, 0.3, 6.4),
        (8, 0.5, 9.0),
        (32, 0.8, 13.8),
        (128, 1.2, 18.8),
        (1024, 1.4, 27.2),
        (4096, 1.6, 40.0),
    ),
)
LPM = Curve(
    "a lookup in an LPM trie",
    "prefixes",
    (
        (1, 8.8, 9.0),
        (8, 15.2, 22.5),
        (1024, 39.2, 62.0),
        (8192, 62.2, 98.0),
        (131072, 80.3, 580.0),
    ),
)

INSTRUCTIONS_PER_LEAF = 3.5
INSTRUCTIONS_PER_NODE = 55
INSTRUCTIONS_OF_ARRAY = 12
INSTRUCTIONS_OF_BUCKETS = 60
INSTRUCTIONS_OF_LPM = 14

MAX_CODE_LEAVES = 256
"""The limit of one function: beyond a few hundred, clang's time grows with the square."""
MAX_CODE_STEPS = 512
"""The limit of all diagrams together: the verifier's time, and the instruction cache."""
HOT_BYTES = 256 * KIB
"""Up to so many bytes, nodes cost as if they were always in a cache."""
MAX_FAN_BYTES = 512 * KIB
"""The limit of all fans of a bundle: larger ones would displace the cells from the caches."""
MAX_TABLE_BYTES = 256 * MIB
"""The limit of one table: a node needs its memory for other work."""
