# SPDX-License-Identifier: Apache-2.0
"""Pods on ipvlan slaves: policy, Services, SNAT and answers hold for their traffic.

`make guest-ipvlan` runs this file with ipvlan. Elsewhere veths stand for the slaves (emulated.py).
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.snat.snat import Masquerade
from tests.kernel.ipvlan.bed import Slaves, families
from tests.kernel.support.loaded_lab import PORT, SILENCE
from tests.kernel.support.service_yaml import PORT as SERVICE_PORT
from tests.kernel.support.service_yaml import VIP, service, slices, web

pytestmark = pytest.mark.kernel
FROM_OUTSIDE = {4: "10.96.0.20", 6: "fd96::20"}


@pytest.fixture(scope="module", autouse=True)
def loaded(lab: Slaves, opened: Path) -> Iterator[None]:
    """The policies of the bed, and a Service with the pod `server` behind it."""
    lab.load(opened, web(lab.host("server"), protocol="TCP"))
    yield
    lab.unload()


@families
def test_ingress_policy_holds_between_slaves(lab: Slaves, family: int) -> None:
    assert lab.asks("cart", "server", family)
    assert not lab.asks("cart", "server", family, 8081, patience=SILENCE)
    assert not lab.asks("guard", "server", family, patience=SILENCE)
    assert lab.connects("cart", "server", family) == "open"
    assert lab.connects("guard", "server", family, patience=SILENCE) == "silent"


@families
def test_egress_policy_holds_between_slaves_and_to_the_network(lab: Slaves, family: int) -> None:
    for target in ("cart", "external", "node-1"):
        assert lab.asks("other", target, family, 9999)
        assert not lab.asks("other", target, family, 9998, patience=SILENCE)


@families
def test_policy_holds_for_what_comes_from_the_network(lab: Slaves, family: int) -> None:
    assert lab.asks("external", "server", family)
    assert not lab.asks("external", "server", family, 8081, patience=SILENCE)
    assert lab.asks("external", "cart", family)
    assert lab.asks("cart", "external", family)


@families
def test_the_node_reaches_its_pods_despite_policy(lab: Slaves, family: int) -> None:
    assert lab.asks("node-1", "server", family, 8081)
    assert lab.connects("node-1", "server", family, 8082) == "open"


@families
def test_large_segments_arrive_whole(lab: Slaves, family: int) -> None:
    assert lab.connects("cart", "server", family, size=1 << 20) == "open"
    at = (VIP.address(family), SERVICE_PORT)
    assert lab.connects("cart", "server", family, at=at, size=1 << 20) == "open"


@families
def test_a_service_leads_to_another_slave(lab: Slaves, family: int) -> None:
    at = (VIP.address(family), SERVICE_PORT)
    assert lab.connects("cart", "server", family, at=at) == "open"
    assert lab.connects("guard", "server", family, at=at, patience=SILENCE) == "silent"


@families
def test_a_pod_reaches_itself_by_a_service(lab: Slaves, family: int) -> None:
    at = (VIP.address(family), SERVICE_PORT)
    assert lab.connects("server", "server", family, at=at) == "open"


@families
def test_a_service_without_endpoints_refuses(lab: Slaves, opened: Path, family: int) -> None:
    try:
        lab.load(opened, web(protocol="TCP"))
        at = (VIP.address(family), SERVICE_PORT)
        assert lab.connects("cart", "server", family, at=at) == "refused"
    finally:
        lab.load(opened, web(lab.host("server"), protocol="TCP"))


@families
def test_an_external_client_reaches_a_service_on_a_slave(
    lab: Slaves, opened: Path, family: int
) -> None:
    external = service(externalIPs=[FROM_OUTSIDE[4], FROM_OUTSIDE[6]])
    try:
        lab.load(opened, [external, *slices([lab.host("server")])])
        at = (FROM_OUTSIDE[family], SERVICE_PORT)
        assert lab.connects("external", "server", family, at=at) == "open"
    finally:
        lab.load(opened, web(lab.host("server"), protocol="TCP"))


@families
def test_a_rule_that_rejects_answers_the_sender(lab: Slaves, family: int) -> None:
    assert lab.connects("cart", "guard", family, 22) == "refused", "of another slave"
    assert lab.connects("external", "guard", family, 22) == "refused", "of the network"
    assert lab.connects("guard", "cart", family, 25) == "refused", "by its own egress policy"
    assert lab.connects("cart", "guard", family, 23, patience=SILENCE) == "silent"


@families
def test_snat_gives_a_slaves_packet_the_nodes_address(
    lab: Slaves, opened: Path, family: int
) -> None:
    try:
        lab.load(opened, masquerade=Masquerade(range(20000, 30000), ()))
        with (
            lab.socket("external", socket.SOCK_DGRAM, family, PORT) as server,
            lab.socket("cart", socket.SOCK_DGRAM, family) as client,
        ):
            client.sendto(b"question", (lab.address("external", family), PORT))
            _, peer = server.recvfrom(100)
            assert peer[0] == lab.address("node-1", family)
            server.sendto(b"answer", peer)
            assert client.recv(100) == b"answer"
        assert lab.asks("cart", "server", family), "no SNAT between pods"
    finally:
        lab.load(opened, web(lab.host("server"), protocol="TCP"))


@families
def test_fragments_in_order_arrive(lab: Slaves, family: int) -> None:
    with (
        lab.socket("server", socket.SOCK_DGRAM, family, PORT) as server,
        lab.socket("cart", socket.SOCK_DGRAM, family) as client,
    ):
        data = bytes(range(256)) * 20
        client.sendto(data, (lab.address("server", family), PORT))
        assert server.recv(1 << 16) == data


@families
def test_a_policy_change_cuts_a_connection_between_slaves(
    lab: Slaves, opened: Path, closed: Path, family: int
) -> None:
    with (
        lab.socket("server", socket.SOCK_DGRAM, family, PORT) as server,
        lab.socket("cart", socket.SOCK_DGRAM, family) as client,
    ):
        client.connect((lab.address("server", family), PORT))
        client.send(b"before")
        data, peer = server.recvfrom(100)
        assert data == b"before"
        try:
            lab.load(closed)
            client.send(b"after")
            server.settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                server.recv(100)
            server.sendto(b"answer", peer)
            client.settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                client.recv(100)
        finally:
            lab.load(opened, web(lab.host("server"), protocol="TCP"))
