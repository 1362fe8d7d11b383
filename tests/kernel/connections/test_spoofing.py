# SPDX-License-Identifier: Apache-2.0
"""The veth gives a pod's identity. A packet that contradicts it is dropped and counted by reason."""

from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kernel.support.node_under_test import (
    NODE,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    ETH_IP,
    ETH_LLDP,
    ETH_VLAN,
    SYN,
    arp,
    echo,
    echo_reply,
    ethernet,
    frame,
    icmp,
    icmp6,
    inner,
    mac_bytes,
    neighbour,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    PING6,
    tcp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]

LINK_LOCAL = "fe80::a"
ALL_ROUTERS = "ff02::2"
VLAN_TAG = b"\x00\x05\x08\x00"
TAGGED = A.mac, B.mac, ETH_VLAN, VLAN_TAG + inner(frame(A, B, udp(1, 2)))
MLD = {"saddr": LINK_LOCAL, "daddr": "ff02::16", "family": 6, "hop_limit": 1}

FROM_A = [
    ("its own address", frame(A, B, udp(1, 2)), None),
    ("its own IPv6 address", frame(A, B, udp(1, 2), family=6), None),
    ("another pod's address", frame(A, C, udp(1, 2), saddr=B.ip4), "spoofed ip"),
    ("another pod's IPv6 address", frame(A, C, udp(1, 2), saddr=B.ip6, family=6), "spoofed ip"),
    ("a remote pod's address", frame(A, B, udp(1, 2), saddr=C.ip4), "spoofed ip"),
    ("an address from outside", frame(A, B, udp(1, 2), saddr=WORLD.ip4), "spoofed ip"),
    ("the node's address", frame(A, B, udp(1, 2), saddr=NODE.ip4), "spoofed ip"),
    ("no address", frame(A, B, udp(68, 67), saddr="0.0.0.0"), "spoofed ip"),
    ("a link-local source for data", frame(A, B, udp(1, 2), saddr=LINK_LOCAL, family=6), "spoofed ip"),
    ("another pod's MAC", frame(A, B, udp(1, 2), smac=B.mac), "spoofed mac"),
    ("another pod's MAC over IPv6", frame(A, B, udp(1, 2), smac=B.mac, family=6), "spoofed mac"),
    ("ARP for itself", arp(A), None),
    ("an ARP answer for itself", arp(A, operation=2), None),
    ("an ARP probe", arp(A, sender_ip="0.0.0.0"), None),
    ("ARP with another's address", arp(A, sender_ip=B.ip4), "spoofed arp"),
    ("ARP with an unknown address", arp(A, sender_ip=NODE.ip4), "spoofed arp"),
    ("ARP with another's MAC inside", arp(A, sender_mac=B.mac), "spoofed arp"),
    ("ARP in another's frame", arp(A, smac=B.mac), "spoofed mac"),
    ("ARP cut off", arp(A)[:30], "malformed"),
    ("solicitation", neighbour(A, 135, target=B.ip6, link=A.mac), None),
    ("solicitation from link-local", neighbour(A, 135, target=B.ip6, saddr=LINK_LOCAL), None),
    ("solicitation with another's link", neighbour(A, 135, target=B.ip6, link=B.mac), "spoofed nd"),
    ("solicitation from another", neighbour(A, 135, target=C.ip6, saddr=B.ip6), "spoofed nd"),
    ("solicitation in another's frame", neighbour(A, 135, target=B.ip6, smac=B.mac), "spoofed mac"),
    ("duplicate check for itself", neighbour(A, 135, target=A.ip6, saddr="::"), None),
    ("duplicate check for another", neighbour(A, 135, target=B.ip6, saddr="::"), "spoofed nd"),
    ("advertisement of itself", neighbour(A, 136, target=A.ip6, link=A.mac), None),
    ("advertisement, link-local", neighbour(A, 136, target=LINK_LOCAL, link=A.mac), None),
    ("advertisement of another", neighbour(A, 136, target=B.ip6, link=A.mac), "spoofed nd"),
    ("advertisement, another's link", neighbour(A, 136, target=A.ip6, link=B.mac), "spoofed nd"),
    ("an option of no length", neighbour(A, 135, target=B.ip6, link=A.mac)[:-7] + bytes(7), "malformed"),
    ("a routed solicitation", neighbour(A, 135, target=B.ip6, hop_limit=64), "policy"),
    ("a listener report", frame(A, B, icmp6(143), **MLD), None),
    ("a listener report in another's frame", frame(A, B, icmp6(143), **MLD, smac=B.mac), "spoofed mac"),
    ("a router solicitation", frame(A, B, icmp6(133), family=6, saddr=LINK_LOCAL, daddr=ALL_ROUTERS,
                                    hop_limit=255), None),
    ("a router advertisement", frame(A, B, icmp6(134, data=bytes(8)), family=6, saddr=LINK_LOCAL,
                                     daddr="ff02::1", hop_limit=255), "spoofed nd"),
    ("a router advertisement that nobody heeds", frame(A, B, icmp6(134), family=6), "spoofed nd"),
    ("a redirect", frame(A, NODE, icmp6(137, data=bytes(32)), family=6, hop_limit=255), "spoofed nd"),
    ("a VLAN tag", ethernet(*TAGGED), "vlan"),
    ("LLDP", ethernet(A.mac, B.mac, ETH_LLDP, bytes(46)), "ethertype"),
]  # fmt: skip


