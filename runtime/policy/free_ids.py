# SPDX-License-Identifier: Apache-2.0
"""Ids that a bundle reserves for the node, until none is left."""

from dataclasses import dataclass


@dataclass
class Pool:
    """Ids of one kind: `next_id` is the first free one, `capacity` the end."""

    next_id: int
    capacity: int
    n_refused: int = 0

    def take(self) -> int | None:
        """The next id, None if none is left."""
        if self.next_id >= self.capacity:
            self.n_refused += 1
            return None
        self.next_id += 1
        return self.next_id - 1
