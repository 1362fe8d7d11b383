# SPDX-License-Identifier: Apache-2.0
"""A pod that is an endpoint of a Service reaches itself through it: every frame, and real sockets."""

import socket
from dataclasses import replace

import pytest

from tests.kernel.support.arrival import WAITS
from tests.kernel.support.fragments import cut
from tests.kernel.support.hairpin_frames import (
    RESERVED,
    comes_back,
    from_vip,
    reply,
    request,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    Host,
    Payload,
    frame,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_exchange import (
    received,
    served,
)
from tests.kernel.support.service_frames import (
    ports_of,
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
    web,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
HALF_A_MEGABYTE = 500_000


@pytest.mark.both_families
@families
def test_tcp_comes_back_from_the_reserved_address(node: NodeUnderTest, family: int) -> None:
    """No policy is asked: the pod may reach no other end."""
    node.load(node.policy(), services=web(A))
    for flags, data in ((SYN, b""), (ACK, b"odd"), (ACK, b""), (FIN | ACK, b"")):
        got = comes_back(node, to_vip(tcp(4000, PORT, flags, data), family))
        assert got == request(tcp(4000, TARGET, flags, data), family)
        got = comes_back(node, reply(tcp(TARGET, 4000, flags | ACK, data), family))
        assert got == from_vip(tcp(PORT, 4000, flags | ACK, data), family)
    assert node.drops() == {}
    states = [int.from_bytes(each["state"], "little") & 15 for each in node.connections(family)]
    assert states == [7, 7], "both entries: answered, and both have ended"


@pytest.mark.both_families
@families
def test_udp_comes_back_from_the_reserved_address(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP", port=53))
    for port in (4000, 4001, 4000):
        got = comes_back(node, to_vip(udp(port, PORT), family))
        assert got == request(udp(port, 53), family)
        got = comes_back(node, reply(udp(53, port), family))
        assert got == from_vip(udp(PORT, port), family)
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_sctp_keeps_its_ports(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A, protocol="SCTP", port=PORT))
    got = comes_back(node, to_vip(sctp(4000, PORT, 1), family))
    assert got == request(sctp(4000, PORT, 1), family)
    got = comes_back(node, reply(sctp(PORT, 4000, 2), family))
    assert got == from_vip(sctp(PORT, 4000, 2), family)


@families
def test_one_client_port_reaches_two_services_of_the_pod(node: NodeUnderTest, family: int) -> None:
    both = [service(), service("other", OTHER_VIP), *slices([A]), *slices([A], "other")]
    node.load(node.policy(), services=both)
    ports = set()
    for vip in (VIP, OTHER_VIP):
        got = comes_back(node, to_vip(tcp(4000, PORT, SYN), family, vip))
        port, target = ports_of(got, family)
        assert target == TARGET
        ports.add(port)
        back = comes_back(node, reply(tcp(TARGET, port, SYN | ACK), family))
        assert back == frame(vip, A, tcp(PORT, 4000, SYN | ACK), family=family)
        again = comes_back(node, to_vip(tcp(4000, PORT, ACK), family, vip))
        assert ports_of(again, family) == (port, TARGET)
    assert len(ports) == 2 and 4000 in ports


@families
def test_forged_hairpin_packets_of_other_pods_are_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A))
    forged = frame(A, VIP, tcp(4000, PORT, SYN), family=family, smac=B.mac)
    assert node.leaves("a", forged) is None
    assert node.leaves("b", to_vip(tcp(4000, PORT, SYN), family)) is None
    assert node.connections(family) == []
    assert comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    assert node.leaves("b", to_vip(tcp(4000, PORT, ACK), family)) is None
    assert node.leaves("b", reply(tcp(TARGET, 4000, SYN | ACK), family)) is None
    forged = frame(A, RESERVED, tcp(TARGET, 4000, RST), family=family, smac=B.mac)
    assert node.leaves("a", forged) is None
    assert node.drops() == {"spoofed mac": 2, "spoofed ip": 3}
    assert comes_back(node, reply(tcp(TARGET, 4000, SYN | ACK), family))


@families
def test_packets_of_no_connection_are_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK), family)) is None
    assert node.drops() == {"backend gone": 1}
    assert node.leaves("a", reply(tcp(TARGET, 4000, SYN | ACK), family)) is None
    assert node.drops() == {"backend gone": 1, "policy": 1}, "an address like others"


@families
def test_a_hairpin_connection_lasts_until_its_endpoint_is_removed(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(A))
    assert comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    node.serve(web(A, C))
    assert comes_back(node, to_vip(tcp(4000, PORT, ACK), family)), "the connection continues"
    node.serve(web(C))
    sent = node.leaves("a", to_vip(tcp(4001, PORT, SYN), family))
    assert sent == frame(A, VIP, tcp(4001, TARGET, SYN), family=family, daddr=C.address(family))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK), family)) is None
    assert node.leaves("a", reply(tcp(TARGET, 4000, ACK), family)) is None
    assert node.drops() == {"backend gone": 2}


