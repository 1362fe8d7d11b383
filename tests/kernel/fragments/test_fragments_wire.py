# SPDX-License-Identifier: Apache-2.0
"""Fragments in any order on real wires: allowed datagrams arrive whole, and no others."""

import itertools
import os
import random
import socket
from dataclasses import replace

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.eventually import eventually
from tests.kernel.support.arrival import arrived, is_silent
from tests.kernel.support.fragment_wire import (
    SIZES,
    SPORT,
    Sender,
    _captured,
)
from tests.kernel.support.fragments import (
    cut,
    piece,
    send,
    udp_segment,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    UPLINK,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ICMP,
    ICMP6,
    TCP,
    Host,
    echo,
    mac_bytes,
    packed,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    value,
)
from tests.kernel.support.table_policy import (
    ANY,
    udp_port,
)
from tests.kernel.support.wire import link_address

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
UDP = socket.SOCK_DGRAM
THREE = (1200, 1200)
IP_RECVTTL = 12  # of <linux/in.h>


def to_b(
    node: NodeUnderTest, wire: ServiceWire, family: int, pod: str = "a", port: int = 53
) -> tuple[socket.socket, Sender]:
    """A server of pod b's, and a pod that may send to port 53 there, whatever the order."""
    node.load(node.policy().allow(pod, "b", udp_port(53)), reassemble=True)
    return wire.server("b", family, UDP, port), Sender(wire, pod, HOSTS["b"], family)


def data_of(size: int = 4000) -> bytes:
    return os.urandom(size)


def counts(node: NodeUnderTest) -> dict[str, int]:
    found = node.status()
    assert found and found.reassembly is not None
    return found.reassembly


@pytest.mark.waits
@families
@pytest.mark.parametrize("sender", ["a", "c"], ids=["a pod of the node", "a pod elsewhere"])
def test_four_fragments_in_any_order_arrive_as_one_datagram(
    node: NodeUnderTest, wire: ServiceWire, family: int, sender: str
) -> None:
    server, from_pod = to_b(node, wire, family, sender)
    for order in itertools.permutations(range(4)):
        data = data_of()
        from_pod.send_in(order, data, 53)
        assert arrived(server, 65536) == data, order
    assert wire.bad_checksums() == 0
    assert node.drops() == {}
    found = counts(node)
    assert found["over"] == 0 and found["sent"] > 0
    assert found["back"] == found["sent"], "as many as went"


@families
@pytest.mark.parametrize("sender", ["a", "c"], ids=["a pod of the node", "a pod elsewhere"])
def test_denied_fragments_do_not_arrive_in_any_order(
    node: NodeUnderTest, wire: ServiceWire, family: int, sender: str
) -> None:
    server, from_pod = to_b(node, wire, family, sender, port=54)
    for order in itertools.permutations(range(3)):
        from_pod.send_in(order, data_of(3000), 54, sizes=THREE)
    assert is_silent(server)
    dropped = node.drops()
    assert dropped["policy"] == 6, "each first one was asked about, once"
    assert dropped.keys() == {"policy", "fragment"}


@families
def test_a_node_without_the_option_drops_fragments_out_of_order(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    server = wire.server("b", family, UDP, 53)
    Sender(wire, "a", HOSTS["b"], family).send_in((1, 0, 2, 3), data_of(), 53)
    assert is_silent(server)
    assert node.drops() == {"fragment": 1}
    found = node.status()
    assert found and found.reassembly is None


@pytest.mark.waits
@families
def test_five_fragments_of_odd_and_small_sizes_are_reassembled(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    server, sender = to_b(node, wire, family)
    rng = random.Random(1)
    for sizes in ((8, 8, 8, 8), (8, 16, 24, 800), (24, 1400, 8, 1400), (1000, 8, 8, 8)):
        order = list(range(5))
        for _ in range(6):
            rng.shuffle(order)
            data = data_of(sum(sizes) + rng.randrange(1, 90))
            sender.send_in(order, data, 53, sizes=sizes)
            assert arrived(server, 65536) == data, (sizes, order)
    assert node.drops() == {}
    assert wire.bad_checksums() == 0


@pytest.mark.waits
@families
def test_reassembly_takes_no_additional_hop(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)), reassemble=True)
    server = wire.server("b", family, UDP, 53)
    wanted = IP_RECVTTL if family == 4 else socket.IPV6_RECVHOPLIMIT
    level = socket.IPPROTO_IP if family == 4 else socket.IPPROTO_IPV6
    server.setsockopt(level, wanted, 1)
    sender = Sender(wire, "a", HOSTS["b"], family)
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        for hops in (255, 64, 2):
            sender.send_in(order, data_of(), 53, hops=hops)
            _, said, _, _ = server.recvmsg(65536, 100)
            assert int.from_bytes(said[0][2][:4], "little") == hops - 1


