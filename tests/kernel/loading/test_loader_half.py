# SPDX-License-Identifier: Apache-2.0
"""Commands that were killed half way, or had no space for their records."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.killed import (
    die,
    killed,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.objects import other_hooks
from tests.kernel.support.packets import (
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.table_policy import tcp_port
from tests.property.length import AT_LENGTH
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
CORE = (
    "pc_state",
    "pc_policy",
    "pc_ct4",
    "pc_ep4",
    "pc_frontends",
    "pc_snat",
    "pc_drops",
    "pc_vteps",
)
"""The maps of `make test`; `make test-all` tries all."""


def _is_said_and_mended(node: NodeUnderTest, then: str) -> None:
    with pytest.raises(HostError, match="partly loaded") as caught:
        node.status()
    assert caught.value.hint == "load or unload again"
    node.n_bundles += 1
    if then == "load":
        node.load(node.policy().allow("a", "b", tcp_port(81)))
        found = node.status()
        assert found is not None and found.unprotected == ()
        assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
    assert node.unload()
    assert node.status() is None
    assert not node.bpffs.exists()
    assert not node.state_root.exists()


mended = pytest.mark.parametrize("then", ["load", "unload"])


@mended
def test_the_next_command_repairs_a_first_load_killed_at_its_switch(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    def step() -> None:
        monkeypatch.setattr(switch, "store", die)
        node.load(node.policy())

    killed(step)
    assert list(node.pins.links.iterdir())
    _is_said_and_mended(node, then)


@pytest.mark.fresh
@pytest.mark.parametrize("then", ["load", pytest.param("unload", marks=pytest.mark.slow)])
def test_the_next_command_repairs_a_load_killed_between_two_hooks(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    other = other_hooks(node.objects, node.folder / "other")
    node.load(node.policy())

    def step() -> None:
        monkeypatch.setattr(bpf_syscall, "obj_pin", die)
        node.load(node.policy(), objects=other)

    killed(step)
    assert not node.pins.hook("pc_from_pod").exists()
    _is_said_and_mended(node, then)


@mended
def test_the_next_command_repairs_a_killed_unload(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    node.load(node.policy())

    rmtree = shutil.rmtree

    def remove_half(folder: Path) -> None:
        if folder.name == "maps":
            (folder / "pc_ep4").unlink()
            die()
        rmtree(folder)

    def step() -> None:
        monkeypatch.setattr(shutil, "rmtree", remove_half)
        node.unload()

    killed(step)
    _is_said_and_mended(node, then)


def test_a_full_state_directory_is_reported(node: NodeUnderTest) -> None:
    node.state_root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(node.state_root)]
    subprocess.run(mount, check=True)
    try:
        node.load(node.policy().allow("a", "b", tcp_port(80)))
        fill = node.state_root / "fill"
        with pytest.raises(OSError, match="No space"), fill.open("wb", buffering=0) as out:
            while True:
                out.write(bytes(512))
        pins = sorted(node.bpffs.rglob("*"))
        with pytest.raises(HostError, match="No space left on device"):
            node.load(node.policy().allow("a", "b", tcp_port(81)))
        assert sorted(node.bpffs.rglob("*")) == pins
        assert not list(node.state_root.rglob("*.half"))
        assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
        found = node.status()
        assert found is not None and found.epoch == 1
        fill.unlink()
        node.load(node.policy().allow("a", "b", tcp_port(81)))
        assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
        assert node.unload()
    finally:
        subprocess.run(["umount", "-l", str(node.state_root)], check=True)


def test_commands_refuse_hooks_that_use_a_map_without_its_pin(node: NodeUnderTest) -> None:
    """With any such map a load would write a new map, and the hooks would go on with the old one."""
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    shared = sorted(node.pins.maps.iterdir())
    assert len(shared) > 40
    if not os.environ.get(AT_LENGTH):
        shared = [pin for pin in shared if pin.name in CORE]
    aside = node.bpffs / "aside"
    for pin in shared:
        pin.rename(aside)
        before = sorted(node.bpffs.rglob("*"))
        for command in (node.status, lambda: node.load(node.policy())):
            with pytest.raises(HostError, match=rf"partly loaded.* without their pin: {pin.name}$"):
                command()
        assert sorted(node.bpffs.rglob("*")) == before, pin.name
        aside.rename(pin)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))


@pytest.mark.parametrize("name", ["pc_policy", "pc_state", "pc_quota_full", "pc_ep4"])
def test_an_unload_mends_a_node_that_lost_a_map(node: NodeUnderTest, name: str) -> None:
    node.load(node.policy())
    node.pins.map(name).unlink()
    assert node.unload()
    assert node.status() is None
    assert not node.bpffs.exists()
    node.load(node.policy().allow("a", "b", tcp_port(81)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
