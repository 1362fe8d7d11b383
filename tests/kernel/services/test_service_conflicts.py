# SPDX-License-Identifier: Apache-2.0
"""Services that ask for an address of the node, of a pod or of another Service."""

import socket
from typing import Any

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    NODE,
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
from tests.kernel.support.service_frames import (
    as_to,
    to_vip,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    value,
)
from tests.kernel.support.table_policy import ANY
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
families = pytest.mark.parametrize("family", [4, 6])
EXTERNAL = Host(VIP.mac, "198.51.100.9", "2001:db8:51::9")


def dated(made: JsonValue, day: int) -> JsonValue:
    raw: dict[str, Any] = made.raw
    raw["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T00:00:00Z"
    return value(raw)


def thief(at: Host, port: int = PORT, day: int = 1, name: str = "a-thief") -> list[JsonValue]:
    """An old Service with another's address, and the first in any list; its endpoint is B."""
    own = Host(VIP.mac, "10.96.0.99", "fd96::99")
    made = service(name, own, port=port, externalIPs=[at.ip4, at.ip6])
    return [dated(made, day), *slices([B], name)]


def goes_to(node: NodeUnderTest, vip: Host, sport: int, port: int = PORT, family: int = 4) -> str:
    """The pod that gets a packet to that address: "b", "c", or "" without translation."""
    sent = frame(A, vip, tcp(sport, port, SYN), family=family)
    got = node.leaves("a", sent)
    for name, host in (("b", B), ("c", C)):
        if got == frame(A, vip, tcp(sport, TARGET, SYN), family=family, daddr=host.address(family)):
            return name
    assert got == sent
    return ""


@families
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cluster_ip_stays_with_its_service(
    node: NodeUnderTest, family: int, is_first: bool
) -> None:
    everything = node.policy().allow("a", "c", ANY).allow("a", "b", ANY)
    victim = [dated(service(), 9), *slices([C])]
    there = [*thief(VIP), *victim] if is_first else [*victim, *thief(VIP)]
    node.load(everything, services=there)
    assert goes_to(node, VIP, 4000, family=family) == "c"
    node.serve(there)
    assert goes_to(node, VIP, 4001, family=family) == "c"


@families
def test_a_service_does_not_take_a_port_where_the_node_listens(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """A client in a pod reaches the node's server at the node's address, not the other Service's
    pod.
    """
    node.load(node.policy().allow("a", "world", ANY).allow("a", "b", ANY))
    server = wire.server(None, family, socket.SOCK_STREAM, 6443)
    node.serve(thief(NODE, 6443))
    client = wire.open_socket("a", family, socket.SOCK_STREAM)
    client.connect((NODE.address(family), 6443))
    accepted, seen = server.accept()
    accepted.close()
    assert seen[0] == A.address(family)


@families
def test_a_load_balancer_may_use_a_free_port_of_the_nodes_address(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY))
    raw = service(type="LoadBalancer").raw
    ingress = [{"ip": NODE.ip4}, {"ip": NODE.ip6}]
    raw["status"] = {"loadBalancer": {"ingress": ingress}}
    node.serve([value(raw), *slices([C])])
    assert goes_to(node, NODE, 4000, family=family) == "c"


def test_a_service_does_not_take_the_address_of_a_pod(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY))
    there = thief(C)
    node.serve(there)
    assert goes_to(node, C, 4000) == ""
    assert goes_to(node, Host(VIP.mac, "10.96.0.99", "fd96::99"), 4001) == "b", "the rest goes on"


def test_the_oldest_service_holds_the_address_as_services_come_and_go(
    node: NodeUnderTest, follower: Follower
) -> None:
    young = [
        dated(service("young", externalIPs=[EXTERNAL.ip4, EXTERNAL.ip6]), 5),
        *slices([C], "young"),
    ]
    follower.tell(*told(young))
    follower.acknowledged()
    assert goes_to(node, EXTERNAL, 4000) == "c"
    old = thief(EXTERNAL)
    for sport in (4001, 4003):
        follower.tell(*told(old))
        follower.acknowledged()
        assert goes_to(node, EXTERNAL, sport) == "b", "the older one, though it came later"
        follower.tell(*told(old[:1], "DELETED"))
        follower.acknowledged()
        assert goes_to(node, EXTERNAL, sport + 1) == "c"
    follower.tell(*told([dated(service("victim", OTHER_VIP), 9), *slices([C], "victim")]))
    follower.acknowledged()
    follower.tell(*told(thief(OTHER_VIP)))
    follower.acknowledged()
    assert goes_to(node, OTHER_VIP, 4005) == "c", "a clusterIP"
    code, said = follower.end()
    assert code == 0
    complaint = (
        f"shop/young: left out: {EXTERNAL.ip4} port {PORT}/TCP, {EXTERNAL.ip6} port {PORT}/TCP: "
        "taken by the Service shop/a-thief, which is older"
    )
    assert said.count(complaint) == 2
    assert said.count("CVE-2020-8554") == 1


def test_a_service_address_without_a_conflict_is_unchanged(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=[service(), *slices([C])])
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
