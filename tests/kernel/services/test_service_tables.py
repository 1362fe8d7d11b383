# SPDX-License-Identifier: Apache-2.0
"""The tables of Services: their layout, changes in one step, and the commands that write them."""

import json
import threading
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime import switch
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.load import node as runtime
from policyc.runtime.maps.services import Backends, Frontends
from policyc.runtime.services import tables as service_tables
from policyc.runtime.services.all_objects import read_services
from policyc.runtime.services.limits import NODE_LIMIT
from policyc.runtime.services.services import (
    Frontend,
    OwnNode,
)
from tests.kernel.support.node_under_test import (
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    packed,
    tcp,
    udp,
)
from tests.kernel.support.service_frames import to_vip
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    value,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    NamePlacer,
)
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]


def test_the_tables_hold_what_all_services_of_a_node_may_have(node: NodeUnderTest) -> None:
    node.load(node.policy())
    room = service_tables.planner(node.pins, {}).capacities
    assert (room.frontends, room.choices, room.ranges, room.maglev) == NODE_LIMIT
    assert room.backends >= NODE_LIMIT.endpoints


def test_the_entries_of_a_frontend_and_its_backend(node: NodeUnderTest) -> None:
    """In the byte order of datapath/service_map.h."""
    node.load(node.policy(), services=web(C))
    key = packed(VIP.ip4).ljust(16, b"\0") + b"\0\x50" + bytes([6])
    with Frontends(node.pins) as frontends, Backends(node.pins) as backends:
        (found,) = (each for each in frontends.all_keys() if each.startswith(key))
        assert found[19] >> 1 == 4
        ends = packed(C.ip4).ljust(16, b"\0") + key[:16] + TARGET.to_bytes(2, "big") + key[16:18]
        (entry,) = (each for _, each in backends.used() if each[8:44] == ends)
        assert entry[:4] == entry[4:8] != bytes(4) and entry[44:46] == bytes([6, 4])


def _frontends() -> tuple[Frontend, ...]:
    return read_services(web(C), OwnNode("node-1"))


def used(node: NodeUnderTest) -> tuple[int | None, ...]:
    found = node.status()
    assert found is not None
    counts = {each.name: each.used for each in found.maps}
    return counts["pc_frontends"], counts["pc_backends"]


def test_the_tables_hold_the_services_in_force(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=web(B, C))
    assert used(node) == (2, 4)
    node.serve(web(C))
    assert used(node) == (2, 2)
    node.load(node.policy())
    assert used(node) == (2, 2)
    node.load(node.policy(), services=[])
    assert used(node) == (0, 0)


def _snapshot(node: NodeUnderTest) -> tuple[object, ...]:
    rows, keys = [], []
    with node.shared_map("pc_backends") as fd:
        for place in range(16):
            raw = bpf_syscall.map_lookup(fd, place.to_bytes(4, "little"), 64) or b""
            rows.append(raw if raw[:4] != bytes(4) else b"")
    word = switch.read(node.pins.map("pc_state"))
    with node.shared_map("pc_frontends") as fd:
        keys = sorted(k for k in bpf_syscall.map_keys(fd, 20) if k[19] & 1 == word.buffer)
    return word, rows, keys


@pytest.mark.parametrize("command", ["services", "load"])
def test_a_change_that_fails_keeps_the_previous_tables(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    before = _snapshot(node)

    def fail(*_: object) -> None:
        raise OSError("no more")

    def change(services: list[JsonValue]) -> None:
        if command == "services":
            node.serve(services)
        else:
            node.load(node.policy(), services=services)

    with pytest.raises(InputError, match="expected a Service"):
        change([value({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})])
    assert _snapshot(node) == before
    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fail)
        with pytest.raises(OSError, match="no more"):
            change(web(B, C))
    assert _snapshot(node) == before
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    node.serve(web(B, C))
    assert used(node) == (2, 4)


def test_services_without_a_loaded_bundle_are_refused(node: NodeUnderTest) -> None:
    with pytest.raises(HostError, match="no loaded bundle can use Services"):
        node.serve(web(C))
    assert not node.bpffs.exists()


