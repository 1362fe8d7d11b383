# SPDX-License-Identifier: Apache-2.0
"""Processes of a node outside every cgroup reach Services by the route. All reverse path filters
are strict.
"""

import errno
import socket
from pathlib import Path

import pytest

from policyc.runtime.services.route import NAME
from tests.kernel.support.bundles import (
    compiled,
    policy_for_web,
)
from tests.kernel.support.external_wire import (
    PORT,
    TARGET,
    TCP,
    UDP,
    exchange,
    families,
    services,
)
from tests.kernel.support.service_route_wire import CIDRS
from tests.kernel.support.service_yaml import VIP
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
    blocks,
)

pytestmark = pytest.mark.kernel

POLICY = policy_for_web(*blocks("a"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of others, node a alone may reach the pods."""
    return compiled(tmp_path_factory.mktemp("route"), POLICY)


def loaded(lab: TwoNodes, bundle: Path, *endpoints: str) -> None:
    lab.load("a", bundle, services(*endpoints), service_cidr=CIDRS)
    lab.load("b", bundle, services(*endpoints))


def asked_by_udp(lab: TwoNodes, family: int, endpoint: str) -> None:
    asking = lab.open_socket("a", family, UDP)
    asking.connect((VIP.address(family), PORT))
    answering = lab.server(endpoint, family, UDP, TARGET)
    for _ in range(3):
        asking.send(b"who")
        asked, who = answering.recvfrom(100)
        assert asked == b"who"
        answering.sendto(b"me", who)
        assert asking.recv(100) == b"me"


@pytest.mark.waits
@families
def test_the_node_reaches_endpoints_by_the_route(lab: TwoNodes, bundle: Path, family: int) -> None:
    """On this node, on the other, and in the node's own network."""
    loaded(lab, bundle)
    assert lab.status("a").service_cidrs == CIDRS
    for endpoint in ("pod-a", "pod-b", "a"):
        lab.serve("a", services(endpoint))
        listening = lab.server(endpoint, family, TCP, TARGET)
        client = lab.connect("a", family, VIP.address(family), PORT)
        assert client and client.getsockname()[0] == address("a", family)
        exchange(client, lab.accept(listening), 500_000)
        asked_by_udp(lab, family, endpoint)
    # "backend gone": an acknowledgement of the connection to the endpoint before comes late.
    assert set().union(*lab.drops().values()) <= {"backend gone"} and lab.bad_checksums() == 0
    lab.serve("a", services())
    with pytest.raises(ConnectionRefusedError):
        lab.connect("a", family, VIP.address(family), PORT)


@families
@pytest.mark.parametrize("endpoint", ["pod-a", "pod-b", "a"])
def test_a_socket_of_the_node_is_refused_where_no_process_listens(
    lab: TwoNodes, bundle: Path, family: int, endpoint: str
) -> None:
    """The endpoint's kernel sends the error. The node's kernel knows the quoted packet: one to the
    Service.
    """
    loaded(lab, bundle, endpoint)
    asking = lab.open_socket("a", family, UDP)
    asking.connect((VIP.address(family), PORT))
    asking.send(b"who")
    with pytest.raises(OSError) as refused:
        asking.recv(100)
    assert refused.value.errno == errno.ECONNREFUSED
    assert lab.drops() == {} and lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("endpoint", ["pod-a", "pod-b", "a"])
def test_an_endpoint_learns_that_the_nodes_socket_is_closed(
    lab: TwoNodes, bundle: Path, family: int, endpoint: str
) -> None:
    """The node's kernel sends the error, about a reply."""
    loaded(lab, bundle, endpoint)
    asking = lab.open_socket("a", family, UDP)
    asking.connect((VIP.address(family), PORT))
    answering = lab.server(endpoint, family, UDP, TARGET)
    asking.send(b"who")
    _, who = answering.recvfrom(100)
    answering.connect(who)
    asking.close()
    answering.send(b"me")
    with pytest.raises(OSError) as refused:
        answering.recv(100)
    assert refused.value.errno == errno.ECONNREFUSED
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.waits
@families
@pytest.mark.parametrize("endpoint", ["pod-a", "pod-b"])
def test_a_connection_survives_a_change_of_policy_and_the_device_lasts_with_the_option(
    lab: TwoNodes, bundle: Path, family: int, endpoint: str
) -> None:
    loaded(lab, bundle, endpoint)
    listening = lab.server(endpoint, family, TCP, TARGET)
    client = lab.connect("a", family, VIP.address(family), PORT)
    assert client is not None
    server = lab.accept(listening)
    for _ in range(2):
        exchange(client, server, 10_000)
        lab.load("a", bundle, None, service_cidr=CIDRS)
    exchange(client, server, 10_000)
    assert NAME in devices(lab)
    lab.load("a", bundle, None)
    assert NAME not in devices(lab)


def devices(lab: TwoNodes) -> list[str]:
    return lab.at["a"].within(lambda: [name for _, name in socket.if_nameindex()])