@families
def test_a_pre_nat_entry_without_its_post_nat_entry_is_ignored(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP", port=53))
    assert comes_back(node, to_vip(udp(4000, PORT), family))
    node.expire_connections(family, ports=[53])
    assert node.leaves("a", to_vip(udp(4000, PORT), family)) is None
    got = comes_back(node, to_vip(udp(4000, PORT), family))
    assert got == request(udp(4000, 53), family)
    assert node.drops() == {"backend gone": 1}


@families
def test_an_ended_connection_may_start_again(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A))
    assert comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    assert comes_back(node, reply(tcp(TARGET, 4000, RST | ACK), family))
    before = {each["flow_id"] for each in node.connections(family)}
    got = comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    assert got == request(tcp(4000, TARGET, SYN), family)
    after = {each["flow_id"] for each in node.connections(family)}
    assert len(after) == 1 and not before & after


@families
def test_a_change_of_policy_does_not_affect_hairpin_connections(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(A))
    assert comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    node.load(node.policy())
    assert comes_back(node, reply(tcp(TARGET, 4000, SYN | ACK), family))
    assert comes_back(node, to_vip(tcp(4000, PORT, ACK), family))
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_fragments_follow_their_first(node: NodeUnderTest, family: int) -> None:
    """In both directions. Each equals, byte for byte, a fragment of the datagram that the pod gets."""
    node.load(node.policy(), services=web(A, protocol="UDP", port=53))
    data = bytes(range(200))
    ends = (
        (A, VIP, udp(4000, PORT, data), RESERVED, A, udp(4000, 53, data)),
        (A, RESERVED, udp(53, 4000, data), VIP, A, udp(PORT, 4000, data)),
    )
    for ident, (src, dst, sent, seen_src, seen_dst, seen) in enumerate(ends, 7):
        before = cut(src, dst, whole(sent, src, dst, family), [64, 64], family, ident=ident)
        expected = whole(seen, seen_src, seen_dst, family)
        after = cut(
            replace(seen_src, mac=dst.mac), seen_dst, expected, [64, 64], family, ident=ident
        )
        assert [comes_back(node, each) for each in before] == after
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_a_later_fragment_is_dropped_until_the_first_one_was_translated(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP", port=53))
    for dst in (VIP, RESERVED):
        segment = whole(udp(4000, PORT, bytes(100)), A, dst, family)
        assert node.leaves("a", cut(A, dst, segment, [64], family)[1]) is None
    assert node.drops() == {"fragment": 2}


@pytest.mark.both_families
@families
def test_fragments_of_another_pod_do_not_follow(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP", port=53))
    first, later = cut(A, VIP, whole(udp(4000, PORT, bytes(100)), A, VIP, family), [64], family)
    assert comes_back(node, first)
    assert node.leaves("b", later) is None
    assert node.drops() == {"spoofed ip": 1}
    assert comes_back(node, later)


def whole(payload: Payload, src: Host, dst: Host, family: int) -> bytes:
    """A segment with its checksum."""
    return frame(src, dst, payload, family=family)[34 if family == 4 else 54 :]


@families
@pytest.mark.parametrize(
    "offloads", [(tx, segments) for tx in (True, False) for segments in (True, False)], ids=str
)
def test_sockets_of_a_pod_reach_the_pod_itself(
    node: NodeUnderTest, wire: ServiceWire, family: int, offloads: tuple[bool, bool]
) -> None:
    wire.offload("a", *offloads)
    node.load(node.policy(), services=served("a"))
    listening = wire.server("a", family, TCP, TARGET)
    client = wire.client(family, TCP, PORT)
    assert client is not None
    accepted, seen = listening.accept()
    assert seen[0] == RESERVED.address(family)
    with accepted:
        accepted.settimeout(WAITS)
        data = bytes(range(250)) * (HALF_A_MEGABYTE // 250)
        for sender, receiver in ((client, accepted), (accepted, client)):
            for at in range(0, len(data), 20_000):
                part = data[at : at + 20_000]
                sender.sendall(part)
                assert received(receiver, len(part)) == part
        client.shutdown(socket.SHUT_WR)
        assert accepted.recv(1) == b""
    server = wire.server("a", family, UDP, TARGET)
    asking = wire.client(family, UDP, PORT)
    assert asking is not None
    for text in (b"who?", b"is there?", b"in fragments" * 1000):
        asking.send(text)
        got, where = server.recvfrom(len(text))
        assert got == text and where[0] == RESERVED.address(family)
        server.sendto(got.upper(), where)
        assert asking.recv(len(text)) == text.upper()
    assert wire.bad_checksums() == 0
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_udp_chooses_another_endpoint_when_its_own_is_removed(
    node: NodeUnderTest, family: int
) -> None:
    """From the pod itself to another endpoint, and from another one to the pod itself."""
    node.load(node.policy().allow("a", "c", ANY), services=web(A, protocol="UDP"))
    assert comes_back(node, to_vip(udp(4000, PORT), family))
    assert comes_back(node, reply(udp(TARGET, 4000), family))
    node.serve(web(C, protocol="UDP"))
    sent = node.leaves("a", to_vip(udp(4000, PORT), family))
    assert sent == frame(A, VIP, udp(4000, TARGET), family=family, daddr=C.address(family))
    assert node.leaves("a", reply(udp(TARGET, 4000), family)) is None
    node.serve(web(A, protocol="UDP"))
    port, target = ports_of(comes_back(node, to_vip(udp(4000, PORT), family)), family)
    assert target == TARGET and port != 4000, "the first connection has the port still"
    got = comes_back(node, reply(udp(TARGET, port), family))
    assert got == from_vip(udp(PORT, 4000), family)
    assert node.drops() == {"backend gone": 1}