def test_the_next_command_repairs_a_killed_one(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY), services=web(C))
    with monkeypatch.context() as patched:
        patched.setattr(service_tables.Filled, "finish", lambda *_: None)
        node.serve(web(B))
    assert used(node) == (2, 4), "rows of the one before are still there"
    node.serve(web(B))
    assert used(node) == (2, 2)
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))


def test_no_packet_sees_a_partial_change(node: NodeUnderTest) -> None:
    """Two sets have different endpoints. Each packet goes to an endpoint of the set in force."""
    remote = [Host(C.mac, f"10.9.0.{i}", f"fd09::{i}") for i in range(1, 9)]
    sets = [web(*remote[:4], protocol="UDP", port=53), web(*remote[4:], protocol="UDP", port=53)]
    node.load(node.policy().allow("a", "world", ANY), services=sets[0])
    done = threading.Event()
    went: list[bytes | None] = []

    def send() -> None:
        port = 1024
        while not done.is_set():
            port = port + 1 if port < 60000 else 1024
            went.append(node.leaves("a", to_vip(udp(port, PORT))))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for turn in range(20):
            node.serve(sets[(turn + 1) % 2])
    finally:
        done.set()
        sender.join()
    assert len(went) > 100 and None not in went
    ends = {sent[30:34] for sent in went if sent}
    assert ends == {packed(host.ip4) for host in remote}


@pytest.mark.slow
def test_thousands_of_services_are_loaded_and_removed(node: NodeUnderTest) -> None:
    vips = [Host(VIP.mac, f"10.97.{i >> 8}.{i & 255}", f"fd97::{i:x}") for i in range(5000)]
    objects = [
        each
        for number, vip in enumerate(vips)
        for each in (service(f"s{number}", vip), *slices([B, C], f"s{number}"))
    ]
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY), services=objects)
    assert used(node) == (10_000, 20_000)
    for vip in vips[::500]:
        assert node.leaves("a", to_vip(tcp(4000, PORT, SYN), vip=vip))
    node.serve(objects[: 3 * 100])
    assert used(node) == (200, 400)


def test_the_commands_load_replace_and_show_services(
    node: NodeUnderTest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    node.node_addresses = ()
    bpffs = ["--bpffs", str(node.bpffs)]
    bundle, endpoints = str(node.bundle(node.policy())), str(node.endpoints())
    files = []
    for name, found in (("one", web(B)), ("two", web(B, C))):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [each.raw for each in found]})
        )
    assert policyc(["node", "services", str(files[0]), *bpffs]) == 3
    assert "no loaded bundle can use Services" in capsys.readouterr().err
    load = ["node", "load", bundle, "--endpoints", endpoints, "--services", str(files[0]), *bpffs]
    try:
        assert policyc(load) == 0
        capsys.readouterr()
        assert policyc(["node", "services", str(files[1]), *bpffs]) == 0
        assert "loaded 1 Service: 2 addresses and ports, 4 endpoints" in capsys.readouterr().err
        assert policyc(["node", "status", *bpffs]) == 0
        assert "pc_frontends" in capsys.readouterr().out
        external = web(B)
        external[0].raw["spec"]["externalIPs"] = ["8.8.8.8", "198.51.100.1"]
        files[0].write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [e.raw for e in external]})
        )
        for command in (["node", "services", str(files[0]), *bpffs], load):
            assert policyc([*command, "--external-cidr", ""]) == 0
            assert "warning: externalIPs of shop/web may be any address" in capsys.readouterr().err
            assert policyc([*command, "--external-cidr", "198.51.100.0/24"]) == 0
            said = capsys.readouterr().err
            assert "warning: shop/web: left out: 8.8.8.8 port 80/TCP: is outside of" in said
            assert policyc([*command, "--external-cidr", "8.8.8.8.8"]) == 2
            assert "--external-cidr: expected a range of addresses" in capsys.readouterr().err
        assert policyc(["node", "services", str(files[1]), str(files[1]), *bpffs]) == 2
        assert "is also" in capsys.readouterr().err
        assert policyc(["node", "services", *bpffs]) == 2
    finally:
        assert policyc(["node", "unload", *bpffs]) == 0
