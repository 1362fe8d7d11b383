# SPDX-License-Identifier: Apache-2.0
"""ICMP errors to a Service's address pass only about a connection of the reporter or of its path."""

import pytest

from tests.kernel.support.exposed_services import (
    NODE_PORT,
    exposed,
)
from tests.kernel.support.external_frames import (
    EXTERNAL,
    ROUTER,
    sent,
    served,
)
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
    Payload,
    echo,
    frame,
    inner,
    tcp,
    udp,
)
from tests.kernel.support.service_error_frames import error
from tests.kernel.support.service_yaml import (
    PORT,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])


def about(src: Host, dst: Host, payload: Payload, family: int) -> Payload:
    return error(family, inner(frame(src, dst, payload, family=family)), much=True)


def open_policy(node: NodeUnderTest) -> TablePolicy:
    """Everything may pass: nothing is dropped by a rule."""
    policy = node.policy()
    for end in ("a", "b"):
        policy = policy.allow(end, "world", ANY).allow(end, "c", ANY).allow("world", end, ANY)
    return policy


@families
@pytest.mark.parametrize("make", [tcp, udp], ids=["tcp", "udp"])
def test_a_pods_error_about_no_connection_is_dropped(
    node: NodeUnderTest, family: int, make
) -> None:
    """No policy is asked: no rule names a Service's address."""
    both = [service(), *slices([C]), service("u", protocol="UDP"), *slices([C], "u", "UDP")]
    node.load(open_policy(node), services=both)
    forged = about(VIP, A, make(PORT, 4000), family)
    assert node.leaves("a", frame(A, VIP, forged, family=family)) is None
    assert node.drops() == {"unrelated": 1}
    assert node.leaves("b", frame(A, VIP, forged, family=family)) is None
    assert node.drops() == {"unrelated": 1, "spoofed ip": 1}


@families
@pytest.mark.parametrize("make", [tcp, udp], ids=["tcp", "udp"])
def test_an_external_error_about_no_connection_is_dropped(
    node: NodeUnderTest, family: int, make
) -> None:
    protocol = make.__name__.upper()
    node.load(open_policy(node), services=served(A, protocol=protocol), uplinks=[UPLINK])
    forged = about(EXTERNAL, WORLD, make(PORT, 4000), family)
    for reporter in (WORLD, ROUTER):
        assert node.comes_in(frame(reporter, EXTERNAL, forged, family=family)) is None
    assert node.drops() == {"unrelated": 2}
    assert node.connections(family) == []


@families
def test_an_error_about_the_connection_of_another_pod_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    """Neither external hosts nor other pods may report about a pod's connection to the Service."""
    node.load(open_policy(node), services=served(C), uplinks=[UPLINK])
    opened = frame(A, EXTERNAL, tcp(4000, PORT, SYN), family=family)
    assert node.leaves("a", opened)
    forged = about(EXTERNAL, A, tcp(PORT, 4000), family)
    for reporter in (WORLD, ROUTER):
        assert node.comes_in(frame(reporter, EXTERNAL, forged, family=family)) is None
    assert node.leaves("b", frame(B, EXTERNAL, forged, family=family)) is None
    assert node.drops() == {"unrelated": 3}
    told = node.leaves("a", frame(A, EXTERNAL, forged, family=family))
    assert told and told != frame(A, EXTERNAL, forged, family=family), (
        "the client gets the translated error"
    )


@families
def test_an_error_about_an_external_clients_connection_passes_from_outside_only(
    node: NodeUnderTest, family: int
) -> None:
    """A reply may meet a router on its path to the client, so a router may report. A local pod is
    not on that path.
    """
    node.load(open_policy(node), services=served(A), uplinks=[UPLINK])
    assert node.comes_in(sent(tcp(4000, PORT, SYN), family))
    true = about(EXTERNAL, WORLD, tcp(PORT, 4000), family)
    assert node.comes_in(frame(ROUTER, EXTERNAL, true, family=family))
    assert node.leaves("b", frame(B, EXTERNAL, true, family=family)) is None
    assert node.drops() == {"unrelated": 1}
    other = about(EXTERNAL, WORLD, tcp(PORT, 4001), family)
    assert node.comes_in(frame(ROUTER, EXTERNAL, other, family=family)) is None
    assert node.drops() == {"unrelated": 2}


@families
def test_an_error_about_an_ended_connection_is_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(open_policy(node), services=web(C))
    assert node.leaves("a", frame(A, VIP, tcp(4000, PORT, SYN), family=family))
    told = frame(A, VIP, about(VIP, A, tcp(PORT, 4000), family), family=family)
    assert node.leaves("a", told)
    node.expire_connections(family)
    assert node.leaves("a", told) is None
    assert node.drops() == {"unrelated": 1}


@families
def test_an_error_about_no_service_is_decided_by_policy(node: NodeUnderTest, family: int) -> None:
    """Another port, a destination other than the quoted source, an echo; and a node without
    Services.
    """
    node.load(open_policy(node), services=served(C), uplinks=[UPLINK])
    for forged in (
        about(EXTERNAL, A, tcp(PORT + 1, 4000), family),
        about(EXTERNAL, A, udp(PORT, 4000), family),
        about(WORLD, A, tcp(PORT, 4000), family),
        about(EXTERNAL, A, echo(family), family),
    ):
        same = frame(A, EXTERNAL, forged, family=family)
        assert node.leaves("a", same) == same
    node.serve([])
    same = frame(A, EXTERNAL, about(EXTERNAL, A, tcp(PORT, 4000), family), family=family)
    assert node.leaves("a", same) == same
    assert node.drops() == {}


@families
@pytest.mark.parametrize("make", [tcp, udp], ids=["tcp", "udp"])
def test_an_error_about_a_server_of_the_node_reaches_the_node(
    node: NodeUnderTest, family: int, make
) -> None:
    """A hostNetwork process may have the Service's port at the node's address."""
    protocol = make.__name__.upper()
    services = exposed((NODE, "node-1"), protocol=protocol, externalIPs=[])
    node.load(open_policy(node), services=services, uplinks=[UPLINK])
    told = about(NODE, WORLD, make(NODE_PORT, 4000), family)
    for reporter in (WORLD, ROUTER):
        came = frame(reporter, NODE, told, family=family)
        assert node.comes_in(came) == came
    assert node.drops() == {}
