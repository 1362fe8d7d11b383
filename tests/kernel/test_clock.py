# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: ticks that the loader has told the rate of."""

import struct
import time

import pytest

from policyc.runtime import bpf_syscall, clock
from tests.kernel.node_under_test import NodeUnderTest

pytestmark = pytest.mark.kernel


def test_the_rate_is_one_that_kernels_are_built_with_and_the_ticks_keep_it() -> None:
    rate = clock.ticks_per_second()
    assert rate in clock.RATES
    began, first = time.monotonic(), clock.ticks()
    time.sleep(0.5)
    passed, last = time.monotonic() - began, clock.ticks()
    assert (last - first) & 0xFFFFFFFF == pytest.approx(rate * passed, rel=0.2)


def test_a_load_writes_the_rate_once(node: NodeUnderTest) -> None:
    def rate() -> int:
        with node.shared_map("pc_clock") as fd:
            return int.from_bytes(bpf_syscall.map_lookup(fd, bytes(4), 8) or b"", "little")

    node.load(node.policy())
    assert rate() == clock.ticks_per_second()
    with node.shared_map("pc_clock") as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack("=Q", 24))
    node.load(node.policy())
    assert rate() == 24
