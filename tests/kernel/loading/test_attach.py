# SPDX-License-Identifier: Apache-2.0
"""Hooks attach beside foreign programs, which run before and after them, and are replaced in place."""

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from policyc.runtime.attach import (
    clsact,
    tcx,
)
from policyc.runtime.attach.attach import (
    BY_ROLE,
    Hook,
    Mode,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from tests.eventually import eventually
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.objects import (
    HERE,
    compile_c,
    other_hooks,
)
from tests.kernel.support.packets import (
    arp,
    frame,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    udp_port,
)
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
modes = pytest.mark.parametrize("mode", ["tcx", "clsact"])
INGRESS = 0xFFFFFFF2
PROG_QUERY = 16


class Foreign:
    """A foreign program, attached to the pod's device where it sends."""

    def __init__(self, path: Path) -> None:
        self._object = Object(path, path.parent)
        self._object.load()
        self._links: list[bpf_syscall.Fd] = []

    def attach_tcx(self, ifindex: int) -> None:
        fd = self._object.program_fd("foreign")
        self._links.append(bpf_syscall.link_create_tcx(fd, ifindex, bpf_syscall.ATTACH_TCX_INGRESS))

    def attach_clsact(self, ifindex: int, priority: int, handle: int = 1) -> None:
        with IPRoute() as netlink:
            try:
                netlink.tc("add", "clsact", ifindex)
            except Exception as error:
                assert getattr(error, "code", 0) == 17  # it is there
            netlink.tc(
                "add-filter", "bpf", ifindex, handle, fd=self._object.program_fd("foreign"),
                name="foreign", parent=INGRESS, prio=priority, protocol=3, classid=1,
                direct_action=True,
            )  # fmt: skip

    def hits(self) -> int:
        raw = bpf_syscall.map_lookup(self._object.map_fd("hits"), bytes(4), 8) or b""
        return int.from_bytes(raw, "little")

    def close(self) -> None:
        for link in self._links:
            with link:
                pass
        self._object.close()


@pytest.fixture
def foreign(node: NodeUnderTest, tmp_path: Path) -> Iterator[Callable[[], Foreign]]:
    compile_c(HERE / "foreign.bpf.c", tmp_path / "foreign.bpf.o")
    made: list[Foreign] = []

    def make() -> Foreign:
        made.append(Foreign(tmp_path / "foreign.bpf.o"))
        return made[-1]

    yield make
    for each in made:
        each.close()


@modes
def test_programs_of_others_run_before_and_after_ours(
    node: NodeUnderTest, foreign: Callable[[], Foreign], mode: Mode
) -> None:
    """The hooks return "next". An "ok" would silently disable the programs behind them."""
    device = node.ifindex["pca"]
    before, after, first_filter, last_filter = foreign(), foreign(), foreign(), foreign()
    before.attach_tcx(device)
    first_filter.attach_clsact(device, priority=1)
    node.load(node.policy().allow("a", "b", udp_port(53)), mode=mode)
    after.attach_tcx(device)
    last_filter.attach_clsact(device, priority=60000)
    everybody = (before, after, first_filter, last_filter)

    node.sends_on_the_wire("a", frame(A, B, udp(1, 53)))
    eventually(lambda: all(each.hits() == 1 for each in everybody), "every program has run")
    assert node.drops() == {}

    node.sends_on_the_wire("a", frame(A, B, udp(1, 54)))
    eventually(lambda: node.drops() == {"policy": 1}, "the frame is dropped")
    behind = (last_filter,) if mode == "clsact" else (after, first_filter, last_filter)
    for each in everybody:
        assert each.hits() == (1 if each in behind else 2)


@modes
def test_both_hooks_run_on_the_device(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    node.sends_on_the_wire("a", arp(A, sender_ip=B.ip4))
    eventually(lambda: node.drops() == {"spoofed arp": 1}, "the frame is dropped")
    found = node.status()
    assert found is not None
    assert [each.attached for each in found.programs] == [
        (f"pca ({mode})", f"pcb ({mode})"), (f"pca ({mode})", f"pcb ({mode})"), (),
    ]  # fmt: skip
    assert found.unprotected == ()


def test_links_outlive_the_loader_and_a_foreign_clsact(node: NodeUnderTest) -> None:
    node.load(node.policy(), mode="tcx")
    device = node.ifindex["pca"]
    with IPRoute() as netlink:
        netlink.tc("add", "clsact", device)
        netlink.tc("del", "clsact", device)
    node.sends_on_the_wire("a", frame(A, B, udp(1, 53)))
    eventually(lambda: node.drops() == {"policy": 1}, "the frame is dropped")


def test_a_load_reattaches_removed_hooks(node: NodeUnderTest) -> None:
    node.load(node.policy(), mode="clsact")
    with IPRoute() as netlink:
        netlink.tc("del", "clsact", node.ifindex["pca"])
    found = node.status()
    assert found is not None and found.unprotected == ("pca",)
    node.load(node.policy(), mode="clsact")
    found = node.status()
    assert found is not None and found.unprotected == ()


@modes
def test_new_hooks_replace_the_old_in_place(node: NodeUnderTest, mode: Mode) -> None:
    policy = node.policy().allow("a", "b", ANY)
    node.load(policy, mode=mode)
    pin = node.pins.link(node.ifindex["pca"], "pc_from_pod")
    link, old = tcx.find(pin), clsact.find(node.ifindex["pca"], "ingress")
    assert node.sent_by("a", frame(A, B, udp(1, 53)))
    other = other_hooks(node.objects, node.folder / "other")
    loaded = node.load(policy, objects=other, mode=mode)
    assert loaded.hooks_replaced
    assert len(node.connections()) == 1
    found = node.status()
    assert found is not None and found.unprotected == ()
    if link is not None:
        now = tcx.find(pin)
        assert now is not None and now.id == link.id and now.prog_id != link.prog_id
    else:
        filter_now = clsact.find(node.ifindex["pca"], "ingress")
        assert old is not None and filter_now is not None and filter_now.prog_id != old.prog_id
    assert sorted(path.name for path in (node.bpffs / "hooks").iterdir()) == [
        "pc_first", "pc_from_pod", "pc_from_reasm", "pc_from_slave", "pc_from_tunnel", "pc_from_uplink",
        "pc_netkit", "pc_resets", "pc_to_pod", "pc_to_route", "pc_to_slave", "pc_to_uplink",
    ]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [("tcx", "clsact"), ("clsact", "tcx")])
def test_a_load_with_the_other_attach_mode_leaves_one_hook(
    node: NodeUnderTest, before: Mode, after: Mode
) -> None:
    node.load(node.policy(), mode=before)
    node.load(node.policy(), mode=after)
    for device in ("pca", "pcb"):
        for hook in BY_ROLE["pod"]:
            link = tcx.find(node.pins.link(node.ifindex[device], hook.program))
            found = clsact.find(node.ifindex[device], hook.direction)
            assert (link is None, found is None) == (after == "clsact", after == "tcx")


def test_a_foreign_filter_at_our_handle_is_left_alone(
    node: NodeUnderTest, foreign: Callable[[], Foreign]
) -> None:
    foreign().attach_clsact(node.ifindex["pcb"], clsact.PRIORITY, clsact.HANDLE)
    with pytest.raises(HostError, match="'foreign' occupies the place of policyc's filter"):
        node.load(node.policy(), mode="clsact")
    assert clsact.find(node.ifindex["pca"], "ingress") is None
    found = clsact.find(node.ifindex["pcb"], "ingress")
    assert found is not None and found.name == "foreign"
    assert not node.bpffs.exists()


@modes
def test_a_recreated_device_gets_its_hooks_again(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    ip("link", "del", "pca")
    found = node.status()
    assert found is not None and found.unprotected == ("pca",)
    ip("link", "add", "pca", "type", "veth", "peer", "name", "pca.p")
    ip("link", "set", "pca", "up")
    node.load(node.policy(), mode=mode)
    found = node.status()
    assert found is not None and found.unprotected == ()
    if mode == "tcx":
        assert len(list(node.pins.links.iterdir())) == 4


def tcx_programs(ifindex: int, hook: Hook) -> int:
    """How many programs tcx runs there, foreign ones included: BPF_PROG_QUERY."""
    attr = bytearray(struct.pack("=II120x", ifindex, hook.tcx_type))
    bpf_syscall.bpf(PROG_QUERY, attr)
    (count,) = struct.unpack_from("=I", attr, 24)
    return int(count)


@modes
@pytest.mark.parametrize("record", ["kept", "lost"])
def test_unload_takes_both_hooks_off(node: NodeUnderTest, mode: Mode, record: str) -> None:
    node.load(node.policy(), mode=mode)
    there = 1 if mode == "tcx" else 0
    for hook in BY_ROLE["pod"]:
        assert tcx_programs(node.ifindex["pca"], hook) == there
    if record == "lost":
        shutil.rmtree(node.state_root)
    assert node.unload()
    for device in ("pca", "pcb"):
        for hook in BY_ROLE["pod"]:
            assert clsact.find(node.ifindex[device], hook.direction) is None
            assert tcx_programs(node.ifindex[device], hook) == 0
    assert not node.bpffs.exists()
    assert not node.unload()
