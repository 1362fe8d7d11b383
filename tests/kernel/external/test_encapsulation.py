# SPDX-License-Identifier: Apache-2.0
"""Packets between nodes are encapsulated and decapsulated without the VXLAN device."""

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.attach import xdp
from tests.eventually import eventually
from tests.kernel.support.arrival import arrived_from
from tests.kernel.support.external_wire import (
    NODE_PORT,
    TARGET,
    TCP,
    UDP,
    accepted,
    bundle,
    exchange,
    families,
    frames_of,
    is_tunnelled,
    loaded,
    services,
)
from tests.kernel.support.two_nodes import UPLINK, TwoNodes, address

__all__ = ["bundle"]
pytestmark = pytest.mark.kernel
BULK = 400_000
ROUNDS = 20


def counts(lab: TwoNodes, node: str) -> Counter[str]:
    """Packets of the tunnel, as the node's status has them."""
    found = lab.status(node).tunnel
    assert found is not None
    return Counter(found)


def datagrams(lab: TwoNodes, node: str) -> int:
    """That sockets of the node's kernel received over IPv4, that of the VXLAN device among them."""
    text = lab.at[node].within(Path("/proc/net/snmp").read_text)
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    return int(values[names.index("InDatagrams")])


@pytest.mark.both_families
@families
def test_streams_are_encapsulated_without_the_device(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    before = [counts(lab, node) for node in ("a", "b")]
    with server:
        exchange(client, server, BULK)
    for node, known in zip(("a", "b"), before, strict=True):
        found = counts(lab, node)
        assert found["sent"] > known["sent"] + 5
        assert found["sent_by_device"] == known["sent_by_device"]
    assert lab.bad_checksums() == 0


@pytest.mark.both_families
@families
def test_requests_and_replies_bypass_the_device_of_both_nodes(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """With complete checksums, as from a wire. Inner IPv6 has offsets that only a wire removes."""
    lab.offload(tx=False, segments=False)
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    before = [(counts(lab, node), datagrams(lab, node)) for node in ("a", "b")]
    with server:
        for _ in range(ROUNDS):
            for one, other in ((client, server), (server, client)):
                one.sendall(b"?" * 100)
                assert len(other.recv(100, socket.MSG_WAITALL)) == 100
    for node, (known, n_datagrams) in zip(("a", "b"), before, strict=True):
        more = counts(lab, node) - known
        received = "received" if family == 4 else "received_by_device"
        assert more.keys() == {"sent", received}, more
        assert more["sent"] >= ROUNDS and more[received] >= ROUNDS
        n_more = datagrams(lab, node) - n_datagrams
        assert n_more == 0 if family == 4 else n_more >= ROUNDS
    assert lab.bad_checksums() == 0


@families
def test_with_forwarding_by_the_stack_the_device_has_all_packets(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.offload(tx=False, segments=False)
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), forward="stack")
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, 1000)
    for node in ("a", "b"):
        found = counts(lab, node)
        assert found["sent_by_device"] and found["received_by_device"]
        assert not found["sent"] and not found["received"]


def test_ipv6_between_nodes_is_left_to_the_device(lab: TwoNodes, bundle: Path) -> None:
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), families=(6,))
    listening = lab.server("pod-b", 6, TCP, TARGET)
    client = lab.connect("client1", 6, address("a", 6), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, BULK)
    for node in ("a", "b"):
        assert not counts(lab, node)["sent"] and counts(lab, node)["sent_by_device"] > 5
    assert lab.bad_checksums() == 0


def test_fragments_of_a_datagram_have_one_outer_port(lab: TwoNodes, bundle: Path) -> None:
    loaded(lab, bundle, "pod-b")
    server = lab.server("pod-b", 4, UDP, TARGET)
    lab.at["client1"].network.change(UPLINK, mtu=1400)
    client = lab.open_socket("client1", 4, UDP)
    seen = lab.capture("router", "to-b")
    sent = bytes(5000)
    client.sendto(sent, (address("a", 4), NODE_PORT))
    assert arrived_from(server, len(sent))[0] == sent
    ports = [frame[34:36] for frame in frames_of(seen) if is_tunnelled(frame)]
    assert len(ports) == 4 == counts(lab, "a")["sent"] and len(set(ports)) == 1


