# SPDX-License-Identifier: Apache-2.0
"""Frames that pass no hook of their slave, from an address of the network: only their socket shows it.

This needs ipvlan, so `make test` does not collect this file: `make guest-ipvlan` runs it.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from tests.kernel.ipvlan.bed import Slaves, families
from tests.kernel.ipvlan.forgery import (
    ELSEWHERE,
    FORGER,
    Send,
    forged,
    hears_nothing,
    past_the_qdisc,
    ways,
)
from tests.kernel.support.loaded_lab import PATIENCE, PORT, SILENCE

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loaded")]


@families
@ways
@pytest.mark.parametrize("target", ["server", "external", "node-1"])
def test_an_address_of_the_network_is_nobodys(
    lab: Slaves, target: str, send: Send, family: int
) -> None:
    frame = forged(lab, target, ELSEWHERE[family], family)
    hears_nothing(lab, target, family, lambda: send(lab, frame))


@families
def test_what_passes_no_hook_of_its_slave_is_counted(lab: Slaves, family: int) -> None:
    for target in ("server", "external"):
        before = lab.drops("unchecked")
        past_the_qdisc(lab, forged(lab, target, ELSEWHERE[family], family))
        assert lab.drops("unchecked") > before, target


@families
def test_a_second_slave_of_the_pod_reaches_nobody(lab: Slaves, family: int) -> None:
    """Whoever may make devices on the parent gives the pod another slave, with another address."""
    address = {4: "10.244.1.99", 6: "fd00:1::99"}[family]
    before = lab.drops("unchecked")
    with (
        _second_slave(lab, FORGER, address, lab.address("server", family)),
        lab.socket("server", socket.SOCK_DGRAM, family, PORT) as server,
        lab.within(FORGER, lambda: socket.socket(_kind(address), socket.SOCK_DGRAM)) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth1")
        client.bind((address, 0))
        client.sendto(b"forged", (lab.address("server", family), PORT))
        server.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            server.recv(100)
    assert lab.drops("unchecked") > before


@pytest.mark.parametrize("target", ["server", "external"])
def test_a_source_that_a_pod_writes_behind_its_hook_reaches_nobody(
    lab: Slaves, target: str
) -> None:
    """A queueing discipline of the pod gives its packets an address that the server hears from."""
    before = lab.drops("spoofed ip")
    with (
        lab.socket(target, socket.SOCK_DGRAM, 4, PORT) as server,
        lab.socket(FORGER, socket.SOCK_DGRAM, 4) as client,
    ):
        lab.within(FORGER, lambda: _tc("qdisc add dev eth0 root handle 1: prio"))
        try:
            munge = f"pedit ex munge ip src set {ELSEWHERE[4]} pipe action csum ip4h udp"
            add = f"filter add dev eth0 parent 1: protocol ip matchall action {munge}"
            lab.within(FORGER, lambda: _tc(add))
            client.sendto(b"rewritten", (lab.address(target, 4), PORT))
            server.settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                server.recv(100)
        finally:
            lab.within(FORGER, lambda: _tc("qdisc del dev eth0 root"))
    assert lab.drops("spoofed ip") > before


def test_a_packet_that_skips_the_next_ingress_hook_is_dropped(lab: Slaves) -> None:
    """The device ifb sends packets on so that no hook at the next tc ingress sees them.

    Policy allows this one, but the pod could change it on its way.
    """
    redirect = "skbedit mark 0 pipe action mirred egress redirect dev ifb9"
    lab.within(FORGER, lambda: _ip("link add ifb9 up type ifb"))
    try:
        _is_unchecked(
            lab,
            "qdisc add dev eth0 root handle 1: prio",
            f"filter add dev eth0 parent 1: protocol ip handle 1 fw action {redirect}",
            mark=1,
        )
    finally:
        lab.within(FORGER, lambda: _ip("link del ifb9"))


def test_a_stamp_that_a_queueing_discipline_wrote_counts_as_none(lab: Slaves) -> None:
    """The discipline gred writes the low four bits of tc_index."""
    bounds = "limit 60KB min 15KB max 25KB burst 20 avpkt 1000 bandwidth 10Mbit"
    _is_unchecked(
        lab,
        "qdisc add dev eth0 root gred setup DPs 16 default 3",
        f"qdisc change dev eth0 root gred {bounds} DP 3 probability 0.02",
    )


def _is_unchecked(lab: Slaves, *commands: str, mark: int = 0) -> None:
    """With this queueing discipline the server does not hear from the forger, whom it would hear."""
    before = lab.drops("unchecked")
    with (
        lab.socket("server", socket.SOCK_DGRAM, 4, PORT) as server,
        lab.socket(FORGER, socket.SOCK_DGRAM, 4) as client,
    ):
        try:
            for command in commands:
                lab.within(FORGER, partial(_tc, command))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
            client.sendto(b"unchecked", (lab.address("server", 4), PORT))
            server.settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                server.recv(100)
        finally:
            lab.within(FORGER, lambda: _tc("qdisc del dev eth0 root"))
    assert lab.drops("unchecked") > before


@families
@ways
def test_without_the_programs_the_same_frames_arrive(
    lab: Slaves, opened: Path, send: Send, family: int
) -> None:
    frame = forged(lab, "server", ELSEWHERE[family], family)
    lab.unload()
    try:
        with lab.socket("server", socket.SOCK_DGRAM, family, PORT) as server:
            send(lab, frame)
            server.settimeout(PATIENCE)
            assert server.recv(100) == b"forged"
    finally:
        lab.load(opened)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def _tc(command: str) -> None:
    subprocess.run(["tc", *command.split()], check=True)


def _kind(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@contextmanager
def _second_slave(lab: Slaves, pod: str, address: str, neighbour: str) -> Iterator[None]:
    """A slave of the parent in the pod's namespace, with an address and a neighbour."""
    there = lab.lab.ends[f"shop/{pod}"].namespace

    def make() -> None:
        with there.open("rb") as namespace, IPRoute() as netlink:
            (parent,) = netlink.link_lookup(ifname=lab.lab.node.uplink)
            into = namespace.fileno()
            netlink.link(
                "add", ifname="eth1", kind="ipvlan", link=parent, ipvlan_mode=0, net_ns_fd=into
            )

    def configure() -> None:
        with IPRoute() as netlink:
            (own,) = netlink.link_lookup(ifname="eth1")
            netlink.link("set", index=own, state="up")
            flags = {"IFA_FLAGS": 2} if ":" in address else {}  # IFA_F_NODAD
            size = 128 if ":" in address else 32
            netlink.addr("add", index=own, address=address, prefixlen=size, **flags)
            family, mac = _kind(neighbour), lab.host("server").mac
            netlink.neigh("add", family=family, ifindex=own, dst=neighbour, lladdr=mac, state=0x80)
            netlink.route("add", family=family, dst=f"{neighbour}/{size}", oif=own, priority=1)

    def remove() -> None:
        with IPRoute() as netlink:
            (own,) = netlink.link_lookup(ifname="eth1")
            netlink.link("del", index=own)

    lab.on_node(make)
    try:
        lab.within(pod, configure)
        yield
    finally:
        lab.within(pod, remove)
