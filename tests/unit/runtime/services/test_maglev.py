# SPDX-License-Identifier: Apache-2.0
"""Maglev's tables: even, the same everywhere, and little changed by an endpoint that goes or comes."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import pytest

from policyc.runtime.errors import InputError
from policyc.runtime.services.limits import NODE_LIMIT
from policyc.runtime.services.maglev import (
    SIZES,
    USUAL,
    Tables,
    slots,
)


def names(count: int) -> list[bytes]:
    return [f"10.0.{i >> 8}.{i & 255} 8080".encode() for i in range(count)]


def holders(of: Sequence[bytes], size: int = USUAL) -> list[bytes]:
    return [of[number] for number in slots(of, size)]


@pytest.mark.parametrize("size", SIZES)
def test_the_sizes_are_primes(size: int) -> None:
    assert all(size % factor for factor in range(2, int(size**0.5) + 1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_the_slots_are_shared_evenly(count: int, size: int) -> None:
    shares = Counter(slots(names(count), size))
    assert sum(shares.values()) == size and len(shares) == count
    assert max(shares.values()) - min(shares.values()) <= 1, "they take turns"


def test_a_maglev_table_with_too_few_slots_serves_the_first_endpoints() -> None:
    assert sorted(slots(names(300), 251)) == list(range(251)), "the first ones have one each"
    assert slots([], 251) == [0] * 251


@pytest.mark.parametrize("gone", [0, 37, 99])
def test_removing_one_of_100_endpoints_moves_at_most_1_percent_of_the_slots(gone: int) -> None:
    before = names(100)
    after = before[:gone] + before[gone + 1 :]
    pairs = list(zip(holders(before), holders(after), strict=True))
    moved = sum(was != now for was, now in pairs if was != before[gone])
    assert 0 < moved / USUAL <= 0.01
    back = sum(was != now for was, now in pairs if now in after) - sum(
        was == before[gone] for was, _ in pairs
    )
    assert back == moved, "when it comes again, so many move back"


def test_permutations_equal_the_paper() -> None:
    """The first of them has its slots by its own steps until it meets another's."""
    of, size = names(3), 251
    found = slots(of, size)
    turns: list[list[int]] = []
    for name in of:
        digest = hashlib.blake2b(name, digest_size=16).digest()
        offset = int.from_bytes(digest[:8], "big") % size
        skip = int.from_bytes(digest[8:], "big") % (size - 1) + 1
        turns.append([(offset + j * skip) % size for j in range(size)])
        assert sorted(turns[-1]) == list(range(size))
    expected: dict[int, int] = {}
    while len(expected) < size:
        for number, turn in enumerate(turns):
            free = next((place for place in turn if place not in expected), None)
            if free is not None:
                expected[free] = number
    assert found == [expected[place] for place in range(size)]


def test_a_set_of_endpoints_has_one_table() -> None:
    tables = Tables(NODE_LIMIT.slots)
    three, four = names(3), names(4)
    assert [tables.of(each, 251) for each in (three, four, three)] == [0, 251, 0]
    assert tables.of(three, 1021) == 502
    assert tables.of(three, 0) == tables.of([], 251) == 0
    memory = tables.memory()
    assert len(memory) == 2 * (251 + 251 + 1021)
    at = [int.from_bytes(memory[i : i + 2], "little") for i in range(0, len(memory), 2)]
    assert at[251:502] == slots(four, 251)


def test_maglev_tables_beyond_the_slots_are_refused() -> None:
    tables = Tables(NODE_LIMIT.slots)
    for count in range(1, NODE_LIMIT.slots // USUAL + 1):
        tables.of(names(count), USUAL)
    with pytest.raises(InputError, match="slots of Maglev tables") as caught:
        tables.of(names(99), USUAL)
    assert "policyc.dev/maglev-slots" in caught.value.hint
