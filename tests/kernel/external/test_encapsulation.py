# SPDX-License-Identifier: Apache-2.0
"""Packets between nodes are encapsulated and decapsulated without the VXLAN device."""

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.attach import xdp
from policyc.runtime.attach.program_slot import FROM_TUNNEL
from policyc.runtime.devices import tunnel
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
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
from tests.kernel.support.node_under_test import NEXT, run_through
from tests.kernel.support.service_wire import _offload, merge_segments
from tests.kernel.support.two_nodes import UPLINK, TwoNodes, address

__all__ = ["bundle"]
pytestmark = pytest.mark.kernel
BULK = 400_000
ROUNDS = 20
REDIRECT = 7  # TC_ACT_REDIRECT of <linux/pkt_cls.h>


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


def a_datagram_to_b(lab: TwoNodes, bundle: Path, family: int = 4) -> bytes:
    """A client's, as it arrived at node b: in a frame with outer headers. Pod-b has it by now."""
    lab.offload(tx=False, segments=False)
    loaded(lab, bundle, "pod-b")
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("client1", family, UDP)
    seen = lab.capture("router", "to-b")
    client.sendto(b"question", (address("a", family), NODE_PORT))
    arrived_from(server)
    (frame,) = filter(is_tunnelled, frames_of(seen))
    return frame


def n_questions(capture: socket.socket) -> int:
    """Of the captured frames, those with the datagram."""
    return sum(b"question" in frame for frame in frames_of(capture))


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
    at_device = [lab.capture(node, tunnel.NAME) for node in ("a", "b")]
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
    for each in at_device:
        n_frames = sum(b"?" * 100 in frame for frame in frames_of(each))
        assert n_frames == 0 if family == 4 else n_frames >= ROUNDS
    assert lab.bad_checksums() == 0


def test_without_a_program_in_the_slot_the_device_gets_decapsulated_packets(
    lab: TwoNodes, bundle: Path
) -> None:
    """And the next load puts it there again."""
    frame, at_device = a_datagram_to_b(lab, bundle), lab.capture("b", tunnel.NAME)
    wire, pins = lab.capture("router", "to-b"), Pins(lab.bpffs("b"))
    FROM_TUNNEL.clear(pins)
    wire.send(frame)
    eventually(lambda: counts(lab, "b")["received"] == 2, "the frame is decapsulated")
    assert n_questions(at_device) == 1
    lab.load("b", bundle, services("pod-b"))
    wire.send(frame)
    eventually(lambda: counts(lab, "b")["received"] == 3, "the frame is decapsulated")
    assert FROM_TUNNEL.program(pins) and not n_questions(at_device)


@families
def test_segments_of_outer_packets_are_merged(lab: TwoNodes, bundle: Path, family: int) -> None:
    """Their outer IP ids follow one another."""
    lab.offload(tx=False, segments=False)
    lab.at["router"].within(lambda: _offload("to-b", tx=False, segments=False))
    lab.at["b"].within(lambda: merge_segments(UPLINK))
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    seen = lab.capture("b", UPLINK)
    with server:
        for _ in range(ROUNDS):
            exchange(client, server, BULK)
    merged = [frame for frame in frames_of(seen) if is_tunnelled(frame) and len(frame) > 10_000]
    assert len(merged) > ROUNDS
    assert lab.bad_checksums() == 0


def test_no_packet_overtakes_merged_segments(lab: TwoNodes, bundle: Path, one_cpu: None) -> None:
    """They wait in the device for a moment; so packets after them go there, too."""
    frame, uplink = a_datagram_to_b(lab, bundle), lab.at["b"].network.index(UPLINK)

    def verdict(gso_size: int = 0) -> int:
        pin = Pins(lab.bpffs("b")).hook("pc_from_uplink")
        with bpf_syscall.obj_get(pin) as fd:
            return run_through(fd, frame, uplink, uplink, gso_size=gso_size)[0]

    def follows() -> bool:
        assert verdict(gso_size=100) == NEXT
        return verdict() == NEXT

    assert lab.at["b"].within(verdict) == REDIRECT
    assert any(lab.at["b"].within(follows) for _ in range(100)), "within a tick of the kernel"
    eventually(lambda: lab.at["b"].within(verdict) == REDIRECT, "later packets do not wait")


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
    """A wrong one of UDP."""
    frame[40:42] = b"\x12\x34"


def outer_header_checksum(frame: bytearray) -> None:
    """A wrong one of IPv4."""
    frame[24] ^= 1


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


WRONG = {outer_checksum: ("Udp", "InCsumErrors"), outer_header_checksum: ("Ip", "InHdrErrors")}
"""The stack's counter of what it drops."""
TO_DEVICE = (outer_udp_length, trailing_bytes, outer_ecn)


def changed_frame(lab: TwoNodes, bundle: Path, change: Callable[[bytearray], None]) -> Counter[str]:
    """Sends it to node b; gives what the node has counted before."""
    changed = bytearray(a_datagram_to_b(lab, bundle))
    change(changed)
    before = counts(lab, "b")
    lab.capture("router", "to-b").send(changed)
    return before


