# SPDX-License-Identifier: Apache-2.0
"""Loads with pods on ipvlan slaves: attach, keep, fail, take back."""

from pathlib import Path

import pytest

from policyc.runtime.attach import slaves as links
from policyc.runtime.attach import tcx
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load.resources.programs import Record
from policyc.runtime.observe.attest import attest
from tests.kernel.ipvlan.bed import PODS, Slaves
from tests.kernel.support.loaded_lab import SILENCE

pytestmark = pytest.mark.kernel
PROGRAMS = {f"pc_{where}_{way}" for where in ("slave", "parent", "node") for way in ("out", "in")}


def ids(lab: Slaves) -> dict[str, int]:
    """The links, by the name of their pin, with their ids."""
    folder = Pins(lab.lab.node.bpffs).slaves
    found = {}
    for pin in folder.iterdir() if folder.is_dir() else ():
        with bpf_syscall.obj_get(pin) as fd:
            found[pin.name] = bpf_syscall.link_info(fd).id
    return found


def faults(lab: Slaves, bundle: Path) -> list[str]:
    """What `policyc node attest` finds."""
    node = lab.lab.node
    found = lab.on_node(
        lambda: attest(bundle, lab.endpoints, bpffs=node.bpffs, state_root=lab.folder / "state")
    )
    return [fault for part in found.parts for fault in part.faults]


def test_loads_attach_keep_and_detach(lab: Slaves, opened: Path, closed: Path) -> None:
    lab.load(opened)
    first = ids(lab)
    assert len(first) == 2 * (len(PODS) + 2), "each pod, the parent, and the node's own slave"
    shown = {each.name: each.attached for each in lab.status().programs}
    assert shown.keys() >= PROGRAMS
    assert len(shown["pc_slave_out"]) == len(PODS) and shown["pc_parent_in"] == ("uplink0 (tcx)",)
    assert not lab.status().unprotected
    assert faults(lab, opened) == []
    lab.load(closed)
    assert ids(lab) == first, "the same links: no packet met a slave without a program"
    assert not lab.asks("cart", "server", 4, patience=SILENCE)
    assert faults(lab, closed) == []
    lab.unload()
    assert ids(lab) == {} and not lab.lab.node.bpffs.joinpath("maps").exists()
    assert lab.asks("external", "server", 4, 8081), "nothing is enforced"


def test_a_load_that_fails_takes_back_what_it_did(
    lab: Slaves, opened: Path, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise HostError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(Record, "commit", fail)
        with pytest.raises(HostError, match="no more"):
            lab.load(opened)
    assert ids(lab) == {}
    lab.load(opened)
    first = ids(lab)
    with monkeypatch.context() as patched:
        patched.setattr(Record, "commit", fail)
        with pytest.raises(HostError, match="no more"):
            lab.load(closed)
    assert ids(lab) == first
    assert lab.asks("cart", "server", 4) and not lab.asks("guard", "server", 4, patience=SILENCE)
    lab.unload()


def test_a_pod_that_the_endpoints_file_lacks_is_cut_off(
    lab: Slaves, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hooks stay; another pod would have heard from it, as one from the network."""
    lab.load(opened)
    monkeypatch.setattr(lab, "left_out", frozenset({"other"}))
    lab.write_endpoints()
    lab.load(opened)
    assert not lab.asks("other", "cart", 4, 9999, patience=SILENCE)
    assert not lab.asks("external", "other", 4, patience=SILENCE)
    monkeypatch.undo()
    lab.write_endpoints()
    lab.load(opened)
    assert lab.asks("other", "cart", 4, 9999)
    lab.unload()


def test_attest_and_status_name_a_slave_without_its_program(lab: Slaves, opened: Path) -> None:
    lab.load(opened)
    pins = Pins(lab.lab.node.bpffs)
    pin = next(
        each
        for each in pins.slaves.iterdir()
        if each.name.startswith("slave") and each.name.endswith("-in")
    )
    tcx.detach(pin)
    (open_now,) = lab.status().unprotected
    assert open_now.endswith(":eth0")
    assert any(open_now in each for each in faults(lab, opened))
    lab.load(opened)
    assert not lab.status().unprotected and faults(lab, opened) == []
    lab.unload()


def test_attest_notices_other_programs_behind_a_slaves_hook(lab: Slaves, opened: Path) -> None:
    lab.load(opened)
    pins = Pins(lab.lab.node.bpffs)
    at_map, passing = pins.map(links.MAP), pins.hook("pc_netkit")
    with bpf_syscall.obj_get(at_map) as fd, bpf_syscall.obj_get(passing) as program:
        bpf_syscall.map_update(fd, bytes(4), program.to_bytes(4, "little"))
    assert any("runs at slaves" in each for each in faults(lab, opened))
    lab.unload()


def test_hooks_by_clsact_are_refused(lab: Slaves, opened: Path) -> None:
    with pytest.raises(InputError, match="a pod could remove such hooks"):
        lab.load(opened, mode="clsact")
    assert ids(lab) == {}
