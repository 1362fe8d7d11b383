# SPDX-License-Identifier: Apache-2.0
"""`node load --deny-devices`: devices that match and have no endpoint pass nothing."""

import json
import socket

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import (
    attach,
    clsact,
    tcx,
)
from policyc.runtime.attach.attach import Mode
from policyc.runtime.errors import HostError
from policyc.runtime.state import Attachment
from tests.kernel.support.denied_devices import (
    DENY,
    denied,
    load,
    policy,
)
from tests.kernel.support.new_pod import (
    DEVICE,
    NODE,
    OTHER_ETHERTYPE,
    PATTERN,
    NewPod,
    arp_request,
    ethernet,
    make_device,
)
from tests.kernel.support.node_commands import (
    Commands,
    commands,
)
from tests.kernel.support.node_under_test import (
    LOCAL,
    NEW,
    UPLINK,
    WORLD,
    A,
    B,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.service_wire import ServiceWire

pytestmark = pytest.mark.kernel
modes = pytest.mark.parametrize("mode", ["tcx", pytest.param("clsact", marks=pytest.mark.slow)])
__all__ = ["commands"]


def is_hooked(node: NodeUnderTest, device: str, kind: str) -> bool:
    at = Attachment(device, socket.if_nametoindex(device), kind)
    return attach.is_whole(node.pins, at)


FROM_POD = {
    "IPv4": frame(NEW, WORLD, udp(1, 2)),
    "IPv6": frame(NEW, WORLD, udp(1, 2), family=6),
    "another pod's address": frame(A, B, udp(1, 2)),
    "ARP": arp_request(NEW, NODE.ip4),
    "another ethertype": ethernet(NODE.mac, NEW.mac, OTHER_ETHERTYPE, bytes(46)),
    "another ethertype to all": ethernet("ff:ff:ff:ff:ff:ff", NEW.mac, OTHER_ETHERTYPE, bytes(46)),
    "802.3 with LLC": ethernet("01:80:c2:00:00:00", NEW.mac, 38, b"\x42\x42\x03" + bytes(43)),
}
"""And neighbour discovery, which the stacks of both sides do."""


@modes
def test_nothing_passes_a_device_without_an_endpoint(
    commands: Commands, wire: ServiceWire, mode: Mode
) -> None:
    """The node's own frames do not pass either, so no pod without a policy answers the node."""
    node = commands.node
    new = NewPod(node, wire)
    mark = b"a frame of the node"
    to_pod = [
        frame(NODE, NEW, udp(1, 2, mark)),
        frame(NODE, NEW, udp(1, 2, mark), family=6),
        ethernet("ff:ff:ff:ff:ff:ff", NODE.mac, OTHER_ETHERTYPE, mark + bytes(46)),
        arp_request(NODE, NEW.ip4) + mark,
    ]
    asks = ethernet("ff:ff:ff:ff:ff:ff", NEW.mac, 0x0806, arp_request(NEW, NODE.ip4)[14:])
    load(commands, "--attach", mode)
    for each in to_pod:
        assert new.gets(each, mark), "the test is not blind"
    assert new.is_answered(asks, b"\x08\x06"), "the test is not blind"
    load(commands, *DENY, "--attach", mode)
    assert denied(commands) == [DEVICE]
    for each in to_pod:
        assert not new.gets(each, mark)
    assert not new.is_answered(asks, b"\x08\x06")
    for name, each in FROM_POD.items():
        new.sends_in_vain(each, name)
    assert "no endpoint" in node.drops()


@modes
def test_no_neighbour_is_discovered_through_a_denied_device(
    commands: Commands, wire: ServiceWire, mode: Mode
) -> None:
    """In either direction: no neighbour entry becomes reachable."""
    new = NewPod(commands.node, wire)
    for address in (NEW.ip4, NEW.ip6):
        ip("neigh", "del", address, "dev", DEVICE)
    load(commands, *DENY, "--attach", mode)
    for family in (4, 6):
        before = sum(commands.node.drops().values())
        assert not new.is_reached(None, family)
        new.dropped(before, "what the node asks")


def test_only_devices_without_an_endpoint_are_denied(commands: Commands) -> None:
    """Whatever the pattern, not loopback, uplinks, devices of pods or of policyc."""
    node = commands.node
    node.node_addresses = (NODE.ip4, NODE.ip6)
    node.other_nodes = {"node-2": ("192.0.2.2",)}
    make_device(node)
    for address in (f"{NODE.ip4}/32", f"{NODE.ip6}/128"):
        ip("addr", "add", address, "dev", "lo")
    options = "--uplink", UPLINK, "--reassemble", "--service-cidr", "10.96.0.0/16"
    load(commands, "--deny-devices", "*", *options)
    spared = {"lo", UPLINK, *LOCAL.values()}
    names = {name for _, name in socket.if_nameindex()}
    own = {name for name in names if name.startswith("policyc")}
    assert {"policyc-frag", "policyc-svc", "policyc-vxlan"} <= own
    assert denied(commands) == sorted(names - spared - own)
    assert DEVICE in denied(commands)
    assert node.sent_by("a", frame(A, B, udp(1, 2)))


@modes
def test_a_load_that_lists_the_pod_keeps_the_hooks_of_its_device(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    node = commands.node
    make_device(node)
    load(commands, *DENY, "--attach", mode)
    at = node.ifindex[DEVICE]
    monkeypatch.setitem(LOCAL, "new", DEVICE)
    assert not node.sent_by("new", frame(NEW, A, udp(1, 2)))
    taken: list[tuple[object, ...]] = []
    for module in (tcx, clsact):
        monkeypatch.setattr(module, "detach", lambda *words: taken.append(words))
    entries = [endpoint("a", A, LOCAL["a"]), endpoint("new", NEW, DEVICE)]
    bundle = str(node.bundle(policy(node)))
    code, said = commands.run(bundle, node.endpoints(entries), "--attach", mode)
    assert code == 0, said
    assert not [words for words in taken if at in words or f"{at}-" in str(words)]
    assert denied(commands) == [LOCAL["b"]], "whose pod is not in the file any more"
    assert node.sent_by("new", frame(NEW, A, udp(1, 2)))
    assert not node.sent_by("new", frame(NEW, WORLD, udp(1, 2)))


@modes
def test_a_renamed_device_stays_denied(commands: Commands, mode: Mode) -> None:
    node = commands.node
    make_device(node)
    load(commands, *DENY, "--attach", mode)
    for name in ("eni7", "veth3c4d"):
        ip("link", "set", DEVICE if name == "eni7" else "eni7", "down")
        ip("link", "set", DEVICE if name == "eni7" else "eni7", "name", name)
        for _ in range(2):  # by a load with it on record, and by the one after that
            load(commands, "--attach", mode)
            assert denied(commands) == [name]
            assert is_hooked(node, name, mode)


def test_a_pods_device_under_another_name_is_denied(commands: Commands) -> None:
    ip("link", "set", "pcb", "down")
    ip("link", "set", "pcb", "name", DEVICE)
    load(commands, *DENY, "--missing-devices", "skip")
    assert commands.missing() == ["shop/b"]
    assert denied(commands) == [DEVICE]


@modes
def test_patterns_stay_in_force_until_a_load_gives_an_empty_one(
    commands: Commands, mode: Mode
) -> None:
    node = commands.node
    for device in (DEVICE, "lxc1"):
        make_device(node, device)
    load(commands, *DENY, "--deny-devices", "lxc?", "--attach", mode)
    said = load(commands, "--attach", mode)
    assert "2 devices without an endpoint denied" in said
    assert denied(commands) == ["lxc1", DEVICE]
    assert json.loads(commands.status())["deny_devices"] == [PATTERN, "lxc?"]
    text = commands.status("text")
    assert "2 devices without an endpoint, under default deny: " in text
    assert f"default deny of devices without an endpoint: {PATTERN} lxc?" in text
    load(commands, *DENY, "--attach", mode)
    assert denied(commands) == [DEVICE]
    assert not is_hooked(node, "lxc1", mode), "no pattern names the device any more"
    load(commands, "--deny-devices", "", "--attach", mode)
    assert denied(commands) == []
    assert not is_hooked(node, DEVICE, mode)
    assert "denied" not in load(commands, "--attach", mode)


def test_the_device_of_a_removed_pod_stays_denied_without_a_pattern(commands: Commands) -> None:
    node = commands.node
    load(commands, "--deny-devices", "pc?")
    entries = [endpoint("a", A, LOCAL["a"])]
    bundle = str(node.bundle(policy(node)))
    assert commands.run(bundle, node.endpoints(entries), "--deny-devices", "")[0] == 0
    assert denied(commands) == ["pcb"]


@modes
def test_unload_takes_the_hooks_off(commands: Commands, mode: Mode) -> None:
    make_device(commands.node)
    load(commands, *DENY, "--attach", mode)
    commands.unload()
    assert clsact.find(socket.if_nametoindex(DEVICE), "ingress") is None
    load(commands)
    assert denied(commands) == [], "patterns are forgotten, too"


@modes
def test_a_load_that_fails_denies_no_device(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    node = commands.node
    make_device(node)
    load(commands, "--attach", mode)

    def fails(*_words: object) -> None:
        raise HostError("no")

    with monkeypatch.context() as patch:
        patch.setattr(switch, "store", fails)
        assert commands.load(policy(node), *DENY, "--attach", mode)[0] == 3
    assert not is_hooked(node, DEVICE, mode)
    assert json.loads(commands.status())["deny_devices"] == []


@pytest.mark.parametrize("given", [("a/b",), ("a b",), ("x:1",), (PATTERN, "")], ids=" ".join)
def test_a_pattern_that_matches_no_possible_name_is_an_error(
    commands: Commands, given: tuple[str, ...]
) -> None:
    options = [word for each in given for word in ("--deny-devices", each)]
    code, said = commands.load(policy(commands.node), *options)
    assert code == 2
    assert "--deny-devices: expected a pattern of device names as veth*" in said
    load(commands)


def test_status_names_a_device_that_came_after_the_load(commands: Commands) -> None:
    load(commands, *DENY)
    make_device(commands.node)
    found = json.loads(commands.status())
    assert found["denied_devices"] == []
    assert found["unprotected"] == [DEVICE]
    assert f"{DEVICE}: a hook is not attached" in commands.status("text")


def test_the_loss_of_the_record_and_its_patterns_is_reported(commands: Commands) -> None:
    make_device(commands.node)
    load(commands, *DENY)
    for path in commands.records():
        path.unlink()
    assert "the previous value of --deny-devices is lost" in load(commands)
    assert DEVICE in denied(commands), "and no hook is taken off for that"
