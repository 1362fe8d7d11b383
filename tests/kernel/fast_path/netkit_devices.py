# SPDX-License-Identifier: Apache-2.0
"""Pods behind netkit: `make guest-netkit` runs these tests, and those with real packets.

The kernel needs netkit (Linux 6.7), so `make test` does not collect this file.
"""

import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from policyc.runtime.attach import tcx
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab import netkit
from policyc.runtime.load.resources.programs import Record
from tests.kernel.fast_path.test_forwarding_out import (
    A_WHILE,
    TARGET,
    TCP,
    Talk,
    closed,
    families,
    opened,
)
from tests.kernel.support.arrival import SILENCE
from tests.kernel.support.network import PODS
from tests.kernel.support.two_nodes import Namespace, TwoNodes, address

pytestmark = pytest.mark.kernel
N = 200
FEW = 8
"""Packets that the hook may see all the same: the first ones, and those that look up the route."""
__all__ = ["closed", "opened"]


def test_the_pods_of_this_run_are_behind_netkit(lab: TwoNodes) -> None:
    assert PODS == "netkit"
    assert lab.at["a"].network.kind(lab.device("pod-a")) == "netkit"


def came_in(lab: TwoNodes) -> int:
    """Packets of pod-a that the program at the peer has left to the hook at the device, so far."""
    return lab.at["a"].network.received(lab.device("pod-a"))


def devices(lab: TwoNodes) -> dict[str, tuple[str, ...]]:
    """Where status shows the programs of both sides."""
    return {
        each.name: each.attached
        for each in lab.status("a").programs
        if each.name.endswith("_netkit")
    }


BOTH = dict.fromkeys(("pc_from_netkit", "pc_to_netkit"), ("v-pod-a (netkit)",))


@families
def test_packets_leave_before_they_reach_the_device(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    assert devices(lab) == BOTH
    talk = Talk(lab, family, "client1")
    assert talk.asks(3)
    before = came_in(lab)
    assert talk.routed(N) == 0
    assert came_in(lab) - before <= FEW
    time.sleep(A_WHILE)
    before = came_in(lab)
    assert talk.asks(FEW) and talk.routed(N) == 0
    assert came_in(lab) - before <= FEW, "also after another lookup of the route"


@families
def test_a_stream_leaves_before_it_reaches_the_device(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    listener = lab.server("pod-a", family, TCP, TARGET)
    there = lab.connect("client1", family, address("pod-a", family), TARGET)
    assert there is not None
    here = lab.accept(listener)
    for _ in range(3):
        there.send(b"x")
        here.send(here.recv(10))
        assert there.recv(10) == b"x"
    before, data, got = came_in(lab), bytes(range(256)) * 4000, b""
    here.setblocking(False)
    left = memoryview(data)
    while len(got) < len(data):
        if left:
            with suppress(BlockingIOError):
                left = left[here.send(left[:20000]) :]
        got += there.recv(65536)
    assert got == data
    assert came_in(lab) - before <= FEW
    assert lab.bad_checksums() == 0


@families
def test_a_change_of_policy_ends_it_at_once(
    lab: TwoNodes, opened: Path, closed: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Talk(lab, family, "client1")
    assert talk.asks(N)
    lab.load("a", closed, None)
    before = came_in(lab)
    assert not talk.asks(patience=SILENCE)
    assert came_in(lab) > before, "the hook decides it"
    lab.load("a", opened, None)
    assert talk.asks(3)


def test_loads_attach_replace_and_detach_them(lab: TwoNodes, opened: Path) -> None:
    lab.load("a", opened, None)
    first = links(lab)
    assert len(first) == 2
    lab.load("a", opened, None, forward="stack")
    assert links(lab) == first and devices(lab) == BOTH, "the same links"
    lab.unload("a")
    lab.loaded.clear()
    assert links(lab) == []
    assert not lab.bpffs("a").exists()


def links(lab: TwoNodes) -> list[int]:
    """The ids of the links of both sides."""
    folder = Pins(lab.bpffs("a")).netkit
    found = []
    for pin in sorted(folder.iterdir()) if folder.is_dir() else ():
        with bpf_syscall.obj_get(pin) as fd:
            found.append(bpf_syscall.link_info(fd).id)
    return found


def test_a_load_that_fails_takes_them_back(
    lab: TwoNodes, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise HostError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(Record, "commit", fail)
        with pytest.raises(HostError, match="no more"):
            lab.load("a", opened, None)
    assert links(lab) == []
    lab.load("a", opened, None)
    first = links(lab)
    with monkeypatch.context() as patched:
        patched.setattr(Record, "commit", fail)
        with pytest.raises(HostError, match="no more"):
            lab.load("a", opened, None)
    assert links(lab) == first and devices(lab) == BOTH


class Closed(TwoNodes):
    """Both sides of the pods' devices drop packets while they have no program."""

    def _plug_in(self, pod: str, node: Namespace) -> None:
        there = self.at[pod].fd
        node.within(lambda: netkit.add(self.device(pod), "eth0", into=there, is_open=False))
        node.network.up(self.device(pod))
        for each, size in self._own(pod):
            node.network.route(f"{each}/{size}", device=self.device(pod))
            node.network.neighbour(each, self.mac(pod), self.device(pod))


@families
def test_a_device_with_the_policy_blackhole_is_open_while_a_load_is_active(
    loads: None, opened: Path, tmp_path: Path, family: int
) -> None:
    with ExitStack() as owned:
        lab = Closed(tmp_path, owned)
        talk = Talk(lab, family, "client1")
        assert not talk.asks(patience=SILENCE)
        lab.load("a", opened, None)
        assert talk.asks(3)
        lab.unload("a")
        assert not talk.asks(patience=SILENCE)


@families
def test_policy_holds_without_the_program_at_the_peer(
    lab: TwoNodes, opened: Path, closed: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Talk(lab, family, "client1")
    assert talk.asks(3)
    for pin in Pins(lab.bpffs("a")).netkit.iterdir():
        tcx.detach(pin)
    before = came_in(lab)
    assert talk.asks(N)
    assert came_in(lab) - before >= N, "the hook sees each packet"
    lab.load("a", closed, None)
    assert not talk.asks(patience=SILENCE)


def test_a_firewall_of_the_node_is_not_asked_about_it(lab: TwoNodes, opened: Path) -> None:
    """As on the fast path behind veth: netfilter's FORWARD sees only packets on the stack path."""
    lab.load("a", opened, None)
    talk = Talk(lab, 4, "client1")
    assert talk.asks(3)
    lab.run("a", "iptables", "-I", "FORWARD", "-j", "DROP")
    assert talk.asks(N)


def test_the_node_s_own_packets_are_none_of_it(lab: TwoNodes, opened: Path) -> None:
    lab.load("a", opened, None)
    server = lab.server("client1", 4, socket.SOCK_DGRAM, TARGET)
    own = lab.open_socket("a", 4, socket.SOCK_DGRAM)
    own.connect((address("client1", 4), TARGET))
    for _ in range(3):
        own.send(b"question")
        _, peer = server.recvfrom(100)
        assert peer[0] == address("a", 4)
        server.sendto(b"answer", peer)
        assert own.recv(100) == b"answer"