def snmp(lab: TwoNodes) -> dict[tuple[str, str], int]:
    """The counters of node b's stack."""
    lines = lab.at["b"].within(Path("/proc/net/snmp").read_text).splitlines()
    return {
        (heads.split(":")[0], name): int(value)
        for heads, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in zip(heads.split()[1:], values.split()[1:], strict=True)
    }


@pytest.mark.parametrize("change", TO_DEVICE, ids=[each.__name__ for each in TO_DEVICE])
def test_other_outer_headers_are_left_to_the_device(
    lab: TwoNodes, bundle: Path, change: Callable[[bytearray], None]
) -> None:
    before = changed_frame(lab, bundle, change)
    more = eventually(lambda: counts(lab, "b") - before, "the frame is decapsulated")
    assert more == {"received_by_device": 1}


@pytest.mark.parametrize("change", WRONG, ids=[each.__name__ for each in WRONG])
def test_packets_with_a_wrong_outer_checksum_are_dropped(
    lab: TwoNodes, bundle: Path, change: Callable[[bytearray], None]
) -> None:
    before = changed_frame(lab, bundle, change)
    eventually(lambda: snmp(lab)[WRONG[change]], "the stack drops the frame")
    assert counts(lab, "b") == before


class OtherAddress(TwoNodes):
    """The endpoints file has not the first address of node a's uplink, but another one of the node."""

    listed = "192.0.2.201"

    def __init__(self, folder: Path, owned: ExitStack, device: str) -> None:
        super().__init__(folder, owned)
        self.at["a"].network.add_address(device, f"{self.listed}/32")
        self.route(self.listed, 32, "a", 4)
        self.run("a", "ip", "route", "change", "default", "via", "198.51.1.1", "src", self.listed)

    def _endpoints(self, node: str, families: object) -> dict[str, object]:
        found = super()._endpoints(node, (4,))
        nodes = [
            {"name": "a", "addresses": [self.listed]},
            {"name": "b", "addresses": [address("b", 4)]},
        ]
        return found | {"nodes": nodes}


@pytest.mark.parametrize("mode", [None, "generic"])
@pytest.mark.parametrize("device", ["lo", UPLINK])
def test_the_source_of_outer_packets_is_an_address_of_the_endpoints_file(
    loads: None, tmp_path: Path, bundle: Path, mode: xdp.Mode | None, device: str
) -> None:
    """Other nodes accept no other. With one at another device, the VXLAN device encapsulates."""
    with ExitStack() as owned:
        lab = OtherAddress(tmp_path, owned, device)
        for node in ("a", "b"):
            owned.callback(lab.unload, node)
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
        by_hooks = counts(lab, "a")["sent"] + sum(each.requests for each in lab.status("a").xdp)
        assert bool(by_hooks) == (device == UPLINK)


@families
def test_an_endpoint_in_the_hosts_network_replies_without_the_device(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.offload(tx=False, segments=False)
    loaded(lab, bundle, "b")
    listening = lab.server("b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    before = counts(lab, "b")
    with server:
        exchange(client, server, BULK)
    more = counts(lab, "b") - before
    assert more["sent"] > 5 and not more["sent_by_device"]
    assert lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("fast_path", [True, False])
def test_a_packet_with_a_mark_that_a_routing_rule_reads_is_left_to_the_device(
    lab: TwoNodes, bundle: Path, family: int, fast_path: bool
) -> None:
    """Also where pods have no fast path, as a route has a smaller MTU than its uplink."""
    if not fast_path:
        narrow = ("203.0.113.0/24", "via", "198.51.2.1", "mtu", "1400")
        lab.run("b", "ip", "route", "add", *narrow)
    lab.run("b", "ip", f"-{family}", "rule", "add", "fwmark", "0x77/0xff", "lookup", "main")
    loaded(lab, bundle, "pod-b")
    table = "iptables" if family == 4 else "ip6tables"
    mark = ("-A", "FORWARD", "-s", address("pod-b", family), "-j", "MARK", "--set-mark", "0x77")
    lab.run("b", table, "-t", "mangle", *mark)
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("client1", family, UDP)
    client.connect((address("a", family), NODE_PORT))
    client.send(b"question")
    server.sendto(b"answer", arrived_from(server)[1])
    assert arrived_from(client)[0] == b"answer"
    assert (counts(lab, "b")["sent"], counts(lab, "b")["sent_by_device"]) == (0, 1)


def test_inner_ipv6_that_came_by_a_wire_is_decapsulated(lab: TwoNodes, bundle: Path) -> None:
    """A veth keeps the offsets that the sender sets; a frame of a packet socket has none."""
    frame, wire = a_datagram_to_b(lab, bundle, 6), lab.capture("router", "to-b")
    at_pod = lab.capture("pod-b", "eth0")

    def is_by_the_hook() -> bool:
        was = counts(lab, "b")["received"]
        wire.send(frame)
        eventually(lambda: n_questions(at_pod) == 1, "the datagram arrives")
        return counts(lab, "b")["received"] > was

    eventually(is_by_the_hook, "the hook decapsulates, now that the device has done so for another")
