# SPDX-License-Identifier: Apache-2.0
"""Two CPUs that write to one set of the cache of new connections, with objects that take their
time where the other one could see what is half done.
"""

import multiprocessing
import os
import struct
import time
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import pytest

from policyc.runtime.connection_cache import WAYS
from tests.kernel import connection_tables
from tests.kernel.node_under_test import LOCAL, A, B, NodeUnderTest
from tests.kernel.packets import ACK, FIN, SYN, frame, tcp
from tests.kernel.service_yaml import PORT, TARGET, VIP, web
from tests.kernel.table_policy import ANY
from tests.kernel.test_connection_cache import THERE, one_set, pin, tags

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
SECONDS = 3
FILLED = "set->ct[way] = *ct;"
DAWDLE = "for (int i = 0; i < 200; i++) (void)*(volatile __u64 *)&(__u64){bpf_ktime_get_ns()};"
PORTS_AT = {4: 34, 6: 54}
FRONT = 1024  # enum pc_ct_state
NAT_AT = 10  # of struct pc_ct_end

Work = Callable[[int], bool]
"""Given a number that no other call has, does something; whether it went as it should."""


@pytest.fixture
def slow(variant: Callable[..., Path]) -> Path:
    """Objects that dawdle while a way is theirs."""
    return variant("slow", {"ct_new_put.h": (FILLED, f"{FILLED} {{ {DAWDLE} }}")})


def at_once(work: Work) -> tuple[int, int]:
    """Work on two CPUs for some seconds; how often it was done, and went wrong."""
    context = multiprocessing.get_context("fork")
    done, wrong = context.Value("i", 0), context.Value("i", 0)
    cpus = sorted(os.sched_getaffinity(0))
    assert len(cpus) > 1
    children = [
        context.Process(target=_work, args=(work, cpu, number, done, wrong))
        for number, cpu in enumerate((cpus[0], cpus[-1]))
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    return done.value, wrong.value


def _work(
    work: Work, cpu: int, number: int, done: "Synchronized[int]", wrong: "Synchronized[int]"
) -> None:
    os.sched_setaffinity(0, {cpu})
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for _ in range(20):
            failed = not work(number)
            number += 2
            with done.get_lock():
                done.value += 1
                wrong.value += failed


def settled(node: NodeUnderTest, family: int) -> None:
    """No way is anybody's, and no key has two."""
    assert all(word == 0 or word & THERE for word in tags(node, family, 5))
    found = connection_tables.places(pin(node, family))
    assert all(len(places) == 1 for places in found.values())
    assert {place.at for places in found.values() for place in places} == {5}


@families
def test_an_entry_that_is_replaced_is_never_missed(
    node: NodeUnderTest, slow: Path, family: int
) -> None:
    """Four connections end and begin again on both CPUs; b may open nothing, and always answers."""
    node.load(node.policy().allow("a", "b", ANY), objects=slow)
    one_set(node)
    first = {port: frame(A, B, tcp(port, 80, SYN), family=family) for port in range(1000, 1004)}
    last = {port: frame(A, B, tcp(port, 80, FIN | ACK), family=family) for port in first}
    answers = {port: frame(B, A, tcp(80, port, ACK), family=family) for port in first}
    for packet in first.values():
        assert node.sent_by("a", packet)

    def work(number: int) -> bool:
        port = 1000 + number // 2 % 4
        sent = node.sent_by("a", first[port]) and node.sent_by("b", answers[port])
        return node.sent_by("a", last[port]) and sent

    done, wrong = at_once(work)
    assert done > 100
    assert wrong == 0
    settled(node, family)
    assert len(connection_tables.places(pin(node, family))) == 4


@families
def test_what_is_found_is_whole_in_a_set_that_is_always_full(
    node: NodeUnderTest, slow: Path, family: int
) -> None:
    """Entries of connections to a Service say the port that their key has: none is half another's."""
    node.load(node.policy().allow("a", "b", ANY), objects=slow, services=web(B))
    one_set(node)
    at = PORTS_AT[family]

    def work(number: int) -> bool:
        port = 1024 + number % 60000
        if not node.sent_by("a", frame(A, VIP, tcp(port, PORT, SYN), family=family)):
            return False
        answer = frame(B, A, tcp(TARGET, port, SYN | ACK), family=family)
        came = node.arrives("a", answer, came_in=LOCAL["b"])
        return came is None or struct.unpack_from("!HH", came, at) == (PORT, port)

    done, wrong = at_once(work)
    assert done > 100
    assert wrong == 0
    settled(node, family)
    entries = connection_tables.entries(pin(node, family))
    assert WAYS - 2 <= len(entries) <= WAYS
    fields, size = node.layout("pc_ct").fields, 4 if family == 4 else 16
    for key, entry in entries.items():
        (client,) = set(struct.unpack_from("!HH", key, 2 * size)) - {PORT, TARGET}
        (state,) = struct.unpack_from("=I", entry, fields["state"][0])
        end = fields["src" if state & FRONT else "dst"][0]
        assert struct.unpack_from("!H", entry, end + NAT_AT) == (client,)
