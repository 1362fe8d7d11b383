# SPDX-License-Identifier: Apache-2.0
"""Services that exceed a limit are left out. No other Service is."""

from typing import Any

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.services import maglev
from policyc.runtime.services.limits import NODE_LIMIT
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    tcp,
)
from tests.kernel.support.service_frames import to_vip
from tests.kernel.support.service_yaml import (
    PORT,
    VIP,
    service,
    slices,
    value,
)
from tests.kernel.support.table_policy import ANY
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]


def own(number: int) -> Host:
    return Host(VIP.mac, f"10.97.{number >> 8}.{number & 255}", f"fd97::{number + 1:x}")


def greedy(name: str, number: int, day: int, **spec: Any) -> JsonValue:
    raw: dict[str, Any] = service(name, own(number), **spec).raw
    raw["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T00:00:00Z"
    raw["metadata"]["namespace"] = "greed"
    return value(raw)


def with_tables() -> list[JsonValue]:
    """More Services than have room for Maglev's usual table in one family."""
    found = []
    for n in range(NODE_LIMIT.slots // maglev.USUAL + 1):
        made = greedy(f"m{n:02}", n, 1 + n)
        made.raw["metadata"]["annotations"] = {"policyc.dev/balance": "maglev"}
        found.append(made)
    return found


def with_addresses() -> list[JsonValue]:
    """330 addresses of 100 ports."""
    ports = [{"name": f"p{n}", "port": 1000 + n} for n in range(100)]
    addresses = [f"198.18.{n >> 8}.{n & 255}" for n in range(330)]
    return [greedy("wide", 0, 1, ports=ports, externalIPs=addresses)]


def with_ranges() -> list[JsonValue]:
    made = greedy("narrow", 0, 1, type="LoadBalancer", loadBalancerSourceRanges=[
        f"10.{n >> 8}.{n & 255}.0/24" for n in range(8193)
    ])  # fmt: skip
    made.raw["status"] = {"loadBalancer": {"ingress": [{"ip": "198.18.0.1"}]}}
    return [made]


GREEDY = {"tables": with_tables, "addresses": with_addresses, "ranges": with_ranges}
LEFT_OUT = {
    # A namespace has room for four of two families; the others are served by chance.
    "tables": ({"without_maglev": 13}, "endpoints are chosen at random: "),
    "addresses": (
        {"over_limits": 200 + 33000 - 4096},
        "left out: 29104 of its addresses and ports",
    ),
    "ranges": ({"over_limits": 1}, "the load balancer's addresses are left out: "),
}


def left_out(node: NodeUnderTest) -> dict[str, int]:
    found = node.status()
    assert found is not None
    return found.services_left_out


@pytest.mark.parametrize("what", GREEDY)
def test_the_follower_leaves_out_only_the_oversized_service(
    node: NodeUnderTest, follower: Follower, what: str
) -> None:
    young = service()
    young.raw["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    follower.tell(*told([*GREEDY[what](), young, *slices([C])]))
    follower.acknowledged()
    counts, said = LEFT_OUT[what]
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) != to_vip(tcp(4000, PORT, SYN))
    assert left_out(node) == counts
    follower.tell(*told(slices([B]), "MODIFIED"))
    follower.acknowledged()
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) is not None
    follower.tell(*told(GREEDY[what](), "DELETED"))
    follower.acknowledged()
    assert left_out(node) == {}
    code, complaint = follower.end()
    assert code == 0
    assert said in complaint


@pytest.mark.parametrize("what", GREEDY)
def test_a_load_leaves_out_only_the_oversized_service(node: NodeUnderTest, what: str) -> None:
    there = [*GREEDY[what](), service(), *slices([C])]
    node.load(node.policy().allow("a", "c", ANY), services=there)
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) != to_vip(tcp(4000, PORT, SYN))
    assert left_out(node) == LEFT_OUT[what][0]
    node.serve([service(), *slices([C])])
    assert left_out(node) == {}


def crowd(first: int) -> list[JsonValue]:
    """Services of two namespaces with so many endpoints that another set has no place beside them."""
    found: list[JsonValue] = []
    for namespace in ("one", "two"):
        for n in range(3):
            name = f"{namespace}-{n}"
            made = [service(name, own(n + 10 * (namespace == "two"))), *slices([], name)]
            for each in made:
                each.raw["metadata"]["namespace"] = namespace
            for family, each in zip((4, 6), made[1:], strict=True):
                each.raw["endpoints"] = [
                    {"addresses": [stranger(first + i, family)]} for i in range(7000)
                ]
            found += made
    return found


def stranger(number: int, family: int) -> str:
    high, low = number >> 8, number & 255
    return f"100.64.{high}.{low}" if family == 4 else f"2001:db8:9::{number:x}"


@pytest.mark.slow  # two full tables of endpoints
def test_endpoints_that_all_change_at_once_do_not_end_the_follower(
    node: NodeUnderTest, follower: Follower
) -> None:
    follower.tell(*told([*crowd(0), service(), *slices([C])]))
    follower.acknowledged()
    follower.tell(*told([each for each in crowd(10000) if each.raw["kind"] == "EndpointSlice"]))
    follower.acknowledged()
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) != to_vip(tcp(4000, PORT, SYN))
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN), 4, own(0))) is not None
    assert follower.end()[0] == 0
