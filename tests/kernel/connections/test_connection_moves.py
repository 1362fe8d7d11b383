# SPDX-License-Identifier: Apache-2.0
"""An entry moves to the established table on one CPU while another CPU looks it up."""

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import pytest

from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.table_policy import ANY
from tests.property.length import examples

pytestmark = pytest.mark.kernel
Number = Synchronized  # of int
SECONDS = examples(2, 2)
ASK_NEW = "at.ct = bpf_map_lookup_elem(&pc_ct4_new, &key4);"
DAWDLE = "for (int i = 0; i < 200; i++) (void)*(volatile __u64 *)&(__u64){bpf_ktime_get_ns()};"


def _answer(
    node: NodeUnderTest, port: "Number[int]", answered: "Number[int]", lost: "Number[int]"
) -> None:
    """Send B's packets of the connection of the port as fast as they go; port 0: that was all."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    while at := port.value:
        if not node.sent_by("b", frame(B, A, tcp(80, at, ACK))) and port.value == at:
            lost.value += 1
        answered.value = at


def _open(node: NodeUnderTest, port: int) -> None:
    assert node.sent_by("a", frame(A, B, tcp(port, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, port, SYN | ACK)))


@pytest.mark.slow
def test_no_packet_is_lost_while_its_connection_moves(
    node: NodeUnderTest, variant: Callable[..., Path]
) -> None:
    """B may open nothing: its packets pass only by the entry, in either table. Slowed hooks, with a
    delay between the lookups in the two tables, meet a move some hundred times a second.
    """
    slow = variant("slow", {"ct_map.h": (ASK_NEW, f"{{ {DAWDLE} {ASK_NEW} }}")})
    node.load(node.policy().allow("a", "b", ANY), objects=slow)
    context = multiprocessing.get_context("fork")
    port, answered, lost = (context.Value("i", 0) for _ in range(3))
    _open(node, 1024)
    port.value = 1024
    other = context.Process(target=_answer, args=(node, port, answered, lost))
    cpus = os.sched_getaffinity(0)
    other.start()
    os.sched_setaffinity(0, {min(cpus)})
    try:
        until = time.monotonic() + SECONDS
        for at in range(1025, 65536):
            _open(node, at)
            port.value = at
            while answered.value != at:
                assert other.is_alive()
            assert node.sent_by("a", frame(A, B, tcp(at, 80, ACK)))
            if time.monotonic() > until and at > 1024 + 100:
                break
    finally:
        os.sched_setaffinity(0, cpus)
        port.value = 0
        other.join()
    assert other.exitcode == 0
    assert len(node.table("pc_ct4")) > 100
    assert lost.value == 0
