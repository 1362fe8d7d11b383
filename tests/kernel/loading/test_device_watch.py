# SPDX-License-Identifier: Apache-2.0
"""`node follow` denies devices that appear, by the patterns of the load or its own."""

import json
import os
import socket
import subprocess
from contextlib import ExitStack

import pytest

from policyc.runtime.attach import attach
from policyc.runtime.attach.attach import Mode
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.state import Attachment, StateDir
from tests.eventually import eventually
from tests.kernel.support.denied_devices import (
    DENY,
    denied,
    load,
)
from tests.kernel.support.device_watch import (
    Follower,
    following,
)
from tests.kernel.support.new_pod import (
    DEVICE,
    NewPod,
    make_device,
)
from tests.kernel.support.node_commands import (
    Commands,
    commands,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    ip,
)
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import service

pytestmark = pytest.mark.kernel
modes = pytest.mark.parametrize("mode", ["tcx", pytest.param("clsact", marks=pytest.mark.slow)])
__all__ = ["commands"]


def is_denied(commands: Commands, device: str, kind: str) -> bool:
    try:
        at = Attachment(device, socket.if_nametoindex(device), kind)
    except OSError:
        return False
    return attach.is_whole(commands.node.pins, at)


def becomes_denied(commands: Commands, device: str, kind: str, what: str) -> None:
    eventually(lambda: is_denied(commands, device, kind), what)
    eventually(lambda: device in denied_now(commands), f"{what}, and on record")


def denied_now(commands: Commands) -> list[str]:
    found: list[str] = json.loads(commands.status())["denied_devices"]
    return found


@modes
def test_a_device_that_appears_is_denied(commands: Commands, wire: ServiceWire, mode: Mode) -> None:
    node = commands.node
    load(commands, *DENY, "--attach", mode)
    with following(commands):
        new = NewPod(node, wire)
        becomes_denied(commands, DEVICE, mode, "a new device is denied")
        for family in (4, 6):
            assert not new.reaches(None, family)
            assert not new.is_reached(None, family)
            assert not new.reaches("c", family)
        ip("link", "del", DEVICE)
        eventually(lambda: denied_now(commands) == [], "it is forgotten")
        make_device(node)
        becomes_denied(commands, DEVICE, mode, "a device of the same name is denied again")
    assert denied(commands) == [DEVICE], "the hooks outlive the command"
    load(commands, "--attach", mode)
    assert denied(commands) == [DEVICE]


def test_devices_that_exist_when_the_command_starts_are_denied(commands: Commands) -> None:
    load(commands, *DENY)
    make_device(commands.node)
    with following(commands):
        becomes_denied(commands, DEVICE, "tcx", "the device that was there")


@modes
def test_a_device_is_denied_when_it_gets_a_name_that_matches(
    commands: Commands, mode: Mode
) -> None:
    load(commands, *DENY, "--attach", mode)
    make_device(commands.node, "tmp1")
    with following(commands):
        ip("link", "set", "tmp1", "down")
        assert not is_denied(commands, "tmp1", mode)
        ip("link", "set", "tmp1", "name", DEVICE)
        becomes_denied(commands, DEVICE, mode, "the renamed device is denied")
        ip("link", "set", DEVICE, "down")
        ip("link", "set", DEVICE, "name", "tmp1")
        assert is_denied(commands, "tmp1", mode), "the device is not open under the old name"
        load(commands, "--attach", mode)
        assert denied(commands) == ["tmp1"]


def test_a_recreated_device_of_a_pod_is_denied(commands: Commands) -> None:
    """It is a new device. The load knows only its name."""
    load(commands, *DENY, "--deny-devices", "pc?")
    with following(commands):
        ip("link", "del", "pcb")
        make_device(commands.node, "pcb")
        becomes_denied(commands, "pcb", "tcx", "the device of the pod's name is denied")


def test_a_device_is_denied_while_another_command_has_the_lock(commands: Commands) -> None:
    load(commands, *DENY)
    with following(commands):
        make_device(commands.node, "veth0000")
        becomes_denied(commands, "veth0000", "tcx", "the command has begun")
        with StateDir(commands.node.bpffs).lock("load"):
            make_device(commands.node)
            eventually(lambda: is_denied(commands, DEVICE, "tcx"), "denied at once")
            assert DEVICE not in denied_now(commands), "another command has the record"
        becomes_denied(commands, DEVICE, "tcx", "it is on record afterwards")


def test_other_patterns_of_a_later_load_are_followed(commands: Commands) -> None:
    load(commands)
    with following(commands, streams="-") as follower:
        make_device(commands.node)
        os.write(follower.stdin, json.dumps(service().raw).encode())
        eventually(lambda: "in force" in follower.said(), "Services are followed, too")
        assert not is_denied(commands, DEVICE, "tcx")
        load(commands, "--deny-devices", "lxc*")
        make_device(commands.node, "lxc1")
        becomes_denied(commands, "lxc1", "tcx", "the pattern of the load")
        assert not is_denied(commands, DEVICE, "tcx")


