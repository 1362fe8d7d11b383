# SPDX-License-Identifier: Apache-2.0
"""Which table holds an entry: the new-connection table (evictable) or the established table."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.objects import SMALL_TABLES
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
N_NEW = 32768
OF_A_POD = 4
"""The part of a table that a pod may fill: one in so many."""


def where(node: NodeUnderTest, family: int = 4) -> tuple[int, int]:
    """(entries in the new-connection table, entries in the established table)."""
    return len(node.table(f"pc_ct{family}_new")), len(node.table(f"pc_ct{family}"))


def open_to_all(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY))


def shake_hands(node: NodeUnderTest, port: int = 1000, family: int = 4) -> None:
    assert node.sent_by("a", frame(A, B, tcp(port, 80, SYN), family=family))
    assert node.sent_by("b", frame(B, A, tcp(80, port, SYN | ACK), family=family))
    assert node.sent_by("a", frame(A, B, tcp(port, 80, ACK), family=family))


@families
def test_tcp_enters_the_established_table_when_the_handshake_is_complete(
    node: NodeUnderTest, family: int
) -> None:
    open_to_all(node)
    for packet, expected in (
        (frame(A, B, tcp(1000, 80, SYN), family=family), (1, 0)),
        (frame(A, B, tcp(1000, 80, SYN), family=family), (1, 0)),
        (frame(B, A, tcp(80, 1000, SYN | ACK), family=family), (1, 0)),
        (frame(A, B, tcp(1000, 80, SYN), family=family), (1, 0)),
        (frame(A, B, tcp(1000, 80, ACK), family=family), (0, 1)),
        (frame(B, A, tcp(80, 1000, ACK), family=family), (0, 1)),
    ):
        assert node.sent_by("b" if packet[6:12] == bytes.fromhex("02000000000b") else "a", packet)
        assert where(node, family) == expected


@families
def test_udp_enters_the_established_table_with_its_second_request(
    node: NodeUnderTest, family: int
) -> None:
    open_to_all(node)
    question = frame(A, B, udp(5000, 53), family=family)
    assert node.sent_by("a", question)
    assert node.sent_by("a", question)
    assert node.sent_by("b", frame(B, A, udp(53, 5000), family=family))
    assert where(node, family) == (1, 0)
    assert node.sent_by("a", question)
    assert where(node, family) == (0, 1)


@pytest.mark.parametrize("last", [RST, FIN | ACK], ids=["reset", "closed"])
def test_a_connection_closed_in_its_handshake_stays_in_the_new_connection_table(
    node: NodeUnderTest, last: int
) -> None:
    open_to_all(node)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, last)))
    assert where(node) == (1, 0)


@pytest.mark.native
@pytest.mark.slow  # tests/attacks/test_table_quotas.py floods in every run
def test_a_flood_evicts_no_established_connection(node: NodeUnderTest) -> None:
    open_to_all(node)
    shake_hands(node, 999)
    for port in range(1024, 1024 + N_NEW // 2):
        node.sent_by("a", frame(A, B, tcp(port, 80, SYN)))
        node.sent_by("b", frame(B, A, tcp(80, port, SYN | ACK)))
    for port in range(1024, 1024 + N_NEW // 2):  # twice what a pod may have
        node.sent_by("a", frame(A, B, udp(port, 80)))
    n_new, n_kept = where(node)
    assert n_kept == 1
    assert 0.9 * N_NEW / OF_A_POD < n_new <= N_NEW / OF_A_POD
    # B may open nothing: only the entry lets its packet pass.
    assert node.sent_by("b", frame(B, A, tcp(80, 999, ACK)))


@families
def test_connections_stay_in_the_new_connection_table_when_the_established_table_is_full(
    node: NodeUnderTest, family: int
) -> None:
    open_to_all(node)
    with node.shared_map(f"pc_ct{family}") as fd:
        info = bpf_syscall.map_info(fd)
        n, value = info.max_entries, bytes(info.value_size)
        keys = b"".join(
            struct.pack("<I", at).ljust(info.key_size, b"\xff") for at in range(info.max_entries)
        )
        bpf_syscall.map_update_batch(fd, keys, value * n, n)
    shake_hands(node, 1000, family)
    shake_hands(node, 1001, family)
    assert len(node.table(f"pc_ct{family}_new")) == 2
    for port in (1000, 1001):
        assert node.sent_by("b", frame(B, A, tcp(80, port, ACK), family=family))


@pytest.mark.slow  # it compiles hooks with small tables
@pytest.mark.native
@families
def test_only_an_expired_entry_of_the_established_table_is_replaced(
    node: NodeUnderTest, variant: Callable[..., Path], family: int
) -> None:
    n = 64 // OF_A_POD
    node.load(node.policy().allow("a", "b", ANY), objects=variant("small", SMALL_TABLES))
    first, second = range(1000, 1000 + n), range(2000, 2000 + n // 2)
    for port in first:
        shake_hands(node, port, family)
    assert n / 2 < where(node, family)[1] <= n, (
        "a search looks at a few places of those that it may have"
    )
    shake_hands(node, 3000, family)
    n_new, n_kept = where(node, family)
    assert n_new + n_kept == n + 1 and n_kept <= n

    node.expire_connections(family, ports=first[::2])
    for port in second:
        shake_hands(node, port, family)
    assert where(node, family)[1] <= n
    # B may open nothing: only the entries let its packets pass.
    for port in (*first[1::2], *second):
        assert node.sent_by("b", frame(B, A, tcp(80, port, ACK), family=family))


@families
def test_a_new_connection_replaces_a_closed_established_one_of_the_same_tuple(
    node: NodeUnderTest, family: int
) -> None:
    open_to_all(node)
    shake_hands(node, 1000, family)
    (before,) = node.table(f"pc_ct{family}")
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, FIN | ACK), family=family))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, FIN | ACK), family=family))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN), family=family))
    (after,) = node.table(f"pc_ct{family}")
    assert where(node, family) == (0, 1)
    assert before["flow_id"] != after["flow_id"]
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))


@families
def test_an_expired_established_entry_does_not_hide_a_new_one(
    node: NodeUnderTest, family: int
) -> None:
    open_to_all(node)
    question, answer = (
        frame(A, B, udp(5000, 53), family=family),
        frame(B, A, udp(53, 5000), family=family),
    )
    for _ in range(2):
        assert node.sent_by("a", question)
        assert node.sent_by("b", answer)
    assert where(node, family) == (0, 1)
    node.expire_connections(family)
    assert not node.sent_by("b", answer)
    assert node.sent_by("a", question)
    assert node.sent_by("b", answer)
    assert where(node, family) == (0, 1)


def test_a_change_of_policy_denies_an_established_connection(node: NodeUnderTest) -> None:
    open_to_all(node)
    shake_hands(node)
    node.load(node.policy())
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, ACK)))
    assert not node.sent_by("b", frame(B, A, tcp(80, 1000, ACK)))
    assert where(node) == (0, 1), "the entry stores the opening direction"
