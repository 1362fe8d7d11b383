# SPDX-License-Identifier: Apache-2.0
"""Packets between nodes are encapsulated and decapsulated without the VXLAN device."""

import socket
from collections import Counter
from pathlib import Path

import pytest

from tests.kernel.support.external_wire import (
    NODE_PORT,
    TARGET,
    TCP,
    accepted,
    bundle,
    exchange,
    families,
    loaded,
    services,
)
from tests.kernel.support.two_nodes import TwoNodes, address

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
