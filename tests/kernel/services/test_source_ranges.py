# SPDX-License-Identifier: Apache-2.0
"""loadBalancerSourceRanges: which clients, pods included, reach the addresses of a load balancer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
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
from tests.kernel.support.service_yaml import (
    PORT,
    VIP,
    service,
    slices,
    value,
)
from tests.kernel.support.table_policy import ANY

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
NODE_PORT = 30080
BALANCER = Host(VIP.mac, "192.0.2.90", "2001:db8:90::1")
OTHER_BALANCER = Host(VIP.mac, "192.0.2.91", "2001:db8:91::1")
HERE_TOO = {4: "203.0.113.200", 6: "2001:db8::200"}
"""Beside WORLD."""


@pytest.fixture
def picks(picks_program: Path, node: NodeUnderTest) -> Iterator[Picks]:
    node.load(node.policy().allow("a", "c", ANY).allow("b", "c", ANY), services=[])
    with picking(picks_program, node) as found:
        yield found


def balanced(
    *ranges: str, name: str = "web", vip: Host = VIP, at: Host = BALANCER, end: Host = C
) -> list[JsonValue]:
    port = {"name": "main", "port": PORT}
    if name == "web":
        port["nodePort"] = NODE_PORT
    found = service(
        name, vip, type="LoadBalancer", ports=[port], loadBalancerSourceRanges=list(ranges)
    )
    ingress = [{"ip": at.ip4}, {"ip": at.ip6}]
    whole = found.raw | {"status": {"loadBalancer": {"ingress": ingress}}}
    return [value(whole), *slices([end], name)]


def reasons(picks: Picks, family: int, at: Host, *who: str, port: int = PORT) -> list[int]:
    asked = [Asked(each, at.address(family), port, 4000, OUTSIDE) for each in who]
    return [reason for reason, _ in picks.reasons(asked)]


@families
def test_only_clients_inside_a_range_pass(node: NodeUnderTest, picks: Picks, family: int) -> None:
    refused = node.enum("drop_reason")["PC_DROP_SOURCE_RANGE"]
    world, beside, far = WORLD.address(family), HERE_TOO[family], B.address(family)
    node.serve(balanced(f"{world}/{32 if family == 4 else 128}"))
    assert reasons(picks, family, BALANCER, world, beside, far) == [0, refused, refused]
    node.serve(balanced("203.0.113.0/24", "2001:db8::/32", "198.51.100.0/24"))
    assert reasons(picks, family, BALANCER, world, beside, far) == [0, 0, refused]
    node.serve(balanced("0.0.0.0/0", "::/0"))
    assert reasons(picks, family, BALANCER, world, beside, far) == [0, 0, 0]
    node.serve(balanced("2001:db8::/32" if family == 4 else "203.0.113.0/24"))
    assert reasons(picks, family, BALANCER, world, beside) == [refused] * 2, "none of the family"
    node.serve(balanced())
    assert reasons(picks, family, BALANCER, world, far) == [0, 0]


@families
def test_ranges_apply_only_to_the_load_balancer_addresses_of_their_service(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    refused = node.enum("drop_reason")["PC_DROP_SOURCE_RANGE"]
    world, pod = WORLD.address(family), B.address(family)
    other_vip = Host(VIP.mac, "10.96.0.77", "fd96::77")
    other = balanced("10.0.0.0/8", "fd00::/16", name="side", vip=other_vip, at=OTHER_BALANCER)
    node.serve([*balanced("203.0.113.0/24", "2001:db8::/32"), *other])
    assert reasons(picks, family, BALANCER, world, pod) == [0, refused]
    assert reasons(picks, family, OTHER_BALANCER, world, pod) == [refused, 0]
    assert reasons(picks, family, VIP, pod) == [0]
    assert reasons(picks, family, NODE, world, pod, port=NODE_PORT) == [0, 0]


@families
def test_a_client_outside_the_ranges_is_dropped_at_the_uplink(
    node: NodeUnderTest, family: int
) -> None:
    ranges = "203.0.113.0/24", "2001:db8::/32"
    policy = node.policy().allow("world", "a", ANY)
    node.load(policy, services=balanced(*ranges, end=A), uplinks=[UPLINK])
    sent = frame(WORLD, BALANCER, tcp(4000, PORT, SYN), family=family)
    assert node.comes_in(sent), "WORLD is in the ranges"
    node.serve(balanced("198.51.100.0/24", "fd00:1::/32", end=A))
    assert node.comes_in(frame(WORLD, BALANCER, tcp(4001, PORT, SYN), family=family)) is None
    assert node.drops() == {"source range": 1}


@families
def test_a_pod_outside_the_ranges_is_dropped(node: NodeUnderTest, family: int) -> None:
    """As with kube-proxy, whose chain for the ranges applies to pods too."""
    policy = node.policy().allow("a", "c", ANY)
    node.load(policy, services=balanced("203.0.113.0/24", "2001:db8::/32"))
    sent = frame(A, BALANCER, tcp(4000, PORT, SYN), family=family)
    verdict, _ = node.answered("a", sent)
    assert verdict == 2, "dropped, and not answered"
    assert node.drops() == {"source range": 1}
    node.serve(balanced("10.0.0.10/32", "fd00::10/128"))
    assert node.leaves("a", sent)
    node.serve(balanced("203.0.113.0/24", "2001:db8::/32")[:1])
    verdict, _ = node.answered("a", frame(A, BALANCER, tcp(4001, PORT, SYN), family=family))
    assert verdict == 2, "a client outside the ranges gets no answer"


def test_a_change_leaves_only_the_ranges_in_force(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=balanced("203.0.113.0/24", "2001:db8::/32"))
    for ranges in (("198.51.100.0/24",), ("192.0.2.0/25", "192.0.2.128/25"), ()):
        node.serve(balanced(*ranges))
        with node.shared_map("pc_ranges") as fd:
            assert len(list(bpf_syscall.map_keys(fd, 24))) == len(ranges)
