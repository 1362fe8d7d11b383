# SPDX-License-Identifier: Apache-2.0
"""The cache of connections that begin: who gets which way of a set, and what another CPU sees meanwhile.

Where seeds are known, all connections between two pods are of one set (`one_set`). B may open nothing:
only an entry lets its packets pass.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from policyc.runtime import bpf_syscall
from policyc.runtime.clock import ticks_per_second
from policyc.runtime.connection_cache import ENTRY, SEEDS, WAYS
from tests.kernel import connection_tables
from tests.kernel.connection_tables import ENTRIES_AT, TAGS_AT, USED_AT, Place
from tests.kernel.node_under_test import A, B, NodeUnderTest
from tests.kernel.packets import ACK, FIN, SYN, frame, tcp, udp
from tests.kernel.service_yaml import PORT, TARGET, VIP, web
from tests.kernel.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
PORTS_WORD = 9  # of struct pc_ct_seeds
SET, TAG = 52, 21
"""The bits of a hash from which on it is a set, and a tag."""
THERE, TAKEN, TICK = 0x80000000, 0x40000000, 0x3FFFFFFF


def one_set(node: NodeUnderTest) -> int:
    """From now on ports alone make a hash, and that of its tag only; gives the set."""
    words = [0] * SEEDS
    words[0], words[PORTS_WORD] = 5 << SET, 1 << (TAG - 1)
    write_seeds(node, words)
    return 5


def write_seeds(node: NodeUnderTest, words: Iterable[int]) -> None:
    with node.shared_map("pc_ct_seed") as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack(f"={SEEDS}Q", *words))


def seeds(node: NodeUnderTest) -> tuple[int, ...]:
    with node.shared_map("pc_ct_seed") as fd:
        raw = bpf_syscall.map_lookup(fd, bytes(4), 8 * SEEDS)
    assert raw is not None
    return struct.unpack(f"={SEEDS}Q", raw)


def pin(node: NodeUnderTest, family: int) -> Path:
    return node.pins.map(f"pc_ct{family}_new")


def question(port: int, family: int = 4) -> bytes:
    return frame(A, B, udp(port, 53), family=family)


def answer(port: int, family: int = 4) -> bytes:
    return frame(B, A, udp(53, port), family=family)


def answered(node: NodeUnderTest, ports: Iterable[int], family: int = 4) -> list[int]:
    return [port for port in ports if node.sent_by("b", answer(port, family))]


def filled(node: NodeUnderTest, family: int) -> list[int]:
    """A set without a free way, each used a tenth of a second before the next; gives their ports."""
    node.load(node.policy().allow("a", "b", ANY))
    at = one_set(node)
    ports = list(range(1000, 1000 + WAYS))
    for port in ports:
        assert node.sent_by("a", question(port, family))
    by_way = {place.way: port for port, place in where(node, family).items()}
    assert set(by_way) == set(range(WAYS)), "each has a way of its own"
    for way in range(WAYS):
        age(node, family, at, way, (WAYS - way) * ticks_per_second() // 10)
    return [by_way[way] for way in range(WAYS)]


def where(node: NodeUnderTest, family: int) -> dict[int, Place]:
    """The port of who opened -> where its entry is."""
    size = 4 if family == 4 else 16
    found = {}
    for key, (place, *others) in connection_tables.places(pin(node, family)).items():
        ports = set(struct.unpack_from("!HH", key, 2 * size)) - {53, PORT, TARGET}
        assert not others
        found[ports.pop()] = place
    return found


def age(node: NodeUnderTest, family: int, at: int, way: int, ticks: int) -> None:
    """Let the connection of a way have begun so much earlier."""
    whole = connection_tables.read_set(pin(node, family), at)
    (used,) = struct.unpack_from("=I", whole, USED_AT + 4 * way)
    (expires,) = struct.unpack_from("=Q", whole, ENTRIES_AT + ENTRY * way)
    value = struct.pack("=I", (used - ticks) & 0xFFFFFFFF)
    connection_tables.patch_set(pin(node, family), at, USED_AT + 4 * way, value)
    expire(node, family, at, way, expires - ticks)


def tag(node: NodeUnderTest, family: int, at: int, way: int, word: int) -> None:
    value = struct.pack("=I", word)
    connection_tables.patch_set(pin(node, family), at, TAGS_AT + 4 * way, value)


def tags(node: NodeUnderTest, family: int, at: int) -> tuple[int, ...]:
    head = connection_tables.read_set(pin(node, family), at)
    return struct.unpack_from(f"={WAYS}I", head, TAGS_AT)


def expire(node: NodeUnderTest, family: int, at: int, way: int, tick: int = 1) -> None:
    value = struct.pack("=Q", tick)
    connection_tables.patch_set(pin(node, family), at, ENTRIES_AT + ENTRY * way, value)


# --- seeds --------------------------------------------------------------------------------------


def test_each_load_from_nothing_has_seeds_of_its_own_and_the_next_one_keeps_them(
    node: NodeUnderTest,
) -> None:
    node.load(node.policy())
    first = seeds(node)
    assert len(set(first)) == SEEDS
    assert all(first)
    node.load(node.policy())
    assert seeds(node) == first
    node.unload()
    node.load(node.policy())
    assert not set(seeds(node)) & set(first)


@families
def test_entries_are_where_the_seeds_say(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    base, *by = seeds(node)
    for port in range(1000, 1100):
        assert node.sent_by("a", question(port, family))
    found = connection_tables.places(pin(node, family))
    assert len(found) == 100
    for key, (place,) in found.items():
        words = struct.unpack(f"={len(key) // 4}I", key)
        if family == 4:
            by = [by[0], by[4], by[8], by[9]] if len(by) == SEEDS - 1 else by
        hashed = (base + sum(map(int.__mul__, by, words))) % (1 << 64)
        assert place.at == hashed >> SET
        assert tags(node, family, place.at)[place.way] == hashed >> TAG & 0x7FFFFFFF | THERE
    assert len({place.at for (place,) in found.values()}) > 90, "few share a set"


def test_without_seeds_nothing_is_remembered_and_nothing_passes(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    write_seeds(node, [0] * SEEDS)
    assert not node.sent_by("a", question(1000))
    assert node.drops() == {"ct full": 1}


# --- whose way ----------------------------------------------------------------------------------


@families
def test_of_a_full_set_the_oldest_goes(node: NodeUnderTest, family: int) -> None:
    first, *others = filled(node, family)
    assert node.sent_by("a", question(2000, family))
    assert answered(node, [first, *others, 2000], family) == [*others, 2000]


@families
def test_what_is_over_goes_before_what_is_older(node: NodeUnderTest, family: int) -> None:
    ports = filled(node, family)
    for way in range(WAYS):
        age(node, family, 5, way, 6 * ticks_per_second())
    expire(node, family, 5, 4)
    assert node.sent_by("a", question(2000, family))
    assert where(node, family)[2000].way == 4
    assert set(where(node, family)) == {*ports, 2000} - {ports[4]}


def now_of(node: NodeUnderTest, family: int) -> int:
    """The tick at which the last one was put."""
    head = connection_tables.read_set(pin(node, family), 5)
    ticks: tuple[int, ...] = struct.unpack_from(f"={WAYS}I", head, USED_AT)
    return max(ticks)


@families
def test_what_was_used_since_is_not_the_oldest(node: NodeUnderTest, family: int) -> None:
    """Packets write to their entry, by which it is seen that the first two were used last."""
    first, second, third, *others = filled(node, family)
    for way in (0, 1):
        whole = connection_tables.read_set(pin(node, family), 5)
        (expires,) = struct.unpack_from("=Q", whole, ENTRIES_AT + ENTRY * way)
        expire(node, family, 5, way, expires + ticks_per_second() // 2)
    assert node.sent_by("a", question(2000, family))
    assert answered(node, [first, second, third, *others, 2000], family) == [
        *(first, second),
        *others,
        2000,
    ]


def test_a_way_that_is_given_back_is_the_next_to_be_given(node: NodeUnderTest) -> None:
    ports = filled(node, 4)
    for port in ports[3:5]:
        assert node.sent_by("b", answer(port))
        assert node.sent_by("a", question(port)), "this one is kept elsewhere from now on"
    assert len(where(node, 4)) == WAYS - 2
    for port in (2000, 2001):
        assert node.sent_by("a", question(port))
    assert answered(node, [*ports, 2000, 2001]) == [*ports, 2000, 2001]


# --- ways that somebody writes ------------------------------------------------------------------


@families
def test_what_is_not_written_to_the_end_is_not_found_and_not_taken(
    node: NodeUnderTest, family: int
) -> None:
    first, second, *others = filled(node, family)
    word = TAKEN | now_of(node, family) & TICK
    tag(node, family, 5, 0, word)
    assert not answered(node, [first], family)
    assert node.sent_by("a", question(2000, family))
    assert tags(node, family, 5)[0] == word
    assert set(where(node, family)) == {*others, 2000}, "the second went instead"
    assert second not in where(node, family)


@families
def test_what_is_never_written_to_the_end_is_taken_after_a_minute(
    node: NodeUnderTest, family: int
) -> None:
    _, *others = filled(node, family)
    long_ago = now_of(node, family) - 61 * ticks_per_second()
    tag(node, family, 5, 0, TAKEN | long_ago & TICK)
    assert node.sent_by("a", question(2000, family))
    assert set(where(node, family)) == {*others, 2000}
    assert where(node, family)[2000].way == 0


def test_where_all_ways_are_being_written_there_is_no_room(node: NodeUnderTest) -> None:
    filled(node, 4)
    for way in range(WAYS):
        tag(node, 4, 5, way, TAKEN | now_of(node, 4) & TICK)
    assert not node.sent_by("a", question(2000))
    assert node.drops() == {"ct full": 1}


# --- more than one of a key ---------------------------------------------------------------------


def doubled(node: NodeUnderTest) -> None:
    """Two entries of one key, as two CPUs would have put them, of a connection that has ended."""
    node.load(node.policy().allow("a", "b", ANY))
    one_set(node)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, FIN | ACK)))
    ((place,),) = connection_tables.places(pin(node, 4)).values()
    whole = connection_tables.read_set(pin(node, 4), 5)
    to = (place.way + 3) % WAYS
    for at, size in ((TAGS_AT, 4), (USED_AT, 4), (64, 40), (ENTRIES_AT, ENTRY)):
        value = whole[at + place.way * size : at + (place.way + 1) * size]
        connection_tables.patch_set(pin(node, 4), 5, at + to * size, value)
    assert sum(map(bool, tags(node, 4, 5))) == 2


def test_of_two_entries_of_a_key_a_new_one_takes_the_place(node: NodeUnderTest) -> None:
    doubled(node)
    (before,) = {entry["flow_id"] for entry in node.table("pc_ct4_new")}
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    (after,) = node.table("pc_ct4_new")
    assert sum(map(bool, tags(node, 4, 5))) == 1
    assert after["flow_id"] != before
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK)))


def test_both_entries_of_a_key_are_taken_away(node: NodeUnderTest) -> None:
    doubled(node)
    node.load(node.policy())
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, ACK)))
    assert not any(tags(node, 4, 5))


@families
def test_a_new_connection_takes_the_place_of_one_that_is_over(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY), services=web(B))
    for flags in (SYN, FIN | ACK, SYN, FIN | ACK, SYN):
        assert node.sent_by("a", frame(A, VIP, tcp(1000, PORT, flags), family=family))
        assert len(node.table(f"pc_ct{family}_new")) == 2, "the entry proper, and its front"
