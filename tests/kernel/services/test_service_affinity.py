# SPDX-License-Identifier: Apache-2.0
"""sessionAffinity ClientIP: a client's connections go to one endpoint while that endpoint exists."""

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    frame,
    tcp,
)
from tests.kernel.support.picks import (
    OUTSIDE,
    Asked,
    Picks,
    picking,
)
from tests.kernel.support.service_frames import to_vip
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    VIP,
    service,
    slices,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
ENDPOINTS = [Host(C.mac, f"10.9.0.{i}", f"fd09::{i:x}") for i in range(1, 41)]
READY = {"ready": True}


@pytest.fixture
def picks(picks_program: Path, node: NodeUnderTest) -> Iterator[Picks]:
    node.load(node.policy().allow("a", "world", ANY), services=[])
    with picking(picks_program, node) as found:
        yield found


def sticky(*hosts: Host | tuple[Host, dict[str, bool]], **spec: object) -> list[JsonValue]:
    """A Service at two of its own addresses."""
    found = {
        "clusterIPs": [VIP.ip4, VIP.ip6],
        "externalIPs": [OTHER_VIP.ip4, OTHER_VIP.ip6],
        "sessionAffinity": "ClientIP",
    }
    return [service(**found | spec), *slices(hosts)]


def clients(family: int, count: int = 30) -> list[str]:
    return [f"198.51.100.{i}" if family == 4 else f"2001:db8:51::{i:x}" for i in range(1, count)]


def went(picks: Picks, who: list[str], family: int, to: Host = VIP, sport: int = 4000) -> list[str]:
    vip = to.address(family)
    return picks.ends([Asked(each, vip, PORT, sport, OUTSIDE) for each in who])


@families
def test_a_client_stays_with_its_endpoint(node: NodeUnderTest, picks: Picks, family: int) -> None:
    node.serve(sticky(*ENDPOINTS))
    who = clients(family)
    first = went(picks, who, family)
    assert len(set(first)) > 10, "clients are spread"
    for sport in range(4001, 4005):
        assert went(picks, who, family, sport=sport) == first
    assert went(picks, who, family, to=OTHER_VIP) == first, "as one port of the Service"


@families
def test_a_client_stays_when_other_endpoints_are_added_and_removed(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    node.serve(sticky(*ENDPOINTS))
    who = clients(family)
    first = went(picks, who, family)
    node.serve(sticky(*ENDPOINTS[::-2]))
    left = {each.address(family) for each in ENDPOINTS[::-2]}
    then = went(picks, who, family)
    kept = [end for end in first if end in left]
    assert 0 < len(kept) < len(first)
    for before, after in zip(first, then, strict=True):
        assert after == before if before in left else after in left
    node.serve(sticky(*ENDPOINTS))
    assert went(picks, who, family) == then, "a moved client stays with its endpoint"


@families
def test_a_client_leaves_an_endpoint_that_is_not_ready(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    draining = {"ready": False, "serving": True, "terminating": True}
    for conditions in ({"ready": False}, draining):
        node.serve(sticky(ENDPOINTS[0]))
        who = clients(family)
        assert set(went(picks, who, family)) == {ENDPOINTS[0].address(family)}
        node.serve(sticky((ENDPOINTS[0], conditions), ENDPOINTS[1]))
        assert set(went(picks, who, family)) == {ENDPOINTS[1].address(family)}


@families
def test_each_connection_restarts_the_timeout(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    config = {"clientIP": {"timeoutSeconds": 60}}
    node.serve(sticky(*ENDPOINTS, sessionAffinityConfig=config))
    who = clients(family)
    first = went(picks, who, family)
    for _ in range(3):
        pass_time(node, 50)
        assert went(picks, who, family) == first
    pass_time(node, 70)
    then = went(picks, who, family)
    assert sum(a != b for a, b in zip(first, then, strict=True)) > 15


def pass_time(node: NodeUnderTest, seconds: int) -> None:
    """Make each stored client that much older."""
    with node.shared_map("pc_clock") as fd:
        (rate,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or bytes(8))
    layout = node.layout("pc_affine")
    field = layout.fields["seen"]
    at, size = field.offset, field.size
    with node.shared_map("pc_affines") as fd:
        for key in list(bpf_syscall.map_keys(fd, node.layout("pc_affine_key").size)):
            raw = bytearray(bpf_syscall.map_lookup(fd, key, layout.size) or b"")
            seen = int.from_bytes(raw[at : at + size], "little") - seconds * rate
            raw[at : at + size] = seen.to_bytes(size, "little")
            bpf_syscall.map_update(fd, key, bytes(raw))


def remembered(node: NodeUnderTest) -> int:
    with node.shared_map("pc_affines") as fd:
        return len(list(bpf_syscall.map_keys(fd, node.layout("pc_affine_key").size)))


def test_a_service_without_affinity_stores_no_client(node: NodeUnderTest, picks: Picks) -> None:
    node.serve(sticky(*ENDPOINTS, sessionAffinity="None"))
    assert len(set(went(picks, ["198.51.100.1"] * 200, 4))) > 20
    assert remembered(node) == 0


def test_each_port_of_a_service_has_its_own_affinity(node: NodeUnderTest, picks: Picks) -> None:
    ports = [{"name": "main", "port": PORT}, {"name": "side", "port": PORT + 1}]
    found = sticky(*ENDPOINTS, ports=ports)
    for each in found[1:]:
        each.raw["ports"] = [{"name": "main", "port": 8080}, {"name": "side", "port": 8081}]
    node.serve(found)
    who = clients(4)
    first = went(picks, who, 4)
    side = picks.ends([Asked(each, VIP.ip4, PORT + 1, 4000, OUTSIDE) for each in who])
    assert side != first
    assert remembered(node) == 2 * len(who)


@families
def test_a_pod_stays_with_its_endpoint(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=sticky(*ENDPOINTS))
    at, size = (30, 4) if family == 4 else (38, 16)
    ends: Counter[bytes] = Counter()
    for sport in range(5000, 5040):
        sent = node.leaves("a", to_vip(tcp(sport, PORT, SYN), family))
        assert sent is not None
        ends[sent[at : at + size]] += 1
    assert list(ends.values()) == [40]
    assert remembered(node) == 1
    forged = frame(A, VIP, tcp(6000, PORT, SYN), family=family, saddr=B.address(family))
    assert node.leaves("a", forged) is None
    assert remembered(node) == 1, "no client is stored under another's address"


@pytest.mark.native
def test_a_flood_of_clients_evicts_the_longest_idle_client_first(
    node: NodeUnderTest, picks: Picks
) -> None:
    """A flood of clients fills the table and no more. Each client still gets an endpoint."""
    node.serve(sticky(*ENDPOINTS))
    for block in range(2):
        who = [f"10.{100 + block}.{i >> 8}.{i & 255}" for i in range(32768)]
        went(picks, who, 4)
    assert 20_000 < remembered(node) <= 32768
    assert len(set(went(picks, [WORLD.ip4] * 50, 4))) == 1
