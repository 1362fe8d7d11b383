# SPDX-License-Identifier: Apache-2.0
"""Batches: columns of flows as input, columns of verdicts as output, all numpy arrays.

A verdict word is `rule << 1 | allowed`. Rule ids are those of the Decision IR. After its last id come
the verdicts that no rule gives (`Special`), in this order.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]


class Special(IntEnum):
    """Verdicts that no rule gives, all of them ALLOW; the value counts from the last rule id."""

    OUTSIDE = 1
    """The end is not an endpoint (A3)."""
    TO_ITSELF = 2
    """Both ends are the same pod (A23)."""
    NEIGHBOURS = 3
    """IPv6 neighbour discovery (A26)."""
    FROM_ITS_NODE = 4
    """The flow is from the node that the destination runs on (A22)."""

    def word(self, n_rules: int) -> int:
        """Its verdict word, if the Decision IR has so many rules."""
        return (n_rules + self - 1) << 1 | 1


@dataclass(frozen=True, slots=True)
class Flows:
    """Columns of equal length: source and destination as numbers of ends, and service keys."""

    src: Words
    dst: Words
    service: Words

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Columns of equal length: verdict words of both ends, and 1 where both allow."""

    egress: Words
    ingress: Words
    allowed: Bytes


def words(values: "npt.ArrayLike") -> Words:
    """Numbers as a column that native code can read: contiguous, 32 bits each."""
    return np.ascontiguousarray(values, dtype=np.uint32)