@pytest.mark.parametrize(("frame_", "reason"), [c[1:] for c in FROM_A], ids=[c[0] for c in FROM_A])
def test_a_pod_sends_only_well_formed_packets_with_its_own_addresses(
    node: NodeUnderTest, frame_: bytes, reason: str | None
) -> None:
    policy = node.policy()
    for peer in ("a", "b", "c", "world"):
        policy.allow("a", peer, (0, 0x3FFFF), PING6)
    node.load(policy)
    assert node.sent_by("a", frame_) == (reason is None)
    assert node.drops() == ({reason: 1} if reason else {})


MALFORMED = [
    ("an IPv4 header length of 16", frame(A, B, udp(1, 2)).replace(b"\x45", b"\x44", 1)),
    ("an IPv4 header that is IPv6", frame(A, B, udp(1, 2)).replace(b"\x45", b"\x65", 1)),
    ("a total length behind the frame", frame(A, B, udp(1, 2), total=60)),
    ("a total length inside the header", frame(A, B, udp(1, 2), total=19)),
    ("UDP behind the total length", frame(A, B, udp(1, 2), total=24)),
    ("TCP cut off", frame(A, B, tcp(1, 2))[:-4]),
    ("an IPv6 payload behind the frame", frame(A, B, udp(1, 2), family=6, length=99)),
    ("ICMP in IPv6", frame(A, B, icmp(8, 0, 1), family=6)),
    ("ICMPv6 in IPv4", frame(A, B, icmp6(128, 0, 1))),
    ("UDP behind the IPv6 payload", frame(A, B, udp(1, 2), family=6, length=4)),
]


@pytest.mark.parametrize("frame_", [c[1] for c in MALFORMED], ids=[c[0] for c in MALFORMED])
def test_truncated_and_contradictory_packets_are_dropped(
    node: NodeUnderTest, frame_: bytes
) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    assert not node.sent_by("a", frame_)
    assert not node.sent_to("b", frame_, came_in="pca")
    assert node.drops() == {"malformed": 2}


CUT_OFF = [
    ("a frame of 14 bytes", ethernet(A.mac, B.mac, ETH_IP, b"")),
    ("an IPv4 header cut off", frame(A, B, udp(1, 2))[:30]),
    ("an IPv6 header cut off", frame(A, B, udp(1, 2), family=6)[:50]),
]


@pytest.mark.parametrize("frame_", [c[1] for c in CUT_OFF], ids=[c[0] for c in CUT_OFF])
def test_packets_that_a_test_run_refuses_are_dropped_on_the_wire(
    node: NodeUnderTest, frame_: bytes
) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    node.sends_on_the_wire("a", frame_)
    eventually(node.drops, "the frame is dropped")
    assert node.drops() == {"malformed": 1}


@pytest.mark.parametrize("family", [4, 6])
def test_a_spoofed_packet_of_an_established_connection_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN), family=family))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))
    data = frame(A, B, tcp(1000, 80, ACK), family=family)
    assert node.sent_by("a", data)
    assert not node.sent_by("b", data)
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, ACK), family=family, smac=B.mac))
    assert not node.sent_by("a", frame(B, A, tcp(80, 1000, ACK), family=family))
    assert not node.sent_by("a", frame(B, A, tcp(80, 1000, ACK), family=family, smac=A.mac))
    assert node.drops() == {"spoofed ip": 3, "spoofed mac": 1}


