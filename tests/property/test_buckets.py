# SPDX-License-Identifier: Apache-2.0
"""What is put into buckets is found in one of two, and what is not is not; compiler and node agree."""

import random
from array import array
from types import SimpleNamespace
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.buckets import bucket_of, fill_buckets
from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.policy.cells import (
    CLOSED,
    HashedCells,
)
from policyc.runtime.policy.cells import bucket_of as bucket_on_node
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)


def found(words: "list[int] | array[int]", n_buckets: int, row: int, column: int) -> int:
    for at in bucket_of(row, column, n_buckets):
        for slot in range(4):
            if list(words[16 * at + 2 * slot : 16 * at + 2 * slot + 2]) == [column, row]:
                return words[16 * at + 8 + slot]
    return 0


@settings(max_examples=examples(60, 2))
@given(SEEDS)
def test_every_entry_is_in_one_of_its_two_buckets(seed: int) -> None:
    rng = random.Random(seed)
    n_buckets = 1 << rng.randint(4, 9)
    entries = {
        (rng.randrange(1, 2000), rng.randrange(1, 20000)): rng.randrange(1, 2**32)
        for _ in range(n_buckets * 4 * rng.choice((10, 60, 80)) // 100)
    }
    words = [word for bucket in fill_buckets(entries, n_buckets) for word in bucket]
    for (row, column), word in entries.items():
        assert bucket_of(row, column, n_buckets) == bucket_on_node(row, column, n_buckets)
        assert found(words, n_buckets, row, column) == word
    assert sum(
        1 for at in range(0, len(words), 16) for slot in range(4) if words[at + 2 * slot + 1]
    ) == len(entries)


@settings(max_examples=examples(60, 2))
@given(SEEDS)
def test_entries_of_the_node_are_found_and_entries_without_room_are_denied(seed: int) -> None:
    rng = random.Random(seed)
    n_buckets, allow = 16, 0xC0000002
    entries = {(row, column): 0xC0000000 + column for row in range(1, 5)
               for column in rng.sample(range(1, 30), rng.randint(0, 10))}  # fmt: skip
    seeds = {
        "pc_buckets_in": [word for bucket in fill_buckets(entries, n_buckets) for word in bucket],
        "pc_usual_in": [0, *[allow] * 4],
    }
    bundle = SimpleNamespace(seed_words=lambda name: tuple(seeds[name]))
    cells = HashedCells(cast("Bundle", bundle), "in", n_buckets)
    wanted = dict(entries)
    for column in range(100, 100 + rng.randint(1, 30)):
        words = {row: rng.choice((allow, 0x80000003, 0xC0000004)) for row in range(1, 5)}
        wanted |= {(row, column): word for row, word in words.items()}
        for write in cells.new_column(column, words):
            size = len(write.words)
            seeds[write.map_name][size * write.index : size * (write.index + 1)] = write.words
    for (row, column), word in wanted.items():
        seen = found(seeds["pc_buckets_in"], n_buckets, row, column) or seeds["pc_usual_in"][row]
        if seen != word:
            assert cells.n_refused and seen == CLOSED, "never another word than the one, or denial"
