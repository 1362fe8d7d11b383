# SPDX-License-Identifier: Apache-2.0
"""A Service without endpoints answers with a reset or ICMP "port unreachable" from its own address."""

import socket
import struct

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.answers import (
    DROP,
    REDIRECT,
    answer_of,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    ICMP,
    ICMP6,
    MORE,
    RST,
    SYN,
    TCP,
    Payload,
    frame,
    packed,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_frames import to_vip
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    PORT,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import ANY

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
UNREACHABLE = {4: (ICMP, 3, 3), 6: (ICMP6, 1, 4)}
"""Protocol, type and code of "port unreachable"."""
QUOTED = {4: 548, 6: 1232}


@families
@pytest.mark.parametrize("data", [b"", b"early"], ids=["no data", "data"])
def test_tcp_is_reset(node: NodeUnderTest, family: int, data: bytes) -> None:
    node.load(node.policy(), services=web())
    sent = to_vip(tcp(4000, PORT, SYN, data), family)
    verdict, answered = node.answered("a", sent)
    assert verdict == REDIRECT
    answer = answer_of(answered)
    assert answer.macs == (sent[6:12], sent[:6]) and answer.proto == TCP
    assert answer.addresses == (packed(VIP.address(family)), packed(A.address(family)))
    ports_and_numbers = (PORT, 4000, 0, 2 + len(data), 0x50, RST | ACK)
    assert struct.unpack_from("!HHIIBB", answer.body) == ports_and_numbers
    assert len(answer.body) == 20
    assert node.drops() == {"no backend": 1}
    assert node.connections(family) == []


@families
@pytest.mark.parametrize(
    ("protocol", "payload"),
    [
        ("UDP", udp(4000, PORT, b"q" * 9)),
        ("UDP", udp(4000, PORT, b"q" * 1300)),
        ("SCTP", sctp(4000, PORT, 1)),
    ],
    ids=["udp", "long udp", "sctp"],
)
def test_other_protocols_get_port_unreachable(
    node: NodeUnderTest, family: int, protocol: str, payload: Payload
) -> None:
    node.load(node.policy(), services=web(protocol=protocol, port=PORT))
    sent = to_vip(payload, family)
    verdict, answered = node.answered("a", sent)
    assert verdict == REDIRECT
    answer = answer_of(answered)
    assert answer.addresses == (packed(VIP.address(family)), packed(A.address(family)))
    assert (answer.proto, *answer.body[:2]) == UNREACHABLE[family]
    assert answer.body[8:] == sent[14 : 14 + QUOTED[family]]
    assert node.drops() == {"no backend": 1}


@families
def test_udp_gets_port_unreachable_when_its_last_endpoint_is_removed(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="UDP", port=53))
    assert node.leaves("a", to_vip(udp(4000, PORT), family))
    node.serve(web(protocol="UDP", port=53))
    verdict, answered = node.answered("a", to_vip(udp(4000, PORT), family))
    assert verdict == REDIRECT
    assert answer_of(answered).body[:2] == bytes(UNREACHABLE[family][1:])


@families
def test_packets_that_open_no_connection_are_not_answered(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web())
    for flags in (ACK, RST, SYN | ACK):
        assert node.leaves("a", to_vip(tcp(4000, PORT, flags), family)) is None
    assert node.drops() == {"backend gone": 3}


def test_a_fragment_of_a_segment_is_not_answered(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=web())
    first = frame(A, VIP, tcp(4000, PORT, SYN, b"x" * 20), fragment=MORE)
    assert node.leaves("a", first) is None
    assert node.drops() == {"no backend": 1}


@families
def test_a_spoofed_packet_is_not_answered(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web())
    for forged in (
        frame(A, VIP, tcp(4000, PORT, SYN), family=family, smac=B.mac),
        frame(A, VIP, tcp(4000, PORT, SYN), family=family, saddr=B.address(family)),
    ):
        assert node.leaves("a", forged) is None
    assert node.drops() == {"spoofed ip": 1, "spoofed mac": 1}


@families
def test_a_traffic_policy_that_leaves_no_endpoint_drops(node: NodeUnderTest, family: int) -> None:
    """As kube-proxy: endpoints on other nodes may still answer."""
    local = service(internalTrafficPolicy="Local")
    node.load(node.policy().allow("a", "c", ANY), services=[local, *slices([C])])
    verdict, _ = node.answered("a", to_vip(tcp(4000, PORT, SYN), family))
    assert verdict == DROP
    node.serve([local, *slices([(C, {"ready": False})])])
    verdict, _ = node.answered("a", to_vip(tcp(4000, PORT, SYN), family))
    assert verdict == REDIRECT, "no endpoint on any node"
    assert node.drops() == {"no backend": 2}


def test_a_flood_is_answered_at_a_bounded_rate(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=web())
    frames = [to_vip(tcp(1024 + number, PORT, SYN)) for number in range(3000)]
    device = node.ifindex["pca"]
    with bpf_syscall.obj_get(node.pins.hook("pc_from_pod")) as fd:
        run = bpf_syscall.TestRun(fd)
        found = [run(each, ifindex=device, ingress_ifindex=device) for each in frames]
    assert set(found) == {DROP, REDIRECT}
    assert 250 <= found.count(REDIRECT) < 2500
    assert node.drops() == {"no backend": 3000}


@families
def test_sockets_are_refused(node: NodeUnderTest, wire: ServiceWire, family: int) -> None:
    node.load(node.policy(), services=web())
    with pytest.raises(ConnectionRefusedError):
        wire.client(family, socket.SOCK_STREAM, PORT)
    node.serve(web(protocol="UDP"))
    asking = wire.client(family, socket.SOCK_DGRAM, PORT)
    assert asking is not None
    asking.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        asking.recv(100)
    assert wire.bad_checksums() == 0
    assert node.drops() == {"no backend": 2}
