# SPDX-License-Identifier: Apache-2.0
"""One pod opens as many SNAT connections as it can. Other pods still get ports and keep theirs.

Pod a attacks, pod b is its victim. The hooks run on frames of a loaded node.
"""

from collections.abc import Callable, Iterator

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.attacks.table_quotas import (
    full_quotas,
)
from tests.kernel.support.node_under_test import (
    LOCAL,
    UPLINK,
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Payload,
    tcp,
    udp,
)
from tests.kernel.support.snat_frames import (
    answer,
    answered,
    loaded,
    out,
    port_of,
    sent,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
PORTS = range(50000, 51024)
N_HALVES = 131072
"""PC_SNAT_ENTRIES of runtime/datapath/snat_map.h: two of each connection."""
FLOOD = 20000
"""Connections of the attacker: more than its quota of halves is for."""
_DROP = 2

Leave = Callable[[Payload, str], bool]


@pytest.fixture
def leave(node: NodeUnderTest, request: pytest.FixtureRequest) -> Iterator[Leave]:
    """Whether a packet that the pod's hook has let pass leaves by the uplink."""
    family = request.node.callspec.params["family"]
    loaded(node, ports=PORTS)
    with bpf_syscall.obj_get(node.pins.hook("pc_to_uplink")) as fd:
        run = bpf_syscall.TestRun(fd)
        device = node.ifindex[UPLINK]
        hosts = {"a": A, "b": B}

        def through(payload: Payload, pod: str) -> bool:
            made = sent(payload, family, hosts[pod])
            return run(made, device, node.ifindex[LOCAL[pod]]) != _DROP

        yield through


@families
def test_one_pod_gets_at_most_half_of_the_snat_ports_towards_one_server(
    node: NodeUnderTest, leave: Leave, family: int
) -> None:
    passed = sum(leave(tcp(port, 80, SYN), "a") for port in range(1024, 1024 + 4 * len(PORTS)))
    assert 0 < passed <= len(PORTS) // 2
    n_free = sum(leave(tcp(port, 80, SYN), "b") for port in range(1024, 1024 + 16))
    assert n_free == 16, "the other half of the ports is free for other pods"
    assert full_quotas(node)["shop/a", "connection without a SNAT port"] > 0


@families
def test_a_source_port_that_snat_keeps_counts_towards_the_quota(
    node: NodeUnderTest, leave: Leave, family: int
) -> None:
    """Otherwise the pod could take every port, one after the other."""
    found = {port_of(out(node, tcp(port, 80, SYN), family), family) for port in PORTS[:40]}
    assert len(found) == 40
    ports = sorted(found)
    assert len({port // 2 for port in ports}) == 40, "one of each two"


@families
def test_a_flood_from_one_pod_evicts_no_entry_of_another_pod(
    node: NodeUnderTest, leave: Leave, family: int
) -> None:
    """Each connection goes to another port of the server, so SNAT ports are not exhausted."""
    ends = [(port, 8000 + port) for port in range(1, 60)]
    wire = {}
    for port, to in ends:
        left = out(node, udp(20000 + port, to), family, "b")
        wire[port] = port_of(left, family)
        assert node.comes_in(answer(udp(to, wire[port]), family)) is not None
    passed = sum(leave(udp(1024 + at % 40000, 9000 + at // 100), "a") for at in range(FLOOD))
    assert passed < FLOOD, "its quota is full"
    with node.shared_map("pc_snat_entries") as fd:
        info = bpf_syscall.map_info(fd)
        used = sum(count for _, _, count in bpf_syscall.map_items_batch(fd, info))
    assert used <= N_HALVES // 4 + 2 * len(ends)
    for port, to in ends:
        expected = answered(udp(to, 20000 + port), family, B)
        assert node.comes_in(answer(udp(to, wire[port]), family)) == expected
    assert full_quotas(node)["shop/a", "connection without a SNAT port"] > 0
