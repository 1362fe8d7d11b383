# SPDX-License-Identifier: Apache-2.0
"""Pods behind netkit: `make guest-netkit` runs these tests, and those with real packets.

The kernel needs netkit (Linux 6.7), so `make test` does not collect this file.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.attach import tcx
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab import netkit
from policyc.runtime.load.resources.programs import Record
from tests.kernel.fast_path.test_forwarding_out import (
    closed,
    families,
    opened,
)
from tests.kernel.support.arrival import SILENCE
from tests.kernel.support.fast_path import Datagrams
from tests.kernel.support.network import PODS
from tests.kernel.support.two_nodes import Namespace, TwoNodes

pytestmark = pytest.mark.kernel
N = 20
__all__ = ["closed", "opened"]


def test_the_pods_of_this_run_are_behind_netkit(lab: TwoNodes) -> None:
    assert PODS == "netkit"
    assert lab.at["a"].network.kind(lab.device("pod-a")) == "netkit"


def sides(lab: TwoNodes) -> tuple[str, ...]:
    """Where status shows the program of both sides."""
    (found,) = (each for each in lab.status("a").programs if each.name == "pc_netkit")
    return found.attached


BOTH = ("v-pod-a (netkit peer)", "v-pod-a (netkit primary)")


def test_loads_attach_replace_and_detach_the_program_of_both_sides(
    lab: TwoNodes, opened: Path
) -> None:
    lab.load("a", opened, None)
    first = links(lab)
    assert len(first) == 2
    lab.load("a", opened, None, forward="stack", mode="clsact")
    assert links(lab) == first and sides(lab) == BOTH, "the same links"
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


def test_a_load_that_fails_takes_it_back(
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
    assert links(lab) == first and sides(lab) == BOTH


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
        talk = Datagrams(lab, family, "client1")
        assert not talk.asks(patience=SILENCE)
        lab.load("a", opened, None)
        assert talk.asks(3)
        lab.unload("a")
        assert not talk.asks(patience=SILENCE)


@families
def test_policy_holds_without_the_program(
    lab: TwoNodes, opened: Path, closed: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    for pin in Pins(lab.bpffs("a")).netkit.iterdir():
        tcx.detach(pin)
    assert talk.asks(N) and talk.routed() == 0
    lab.load("a", closed, None)
    assert not talk.asks(patience=SILENCE)