@pytest.mark.parametrize("family", [4, 6])
def test_a_packet_with_a_local_pods_address_passes_from_its_device_only(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY).allow("c", "b", ANY).allow("world", "b", ANY))
    syn = frame(A, B, tcp(1000, 80, SYN), family=family)
    assert not node.sent_to("b", syn)
    assert not node.sent_to("b", syn, came_in="pcb")
    assert node.sent_to("b", frame(C, B, tcp(1000, 80, SYN), family=family))
    assert node.sent_by("a", syn)
    assert node.sent_to("b", syn, came_in="pca")
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))
    data = frame(A, B, tcp(1000, 80, ACK), family=family)
    assert node.sent_to("b", data, came_in="pca")
    assert not node.sent_to("b", data)
    assert node.drops() == {"spoofed ip": 3}


def test_a_packet_for_another_address_does_not_reach_the_pod(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("world", "b", ANY).allow("world", "a", ANY))
    to_a = frame(WORLD, A, udp(1, 2))
    assert not node.sent_to("b", to_a)
    assert node.sent_to("a", to_a)
    assert not node.sent_to("b", to_a)
    assert node.drops() == {"not for pod": 2}


def test_a_device_without_an_endpoint_sends_nothing(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    with node.shared_map("pc_if") as fd:
        from policyc.runtime.kernel import bpf_syscall

        bpf_syscall.map_delete(fd, node.ifindex["pca"].to_bytes(4, "little"))
    assert not node.sent_by("a", arp(A))
    assert node.drops() == {"no endpoint": 1}


@pytest.mark.parametrize("family", [4, 6])
def test_the_node_reaches_its_pods_and_they_answer(node: NodeUnderTest, family: int) -> None:
    """Semantics A22: whatever the policy says, and in this direction only."""
    node.load(node.policy())
    for request, reply in (
        (tcp(40000, 8080, SYN), tcp(8080, 40000, SYN | ACK)),
        (udp(40000, 53), udp(53, 40000)),
        (echo(family), echo_reply(family)),
    ):
        assert not node.sent_by("a", frame(A, NODE, reply, family=family))
        assert node.sent_by_node_to("a", frame(NODE, A, request, family=family))
        assert node.sent_by("a", frame(A, NODE, reply, family=family))
    assert not node.sent_by("a", frame(A, NODE, echo(family), family=family))
    assert not node.sent_by("a", frame(A, NODE, tcp(8080, 40000, SYN), family=family))
    assert not node.sent_by("a", frame(A, NODE, tcp(1000, 22, SYN), family=family))


def test_the_nodes_connections_outlive_a_change_of_policy(node: NodeUnderTest) -> None:
    node.load(node.policy())
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(40000, 8080, SYN)))
    node.load(node.policy())
    assert node.sent_by("a", frame(A, NODE, tcp(8080, 40000, SYN | ACK)))
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(40000, 8080, ACK)))


def test_an_address_of_the_node_is_not_the_node(node: NodeUnderTest) -> None:
    node.load(node.policy())
    assert not node.sent_to("a", frame(NODE, A, tcp(40000, 8080, SYN)))
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(40000, 8080, SYN)))
    assert node.sent_by("a", frame(A, NODE, tcp(8080, 40000, SYN | ACK)))
    assert not node.sent_to("a", frame(NODE, A, tcp(40000, 8080, ACK)))
    assert node.drops() == {"policy": 1, "spoofed ip": 1}


def test_a_connection_of_the_node_is_decided_again_when_its_address_becomes_a_pods(
    node: NodeUnderTest,
) -> None:
    """Either hook decides again about the node's connection from that address. Policy may allow it."""
    local = [endpoint("a", A, "pca"), endpoint("b", B, "pcb")]
    opened = frame(C, A, tcp(40000, 80, SYN))
    reply = frame(A, C, tcp(80, 40000, SYN | ACK))
    node.load(node.policy(), entries=local)
    assert node.sent_by_node_to("a", opened)
    assert node.sent_by("a", reply)
    node.load(node.policy())
    assert not node.sent_by("a", reply)

    node.load(node.policy(), entries=local)
    assert node.sent_by_node_to("a", opened)
    node.load(node.policy().allow("c", "a", tcp_port(80)))
    assert node.sent_by("a", reply)
    assert node.sent_to("a", frame(C, A, tcp(40000, 80, ACK)))

    node.load(node.policy(), entries=local)
    assert node.sent_by_node_to("a", frame(C, A, tcp(40001, 80, SYN)))
    assert node.sent_by("a", frame(A, C, tcp(80, 40001, SYN | ACK)))
    node.load(node.policy().allow("c", "a", tcp_port(80)))
    assert node.sent_to("a", frame(C, A, tcp(40001, 80, ACK)))


