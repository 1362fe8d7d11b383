# SPDX-License-Identifier: Apache-2.0
"""Which endpoints pods, external clients and clients forwarded by another node get."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel.support.exposed_services import (
    EXTERNAL,
    NODE_PORT,
    exposed,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    NODE,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    UDP,
    Host,
    frame,
    packed,
    tcp,
    udp,
)
from tests.kernel.support.picks import (
    HANDED,
    OUTSIDE,
    POD,
    Asked,
    Picks,
    picking,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    value,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel

families = pytest.mark.parametrize("family", [4, 6])


@pytest.fixture
def picks(picks_program: Path, node: NodeUnderTest) -> Iterator[Picks]:
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY), services=[])
    with picking(picks_program, node) as found:
        yield found


BOTH = ((B, "node-1"), (C, "node-2"))


@families
def test_a_pod_reaches_a_node_port_of_its_node(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=exposed((C, "node-2")))
    for flags in (SYN, ACK):
        sent = node.leaves("a", frame(A, NODE, tcp(4000, NODE_PORT, flags), family=family))
        expected = tcp(4000, TARGET, flags)
        assert sent == frame(A, NODE, expected, family=family, daddr=C.address(family))
        back = Host(NODE.mac, C.ip4, C.ip6)
        got = node.arrives("a", frame(back, A, tcp(TARGET, 4000, flags | ACK), family=family))
        assert got == frame(NODE, A, tcp(NODE_PORT, 4000, flags | ACK), family=family)
    assert node.drops() == {}


@families
def test_a_node_port_applies_to_one_protocol_and_to_addresses_of_the_node(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=exposed(*BOTH))
    other = frame(A, NODE, udp(4000, NODE_PORT), family=family)
    assert node.leaves("a", other) == other
    elsewhere = frame(A, WORLD, tcp(4000, NODE_PORT, SYN), family=family)
    assert node.leaves("a", elsewhere) == elsewhere
    cluster = frame(A, VIP, tcp(4000, NODE_PORT, SYN), family=family)
    assert node.leaves("a", cluster) == cluster, "a cluster IP has the Service's ports only"


@families
def test_the_external_traffic_policy_does_not_apply_to_pods(
    node: NodeUnderTest, family: int
) -> None:
    """Whatever externalTrafficPolicy says, and without an endpoint on the node, as with kube-proxy."""
    only = exposed((C, "node-2"), externalTrafficPolicy="Local")
    node.load(node.policy().allow("a", "c", ANY), services=only)
    for host, port in ((NODE, NODE_PORT), (EXTERNAL, PORT)):
        sent = node.leaves("a", frame(A, host, tcp(4000, port, SYN), family=family))
        daddr = C.address(family)
        assert sent is not None
        expected = frame(A, host, tcp(4000, TARGET, SYN), family=family, daddr=daddr)
        assert sent[:34] == expected[:34], "where it goes; the port may be another one"


def many(client: str, to: str, port: int, kind: int, proto: int = 6) -> list[Asked]:
    return [Asked(client, to, port, sport, kind, proto) for sport in range(2000, 2064)]


@families
@pytest.mark.parametrize("policy", ["Local", "Cluster"])
def test_external_clients_reach_local_endpoints_only_under_the_local_traffic_policy(
    node: NodeUnderTest, picks: Picks, family: int, policy: str
) -> None:
    node.serve(exposed(*BOTH, externalTrafficPolicy=policy))
    here, everywhere = {B.address(family)}, {B.address(family), C.address(family)}
    world, pod = WORLD.address(family), A.address(family)
    for host, port in ((NODE, NODE_PORT), (EXTERNAL, PORT)):
        to = host.address(family)
        expected = here if policy == "Local" else everywhere
        assert set(picks.ends(many(world, to, port, OUTSIDE))) == expected
        assert set(picks.ends(many(world, to, port, HANDED))) == here
        assert set(picks.ends(many(pod, to, port, POD))) == everywhere


@families
def test_external_clients_are_dropped_where_the_node_has_no_local_endpoint(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    only = exposed((C, "node-2"), protocol="UDP", externalTrafficPolicy="Local")
    node.serve(only)
    world, to = WORLD.address(family), NODE.address(family)
    no_backend = node.enum("drop_reason")["PC_DROP_NO_BACKEND"]
    for kind in (OUTSIDE, HANDED):
        found = picks.reasons(many(world, to, NODE_PORT, kind, UDP))
        assert {reason for reason, _ in found} == {no_backend}


def test_a_load_without_node_addresses_has_no_node_ports(node: NodeUnderTest) -> None:
    node.node_addresses = ()
    policy = node.policy().allow("a", "world", ANY).allow("a", "c", ANY)
    node.load(policy, services=exposed((C, "node-2")))
    assert len(node.notes) == 1 and "no addresses of the node node-1" in node.notes[0]
    plain = frame(A, NODE, tcp(4000, NODE_PORT, SYN))
    assert node.leaves("a", plain) == plain
    node.serve(exposed((C, "node-2")))
    assert len(node.notes) == 2
    node.node_addresses = (NODE.ip4,)
    node.load(policy)
    node.serve(exposed((C, "node-2")))
    assert len(node.notes) == 2, "`node services` knows the addresses of the last load"
    assert node.leaves("a", plain) != plain


@families
def test_pods_get_the_endpoints_that_topology_hints_assign_to_their_zone(
    node: NodeUnderTest, family: int
) -> None:
    node.node_labels = {"topology.kubernetes.io/zone": "zone-a"}
    found = exposed((B, "node-1"), (C, "node-2"))
    for each in found[1:]:
        for endpoint, zone in zip(each.raw["endpoints"], ("zone-b", "zone-a"), strict=True):
            endpoint["hints"] = {"forZones": [{"name": zone}]}
    policy = node.policy().allow("a", "b", ANY).allow("a", "c", ANY)
    node.load(policy, services=found)
    for port in range(5000, 5020):
        assert sent_to(node, port, family) == packed(C.address(family))
    node.serve(found)
    assert sent_to(node, 5100, family) == packed(C.address(family)), "the load's zone is known"
    node.node_labels = {}
    node.load(policy, services=found)
    ends = {sent_to(node, port, family) for port in range(6000, 6040)}
    assert ends == {packed(B.address(family)), packed(C.address(family))}


def sent_to(node: NodeUnderTest, port: int, family: int) -> bytes:
    sent = node.leaves("a", frame(A, VIP, tcp(port, PORT, SYN), family=family))
    assert sent is not None
    return sent[30:34] if family == 4 else sent[38:54]


@families
@pytest.mark.parametrize("endpoint", ["b", "c"], ids=["here", "elsewhere"])
def test_sockets_of_a_pod_reach_a_node_port(
    node: NodeUnderTest, family: int, endpoint: str
) -> None:
    policy = node.policy().allow("a", "b", ANY).allow("a", "c", ANY)
    with ExitStack() as owned:
        wire = ServiceWire(node, owned)
        node.load(policy, services=exposed((HOSTS[endpoint], "node-1")))
        listening = wire.server(endpoint, family, socket.SOCK_STREAM, TARGET)
        client = wire.open_socket("a", family, socket.SOCK_STREAM)
        client.connect((NODE.address(family), NODE_PORT))
        accepted, seen = listening.accept()
        with accepted:
            assert seen[0] == A.address(family)
            client.sendall(b"question")
            assert accepted.recv(100) == b"question"
            accepted.sendall(b"answer")
            assert client.recv(100) == b"answer"
        assert wire.bad_checksums() == 0
    assert node.drops() == {}


def test_an_invalid_node_port_is_left_out(node: NodeUnderTest) -> None:
    wrong = exposed()[0]
    wrong.raw["spec"]["ports"][0]["nodePort"] = "http"
    node.load(node.policy(), services=[value(wrong.raw)])
    (warning,) = node.warnings
    assert "ports[0].nodePort: expected a whole number" in warning