@modes
def test_patterns_of_the_command_itself_are_remembered(commands: Commands, mode: Mode) -> None:
    load(commands, "--attach", mode)
    make_device(commands.node)
    with following(commands, *DENY):
        becomes_denied(commands, DEVICE, mode, "by the command's own pattern")
    assert "1 device without an endpoint denied" in load(commands, "--attach", mode)
    with following(commands, "--deny-devices", "", streams="-") as follower:
        eventually(lambda: not is_denied(commands, DEVICE, mode), "it is let go")
        os.write(follower.stdin, json.dumps(service().raw).encode())
        eventually(lambda: "in force" in follower.said(), "Services are followed")
    assert denied_now(commands) == []


def test_an_unload_during_the_watch_detaches_all_hooks(commands: Commands) -> None:
    load(commands, *DENY)
    with following(commands):
        make_device(commands.node)
        becomes_denied(commands, DEVICE, "tcx", "the new device")
        commands.unload()
        make_device(commands.node, "veth0000")
        load(commands, *DENY)
        assert denied(commands) == sorted([DEVICE, "veth0000"])
        make_device(commands.node, "veth2222")
        becomes_denied(commands, "veth2222", "tcx", "after the new load")


def test_the_command_is_refused_without_devices_to_follow(commands: Commands) -> None:
    load(commands)
    follower = Follower(commands)
    assert follower.stop(0) == 2
    assert "nothing to follow" in follower.said()


@pytest.mark.parametrize("words", [(), DENY], ids=["streams", "deny"])
def test_a_wait_for_another_command_is_reported_once(
    commands: Commands, words: tuple[str, ...]
) -> None:
    """A later wait is reported again. Without a wait there is no message."""
    load(commands)
    said = "note: a load is in progress; waiting until it ends\n"
    state = StateDir(commands.node.bpffs)
    event = json.dumps(service().raw).encode()
    with ExitStack() as held, state.lock("load"):
        follower = held.enter_context(following(commands, *words, streams="-"))
        eventually(lambda: said in follower.said(), "it says what it waits for")
        os.write(follower.stdin, event)
        held_open = held.pop_all()
    with held_open:
        eventually(lambda: "in force" in follower.said(), "it goes on")
        assert follower.said().count(said) == 1
        os.write(follower.stdin, event)
        eventually(lambda: follower.said().count("in force") == 2, "an event without a wait")
        assert follower.said().count(said) == 1
        with state.lock("load"):
            os.write(follower.stdin, event)
            eventually(lambda: follower.said().count(said) == 2, "another wait is said, too")
        eventually(lambda: follower.said().count("in force") == 3, "it goes on")
    assert follower.said().count(said) == 2


def test_a_signal_ends_a_waiting_follower(commands: Commands) -> None:
    load(commands)
    with StateDir(commands.node.bpffs).lock("load"):
        follower = Follower(commands, streams="-")
        try:
            eventually(lambda: "note: a load is in progress" in follower.said(), "it waits")
        finally:
            code = follower.stop()
        assert code == 3, follower.said()


def take_away(commands: Commands, device: str, kind: str) -> None:
    """Its hooks, as another program may."""
    if kind == "clsact":
        subprocess.run(["tc", "qdisc", "del", "dev", device, "clsact"], check=True)
        return
    ifindex = socket.if_nametoindex(device)
    for hook in attach.BY_ROLE["pod"]:
        with bpf_syscall.obj_get(commands.node.pins.link(ifindex, hook.program)) as link:
            bpf_syscall.link_detach(link)


@modes
def test_a_removed_hook_is_reported_and_reattached(commands: Commands, mode: Mode) -> None:
    node = commands.node
    load(commands, "--attach", mode)
    take_away(commands, "pca", mode)
    assert json.loads(commands.status())["unprotected"] == ["pca"]
    assert "pca: a hook is not attached; load again" in commands.status("text")
    with following(commands, *DENY) as follower:
        _is_put_back(commands, follower, mode, 1)
        take_away(commands, "pca", mode)
        _is_put_back(commands, follower, mode, 2)
    make_device(node)
    load(commands, *DENY, "--attach", mode)
    with following(commands):
        take_away(commands, DEVICE, mode)
        becomes_denied(commands, DEVICE, mode, "a denied device, too")


def _is_put_back(commands: Commands, follower: Follower, kind: str, times: int) -> None:
    """And said, and a packet under another's address is dropped there."""
    node, said = commands.node, "warning: pca had lost a hook; it is attached again\n"
    eventually(lambda: follower.said().count(said) == times, "it is said")
    assert is_denied(commands, "pca", kind), "the hooks are back"
    before = sum(node.drops().values())
    node.sends_on_the_wire("a", frame(B, A, udp(1, 2)))
    eventually(lambda: sum(node.drops().values()) > before, "they decide")
    assert json.loads(commands.status())["unprotected"] == []
