# SPDX-License-Identifier: Apache-2.0
"""How compact the tables of addresses are, which is what they are for; and when they say no."""

import itertools
import random
import struct
from dataclasses import replace

import pytest

from policyc.runtime.endpoints import endpoint_tables
from policyc.runtime.endpoints.double_buffer import Word
from policyc.runtime.endpoints.endpoint_tables import (
    LINE,
    MORE,
    NODE,
    Buffer,
    Table,
    TableFullError,
    first4,
    held4,
    is_settled,
    laid_out,
    who4,
    who6,
)

MOST4, MOST6 = 16384, 32768


def table4(addresses: "list[int] | range") -> Table:
    return laid_out({each: 1 + at for at, each in enumerate(addresses)}, {}, MOST4, MOST6, 1).table4


def lines(table: Table) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("=8Q", table.lines))


def n_at_home(table: Table) -> int:
    """How many addresses are found in the first line."""
    return sum(
        1
        for at, line in enumerate(lines(table))
        for slot in line
        if slot >> 32 and first4(slot >> 32, table.shift) == at
    )


def test_an_empty_table_has_no_address() -> None:
    buffer = laid_out({}, {}, MOST4, MOST6, 0)
    assert buffer == Buffer()
    assert (buffer.table4.shift, len(buffer.table4.lines)) == (63, 2 * LINE)
    assert (who4(buffer, 0), who4(buffer, 5), who6(buffer, 0), who6(buffer, 5)) == (0, 0, 0, 0)


def test_the_bitmap_answers_for_networks_without_endpoints() -> None:
    buffer = laid_out({0x0A000005: 1}, {0xFD00 << 112 | 5: 2}, MOST4, MOST6, 1)
    settled = [network for network in range(1 << 17) if is_settled(buffer, network)]
    assert is_settled(buffer, 0x0A0000)
    assert is_settled(buffer, 0xFD00 << 48)
    assert len(settled) < 16
    other = replace(buffer, networks=bytes(len(buffer.networks)))
    assert (who4(buffer, 0x0A000005), who4(other, 0x0A000005)) == (1, 0)


def test_a_table_has_at_least_two_lines() -> None:
    table = table4([0x0A000001])
    assert (len(table.lines), table.shift) == (2 * LINE, 63)


def test_eight_neighbours_share_a_line() -> None:
    table = table4(range(0x0A000000, 0x0A000000 + 8192))
    used = [line for line in lines(table) if any(slot >> 32 for slot in line)]
    assert len(used) < 8192 / 8 * 1.25
    assert n_at_home(table) > 8192 * 0.95


def test_sparse_addresses_fill_more_than_half_of_the_slots_and_are_at_home() -> None:
    rng = random.Random(1)
    table = table4(rng.sample(range(1, 1 << 32), 10000))
    assert len(table.lines) == 2048 * LINE
    assert n_at_home(table) > 9600


def test_a_full_range_of_addresses_needs_no_second_line() -> None:
    table = table4(range(0x0A010000, 0x0A020000))
    assert n_at_home(table) == 65536
    assert not any(line[1] & MORE for line in lines(table))


def test_flags_stay_with_their_address() -> None:
    buffer = laid_out({7: 3 | NODE, 8: 4}, {9: 5 | NODE}, MOST4, MOST6, 1)
    assert [who4(buffer, each) for each in (7, 8, 9)] == [3 | NODE, 4, 0]
    assert who6(buffer, 9) == 5 | NODE


@pytest.mark.parametrize("count", [17, 100])
def test_more_addresses_than_slots_are_refused(count: int) -> None:
    with pytest.raises(TableFullError):
        laid_out(dict.fromkeys(range(1, count), 1), {}, 1, MOST6, 1)
    with pytest.raises(TableFullError):
        laid_out({}, dict.fromkeys(range(1, count), 1), MOST4, 2, 1)


def test_the_seed_selects_the_second_line_of_an_address() -> None:
    groups = [each << 3 for each in range(1, 60000) if first4(each << 3, 50) == 7][:300]
    assert len(groups) >= 3
    who = {each + low: each for each in groups for low in range(8)}
    assert len(who) > 8
    one, other = (laid_out(who, {}, MOST4, MOST6, seed) for seed in (1, 2))
    assert one.table4 != other.table4
    assert all(who4(one, each) == found for each, found in who.items())


def test_addresses_that_share_first_lines_use_the_whole_table() -> None:
    chosen = (each << 3 for each in range(1, 1 << 29) if first4(each << 3, 57) == 5)
    who = dict.fromkeys(itertools.islice(chosen, 6000), 1)
    buffer = laid_out(who, {}, MOST4, MOST6, 1)
    assert held4(buffer.table4.lines) == who
    assert len(buffer.table4.lines) <= 4096 * LINE


def test_every_word_is_read_as_it_was_written() -> None:
    for word in (Word(), Word(1, 50, 49, 0xFFFFFFFF), Word(0, 63, 0, 1), Word(1, 0, 63, 0)):
        assert Word.of(word.number) == word
    assert Word.of(0) == Word()
    assert endpoint_tables.CAPACITY == MOST4 * 8 // 2 == MOST6 * 3 * 2 // 3
