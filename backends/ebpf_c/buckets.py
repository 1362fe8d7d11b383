# SPDX-License-Identifier: Apache-2.0
"""The hash table of large cell tables: an entry is in one of two buckets of four entries, or absent.

The datapath reads at most two cache lines, whatever the table holds. If both buckets are full, one of
their entries moves to its other bucket. `runtime/policy/cells.py` is the twin on the node, which adds
entries.
"""

from collections.abc import Mapping

from policyc.ir.errors import InternalError

SLOTS = 4
"""Entries of a bucket."""
BUCKET_WORDS = 16
MASK64 = (1 << 64) - 1
FIRST_FACTOR = 0x9E3779B97F4A7C15
SECOND_FACTOR = 0xC2B2AE3D27D4EB4F
MAX_MOVES = 500

Bucket = list[int]
"""Four keys of two words (column, row), four words, FILLED, three zeros."""
FILLED = 1
"""In every bucket that was written: a key in neither of two filled buckets has its row's usual word."""


def bucket_of(row: int, column: int, n_buckets: int) -> tuple[int, int]:
    """The two buckets of a key; `n_buckets` is a power of two."""
    mixed = ((row << 32 | column) * FIRST_FACTOR) & MASK64
    mixed ^= mixed >> 32
    mixed = (mixed * SECOND_FACTOR) & MASK64
    return (mixed >> 32) & (n_buckets - 1), (mixed ^ mixed >> 47) & (n_buckets - 1)


def fill_buckets(entries: Mapping[tuple[int, int], int], n_buckets: int) -> list[Bucket]:
    """The buckets that hold (row, column) -> word."""
    held: list[list[tuple[int, int, int]]] = [[] for _ in range(n_buckets)]
    for (row, column), word in entries.items():
        _insert(held, (row, column, word), n_buckets)
    return [_packed(bucket) for bucket in held]


def _insert(
    held: list[list[tuple[int, int, int]]], entry: tuple[int, int, int], n_buckets: int
) -> None:
    avoid = -1
    for move in range(MAX_MOVES):
        first, second = bucket_of(entry[0], entry[1], n_buckets)
        at = min((first, second), key=lambda bucket: len(held[bucket]))
        if len(held[at]) < SLOTS:
            held[at].append(entry)
            return
        at = second if first == avoid else first
        entry, held[at][move % SLOTS] = held[at][move % SLOTS], entry
        avoid = at
    raise InternalError(f"{n_buckets} buckets are too few for the cells")


def _packed(bucket: list[tuple[int, int, int]]) -> Bucket:
    out = [0] * BUCKET_WORDS
    out[3 * SLOTS] = FILLED
    for slot, (row, column, word) in enumerate(bucket):
        out[2 * slot], out[2 * slot + 1], out[2 * SLOTS + slot] = column, row, word
    return out
