# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: the loader writes the rate of the kernel's ticks."""

import struct
import time
from pathlib import Path

import pytest

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    bpf_syscall,
    clock,
)
from tests.kernel.support import ticks
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.objects import RENAMED_MAPS, renamed
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel


def test_ticks_advance_at_the_written_rate() -> None:
    """Each reading of the ticks lies between two of the clock, because a busy machine may delay it."""
    before, first, after = time.monotonic(), ticks.ticks(), time.monotonic()
    time.sleep(1)
    least, since = time.monotonic() - after, ticks.since(first)
    most, rate = time.monotonic() - before, clock.ticks_per_second()
    assert 0.9 * rate * least <= since <= 1.1 * rate * most


@pytest.mark.parametrize("rate", [100, 200, 250, 300, 500, 1000, 1024, 1200])
def test_the_clock_resolution_gives_every_tick_rate(
    rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TICK_NSEC is whole nanoseconds, rounded."""
    resolution = (1_000_000_000 + rate // 2) // rate / 1e9
    monkeypatch.setattr(time, "clock_getres", lambda _clock: resolution)
    assert clock.ticks_per_second() == rate


def _set(node: NodeUnderTest, rate: int) -> None:
    with node.shared_map("pc_clock") as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack("=Q", rate))


def test_every_load_writes_the_rate(node: NodeUnderTest) -> None:
    for _ in range(2):
        node.load(node.policy())
        with node.shared_map("pc_clock") as fd:
            found = bpf_syscall.map_lookup(fd, bytes(4), 8)
        assert found == struct.pack("=Q", clock.ticks_per_second())
        _set(node, 24)


@pytest.mark.parametrize("family", [4, 6])
def test_without_a_tick_rate_no_connection_is_recorded(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    _set(node, 0)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN), family=family))
    assert not node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))
    assert not node.sent_by("b", frame(B, A, tcp(80, 1000, ACK), family=family))


def test_hooks_without_a_clock_are_refused(node: NodeUnderTest, tmp_path: Path) -> None:
    older = renamed(node.objects, tmp_path / "older", RENAMED_MAPS)
    with pytest.raises(HostError, match="pc_clock") as refused:
        node.load(node.policy(), objects=older)
    assert refused.value.hint == "compile the bundle again"
    assert node.status() is None
    node.load(node.policy())