@pytest.mark.waits
@families
def test_no_fragment_is_larger_than_the_sent_ones(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """Also with "don't fragment", which IPv4 fragments lose here as behind any firewall."""
    node.load(node.policy().allow("a", "b", udp_port(53)), reassemble=True)
    server = wire.server("b", family, UDP, 53)
    seen = _captured(wire, "b")
    data = data_of()
    frames = Sender(wire, "a", HOSTS["b"], family).frames(data, 53, whole=True)
    wire.within("a", lambda: send("pca.p", [frames[at] for at in (2, 0, 1, 3)]))
    assert arrived(server, 65536) == data
    mac = HOSTS["b"].mac.replace(":", "")
    with seen:
        got = sorted(len(frame) for frame in _frames(seen) if frame[:6].hex() == mac)
    assert got == sorted(map(len, frames))


@pytest.mark.waits
def test_fragments_behind_destination_options_are_reassembled(
    node: NodeUnderTest, wire: ServiceWire
) -> None:
    server, sender = to_b(node, wire, 6)
    for order in itertools.permutations(range(3)):
        data = data_of(3000)
        sender.send_in(order, data, 53, sizes=THREE, options=True)
        assert arrived(server, 65536) == data, order
    assert node.drops() == {}


@pytest.mark.waits
@families
def test_fragments_pass_a_service_in_both_directions(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The client's fragments to the Service and the endpoint's replies, in any order."""
    policy = node.policy().allow("a", "b", ANY).allow("a", "c", ANY)
    for endpoint in ("b", "c"):
        node.load(policy, services=udp_service(endpoint), reassemble=True)
        server = wire.server(endpoint, family, UDP, TARGET)
        client = wire.open_socket("a", family, UDP)
        client.bind((HOSTS["a"].address(family), SPORT + len(endpoint)))
        sender = Sender(wire, "a", VIP, family)
        back = Sender(wire, endpoint, HOSTS["a"], family)
        for order in itertools.permutations(range(3)):
            data = data_of(3000)
            sender.send_in(order, data, PORT, sizes=THREE)
            assert arrived(server, 65536) == data, (endpoint, order)
        client.close()
        client = wire.open_socket("a", family, UDP)
        client.bind((HOSTS["a"].address(family), SPORT))
        client.connect((VIP.address(family), PORT))
        for order in itertools.permutations(range(3)):
            data = data_of(3000)
            segment = udp_segment(back.me, back.to, TARGET, SPORT, data, family)
            back.ident += 1
            frames = cut(back.me, back.to, segment, THREE, family, ident=back.ident)
            back.send([frames[at] for at in order])
            assert arrived(client, 65536) == data, (endpoint, order)
        client.close()
        server.close()
    assert node.drops() == {}
    assert wire.bad_checksums() == 0


@pytest.mark.waits
@families
def test_a_large_ping_out_of_order_is_answered(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY), reassemble=True)
    sender = Sender(wire, "a", HOSTS["b"], family)
    me, to = sender.me, sender.to
    built = echo_of(family, data_of(3000), me, to)
    seen = _captured(wire, "a")
    proto = ICMP if family == 4 else ICMP6
    frames = cut(me, to, built, SIZES[:2], family, ident=77, proto=proto)
    ours = mac_bytes(me.mac)
    with seen:
        sender.send(frames[::-1])
        eventually(
            lambda: any(frame.startswith(ours) for frame in _frames(seen)), "an answer to the ping"
        )
    assert node.drops() == {}


@families
def test_overlapping_fragments_are_dropped(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)), reassemble=True)
    servers = [wire.server("b", family, UDP, port) for port in (53, 54)]
    sender = Sender(wire, "a", HOSTS["b"], family)
    good = udp_segment(sender.me, sender.to, SPORT, 53, data_of(2392), family)
    evil = udp_segment(sender.me, sender.to, SPORT, 54, data_of(2392), family)
    for at, end in ((0, 1208), (8, 1208), (600, 1208), (600, 1200), (1000, 1408)):
        sender.ident += 1
        tail = piece(sender.me, sender.to, good[1200:], 1200, False, family, ident=sender.ident)
        over = piece(sender.me, sender.to, evil[at:end], at, True, family, ident=sender.ident)
        head = piece(sender.me, sender.to, good[:1200], 0, True, family, ident=sender.ident)
        sender.send([tail, over, head])
        assert all(is_silent(server) for server in servers), (at, end)


@families
def test_a_denied_second_first_fragment_brings_no_data_in(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)), reassemble=True)
    servers = [wire.server("b", family, UDP, port) for port in (53, 54)]
    sender = Sender(wire, "a", HOSTS["b"], family)
    for order in itertools.permutations(range(3)):
        data = data_of(2392)
        sender.ident += 1
        good = udp_segment(sender.me, sender.to, SPORT, 53, data, family)
        evil = udp_segment(sender.me, sender.to, SPORT, 54, data, family)
        frames = [
            piece(sender.me, sender.to, evil[:1200], 0, True, family, ident=sender.ident),
            *cut(sender.me, sender.to, good, (1200,), family, ident=sender.ident),
        ]
        sender.send([frames[at] for at in order])
        assert is_silent(servers[0]) or arrived(servers[0], 65536) == data
        assert is_silent(servers[1])


@families
def test_a_tiny_first_fragment_does_not_bypass_policy(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """A first fragment of TCP without flags. It is dropped before reassembly."""
    node.load(node.policy().allow("a", "b", udp_port(53)), reassemble=True)
    sender = Sender(wire, "a", HOSTS["b"], family)
    segment = bytes.fromhex("1388003500000001000000005002200000000000") + bytes(600)
    frames = cut(sender.me, sender.to, segment, (16, 16), family, ident=9, proto=TCP)
    seen = _captured(wire, "b")
    with seen:
        for order in itertools.permutations(frames):
            sender.send(order)
        eventually(lambda: node.drops().get("malformed", 0) >= 6, "each of the six is dropped")
        assert not [frame for frame in _frames(seen) if frame.startswith(mac_bytes(HOSTS["b"].mac))]
    assert node.drops()["malformed"] == 6


@families
def test_a_pod_cannot_complete_the_datagram_of_another_pod(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """A first fragment with a's address from the device of c or b, or from a's with another MAC."""
    policy = node.policy().allow("a", "b", udp_port(53)).allow("c", "b", udp_port(53))
    node.load(policy, reassemble=True)
    server = wire.server("b", family, UDP, 53)
    honest = Sender(wire, "a", HOSTS["b"], family)
    for thief, device in (("c", UPLINK), ("b", LOCAL["b"])):
        frames = honest.frames(data_of(), 53)
        honest.send([frames[3], frames[1], frames[2]])
        to = replace(honest.to, mac=link_address(device))
        forged = [bytes.fromhex(to.mac.replace(":", "")) + each[6:] for each in frames]
        wire.within(thief, lambda d=device, f=forged: send(f"{d}.p", f[:1]))
        assert is_silent(server), thief
    frames = honest.frames(data_of(), 53)
    other_mac = [each[:6] + b"\2\0\0\0\0\x99" + each[12:] for each in frames]
    honest.send([frames[3], frames[1], frames[2], other_mac[0]])
    assert is_silent(server)
    dropped = node.drops()
    assert dropped.keys() == {"spoofed ip", "spoofed mac"}, dropped
    assert counts(node)["back"] == 0, "none of the forged went there"


@families
def test_a_flood_of_single_fragments_is_bounded_and_affects_no_other_pod(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    policy = node.policy().allow("a", "b", udp_port(53)).allow("c", "b", udp_port(53))
    node.load(policy, reassemble=True)
    server = wire.server("b", family, UDP, 53)
    flood = Sender(wire, "a", HOSTS["b"], family)
    lone = [
        piece(flood.me, flood.to, bytes(1200), 2400, False, family, ident=ident)
        for ident in range(1, 12000)
    ]
    flood.send(lone)
    found = counts(node)
    assert found["over"] > 0 and found["sent"] + found["over"] == len(lone)
    assert found["back"] == 0
    data = data_of()
    Sender(wire, "c", HOSTS["b"], family).send_in((3, 0, 2, 1), data, 53)
    assert arrived(server, 65536) == data, "another device has its own limit"
    assert node.drops() == {"fragment": found["over"]}


@families
def test_the_policy_at_reassembly_decides(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    open_, closed = node.policy().allow("a", "b", udp_port(53)), node.policy()
    node.load(open_, reassemble=True)
    server = wire.server("b", family, UDP, 53)
    sender = Sender(wire, "a", HOSTS["b"], family)
    for then, arrives in ((closed, False), (open_, True)):
        data = data_of()
        frames = sender.frames(data, 53)
        sender.send([frames[2], frames[1]])
        node.load(then, reassemble=True)
        sender.send([frames[0], frames[3]])
        assert arrived(server, 65536) == data if arrives else is_silent(server)


def udp_service(endpoint: str) -> list[JsonValue]:
    ports = [{"name": "udp", "protocol": "UDP", "port": PORT}]
    found = [service(ports=ports)]
    for each in slices([HOSTS[endpoint]], protocol="UDP"):
        listed = [{"name": "udp", "protocol": "UDP", "port": TARGET}]
        found.append(value(each.raw | {"ports": listed}))
    return found


def echo_of(family: int, data: bytes, me: Host, to: Host) -> bytes:
    from tests.kernel.support.packets import (
        icmp,
        icmp6,
    )

    payload = icmp(8, 0, 9, 1, data) if family == 4 else icmp6(128, 0, 9, 1, data)
    assert payload.proto == echo(family).proto
    return payload.build(packed(me.address(family)), packed(to.address(family)))


def _frames(seen: socket.socket) -> list[bytes]:
    """What was seen since it was last asked."""
    found = []
    while True:
        try:
            found.append(seen.recv(65536))
        except BlockingIOError:
            return found