def outer_checksum(frame: bytearray) -> None:
    """A wrong one."""
    frame[40:42] = b"\x12\x34"


def outer_udp_length(frame: bytearray) -> None:
    """Two bytes less than the packet has."""
    frame[38:40] = (int.from_bytes(frame[38:40], "big") - 2).to_bytes(2, "big")


def trailing_bytes(frame: bytearray) -> None:
    """Behind the packet."""
    frame += bytes(4)


def outer_ecn(frame: bytearray) -> None:
    """ECT(1), where the inner packet is not capable of ECN."""
    frame[24:26] = (int.from_bytes(frame[24:26], "big") - 1).to_bytes(2, "big")
    frame[15] |= 1


CHANGES = (outer_checksum, outer_udp_length, trailing_bytes, outer_ecn)


@pytest.mark.parametrize("change", CHANGES, ids=[each.__name__ for each in CHANGES])
def test_other_outer_headers_are_left_to_the_device(
    lab: TwoNodes, bundle: Path, change: Callable[[bytearray], None]
) -> None:
    lab.offload(tx=False, segments=False)
    loaded(lab, bundle, "pod-b")
    server = lab.server("pod-b", 4, UDP, TARGET)
    client = lab.open_socket("client1", 4, UDP)
    seen = lab.capture("router", "to-b")
    client.sendto(b"question", (address("a", 4), NODE_PORT))
    arrived_from(server)
    (frame,) = filter(is_tunnelled, frames_of(seen))
    assert counts(lab, "b")["received"] == 1
    changed = bytearray(frame)
    change(changed)
    for sent in (changed, frame):
        seen.send(sent)
    eventually(lambda: counts(lab, "b")["received"] >= 2, "the unchanged frame is decapsulated")
    assert counts(lab, "b")["received"] == 2


class OtherAddress(TwoNodes):
    """The endpoints file has another address of node a than its uplink."""

    listed = "192.0.2.201"

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        super().__init__(folder, owned)
        self.at["a"].network.add_address("lo", f"{self.listed}/32")
        self.route(self.listed, 32, "a", 4)
        self.run("a", "ip", "route", "change", "default", "via", "198.51.1.1", "src", self.listed)

    def _endpoints(self, node: str, families: object) -> dict[str, object]:
        found = super()._endpoints(node, (4,))
        nodes = [
            {"name": "a", "addresses": [self.listed]},
            {"name": "b", "addresses": [address("b", 4)]},
        ]
        return found | {"nodes": nodes}


@pytest.fixture
def other_address(loads: None, tmp_path: Path) -> Iterator[OtherAddress]:
    """Nothing is loaded yet."""
    with ExitStack() as owned:
        made = OtherAddress(tmp_path, owned)
        yield made
        for node in made.loaded:
            made.unload(node)


@pytest.mark.parametrize("mode", [None, "generic"])
def test_the_source_of_outer_packets_is_an_address_of_the_endpoints_file(
    other_address: OtherAddress, bundle: Path, mode: xdp.Mode | None
) -> None:
    """Other nodes accept no other."""
    lab = other_address
    lab.offload(tx=False, segments=False)
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), xdp_mode=mode)
    server = lab.server("pod-b", 4, UDP, TARGET)
    client = lab.open_socket("client1", 4, UDP)
    client.connect((lab.listed, NODE_PORT))
    for _ in range(ROUNDS):
        client.send(b"question")
        data, peer = arrived_from(server)
        assert data == b"question"
        server.sendto(b"answer", peer)
        assert arrived_from(client)[0] == b"answer"
    assert not lab.drops()
