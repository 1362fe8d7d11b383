# SPDX-License-Identifier: Apache-2.0
"""Packets that a pod on a slave forges are dropped, however the pod sends them."""

import socket

import pytest

from tests.kernel.ipvlan.bed import Slaves, families
from tests.kernel.ipvlan.forgery import (
    ELSEWHERE,
    FORGER,
    Send,
    by_packet_socket,
    forged,
    hears_nothing,
    send_frame,
    ways,
)
from tests.kernel.support import packets
from tests.kernel.support.loaded_lab import PORT, SILENCE

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loaded")]


@families
@ways
@pytest.mark.parametrize("target", ["server", "external", "node-1"])
def test_another_pods_address_is_not_taken(
    lab: Slaves, target: str, send: Send, family: int
) -> None:
    frame = forged(lab, target, lab.address("guard", family), family)
    hears_nothing(lab, target, family, lambda: send(lab, frame))


@families
@ways
@pytest.mark.parametrize("mac", [packets.BROADCAST, "02:00:00:00:00:77"])
@pytest.mark.parametrize("target", ["server", "node-1"])
def test_a_frame_with_equal_macs_is_not_one_of_the_network(
    lab: Slaves, target: str, mac: str, send: Send, family: int
) -> None:
    """Ipvlan gives the parent a frame with equal MACs that it finds no slave for."""
    frame = forged(lab, target, ELSEWHERE[family], family, mac)
    hears_nothing(lab, target, family, lambda: send(lab, frame))


@families
def test_packets_of_the_wire_have_no_pods_address(lab: Slaves, family: int) -> None:
    """The external host sends as if it were the pod `cart`, which the server hears."""
    outside = lab.host("external")
    end = packets.Host(outside.mac, lab.address(FORGER, 4), lab.address(FORGER, 6))
    frame = packets.frame(end, lab.host("server"), packets.udp(777, PORT, b"forged"), family=family)

    before = lab.drops("spoofed ip")
    hears_nothing(lab, "server", family, lambda: send_frame(lab, "external", frame))
    assert lab.drops("spoofed ip") > before


@families
def test_a_true_packet_past_the_hook_reaches_nobody(lab: Slaves, family: int) -> None:
    """With its own address: egress policy and the other pod's ingress policy would not be asked."""
    own, to = lab.host("other"), lab.host("cart")
    frame = packets.frame(own, to, packets.udp(777, PORT, b"forged"), family=family)

    with lab.socket("cart", socket.SOCK_DGRAM, family, PORT) as server:
        send_frame(lab, "other", frame, is_bypass=True)
        server.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            server.recv(100)


def test_a_router_advertisement_of_a_pod_reaches_no_other_pod(lab: Slaves) -> None:
    own = lab.host(FORGER)
    before = lab.drops("spoofed nd")
    advert = packets.icmp6(134, 0, 64 << 8, 1800, bytes(8))
    end = packets.Host(own.mac, own.ip4, "fe80::66")
    group = packets.Host("33:33:00:00:00:01", own.ip4, "ff02::1")
    by_packet_socket(lab, packets.frame(end, group, advert, family=6, hop_limit=255))
    assert lab.drops("spoofed nd") > before


def test_an_arp_answer_for_another_pods_address_is_dropped(lab: Slaves) -> None:
    before = lab.drops("spoofed arp")
    own = lab.host(FORGER)
    by_packet_socket(lab, packets.arp(own, sender_ip=lab.address("guard", 4)))
    assert lab.drops("spoofed arp") > before