def test_an_answer_of_the_node_opens_no_connection(node: NodeUnderTest) -> None:
    """A SYN-ACK, a reset or an ICMP error from the node passes, and allows no packet back."""
    node.load(node.policy())
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(22, 1000, SYN | ACK)))
    assert node.connections() == []
    assert not node.sent_by("a", frame(A, NODE, tcp(1000, 22, ACK)))


def test_the_node_does_not_renew_a_connection_that_a_pod_opened(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", ANY))
    assert node.sent_by("a", frame(A, NODE, tcp(1000, 22, SYN)))
    node.load(node.policy())
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(22, 1000, ACK)))
    assert not node.sent_by("a", frame(A, NODE, tcp(1000, 22, ACK)))


def test_arp_and_discovery_reach_pods(node: NodeUnderTest) -> None:
    node.load(node.policy())
    assert node.sent_by_node_to("a", arp(NODE, target=A.ip4))
    assert node.sent_by_node_to("a", neighbour(NODE, 135, target=A.ip6, link=NODE.mac))
    assert node.sent_to("a", arp(B, target=A.ip4), came_in="pcb")


HIDDEN = bytes([253, 32]) + b"secret".ljust(254)
OFF_LINK = [
    ("a solicitation to a remote pod", neighbour(A, 135, target=C.ip6, daddr=C.ip6, extra=HIDDEN)),
    ("a solicitation to the world", neighbour(A, 135, target=A.ip6, daddr=WORLD.ip6)),
    ("an advertisement to a pod", neighbour(A, 136, target=A.ip6, daddr=B.ip6)),
    ("a wide group", neighbour(A, 136, target=A.ip6, daddr="ff05::2")),
    ("a router solicitation", frame(A, C, icmp6(133), family=6, hop_limit=255)),
    ("a listener report to the world", frame(A, WORLD, icmp6(143), family=6, hop_limit=1)),
    ("a listener report to a wide group",
     frame(A, WORLD, icmp6(143), family=6, daddr="ff05::2", hop_limit=1)),
]  # fmt: skip


@pytest.mark.parametrize("frame_", [c[1] for c in OFF_LINK], ids=[c[0] for c in OFF_LINK])
def test_discovery_that_would_be_forwarded_is_ordinary_icmp(
    node: NodeUnderTest, frame_: bytes
) -> None:
    """An unknown option would carry 254 bytes a packet to any destination, without a decision."""
    node.load(node.policy())
    assert not node.sent_by("a", frame_)
    assert node.drops() == {"policy": 1}


def test_neighbour_probes_for_any_address_of_the_node_pass(node: NodeUnderTest) -> None:
    for setting in ("pca/disable_ipv6", "lo/disable_ipv6"):
        Path(f"/proc/sys/net/ipv6/conf/{setting}").write_text("0")
    Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
    ip("-6", "addr", "add", f"{NODE.ip6}/128", "dev", "lo")
    ip("-6", "route", "add", "default", "dev", "pca")
    node.load(node.policy())
    for kind, target in ((135, NODE.ip6), (136, A.ip6)):
        assert node.sent_by("a", neighbour(A, kind, target=target, daddr=NODE.ip6))
        assert not node.sent_by("a", neighbour(A, kind, target=A.ip6, daddr=WORLD.ip6))
    assert node.drops() == {"policy": 2}


def test_neighbour_discovery_from_another_link_does_not_reach_pods(node: NodeUnderTest) -> None:
    node.load(node.policy())
    report = icmp6(143, data=b"EVIL" * 100)
    assert not node.sent_to("b", frame(WORLD, B, report, family=6, hop_limit=1))
    assert not node.sent_to("b", frame(WORLD, B, report, family=6, hop_limit=1, daddr="ff02::16"))
    assert not node.sent_to("b", frame(WORLD, B, report, family=6, hop_limit=1, saddr="fe80::1"))
    assert not node.sent_to("b", neighbour(WORLD, 136, target=WORLD.ip6, daddr=B.ip6))
    assert node.sent_to("b", frame(WORLD, B, report, **{**MLD, "saddr": "fe80::1"}))
    assert node.sent_to("b", neighbour(WORLD, 135, target=B.ip6, saddr="fe80::1"))
    assert node.sent_by_node_to("b", neighbour(NODE, 135, target=B.ip6, daddr=B.ip6))


def test_macs_are_compared_as_a_whole(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    for at in range(6):
        other = bytearray(mac_bytes(A.mac))
        other[at] ^= 1
        assert not node.sent_by("a", frame(A, B, udp(1, 2), smac=other.hex(":")))
    assert node.drops() == {"spoofed mac": 6}
