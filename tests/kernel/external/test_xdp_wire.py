# SPDX-License-Identifier: Apache-2.0
"""XDP at a real node's uplink, on the wire: attached, replaced, detached, and beside other
programs.
"""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.runtime import switch
from policyc.runtime.attach import xdp
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from tests.kernel.support.arrival import is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    NODE_PORT,
    POLICY,
    TARGET,
    TCP,
    UDP,
    accepted,
    exchange,
    received,
    services,
)
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)
from tests.kernel_corpus.surroundings import own_bpffs

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, pytest.param(6, marks=pytest.mark.slow)])
both_ways = pytest.mark.parametrize(
    ("family", "return_path"),
    [
        (4, "tunnel"),
        (6, "dsr"),
        pytest.param(4, "dsr", marks=pytest.mark.slow),
        pytest.param(6, "tunnel", marks=pytest.mark.slow),
    ],
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """client1 alone may reach the pods."""
    return compiled(tmp_path_factory.mktemp("xdp"), POLICY)


@pytest.fixture
def lab(loads: None, tmp_path: Path) -> Iterator[TwoNodes]:
    """No checksum is left to a device: XDP would leave such packets to tc."""
    with ExitStack() as owned:
        made = TwoNodes(tmp_path, owned)
        made.check_no_paths("router")
        made.offload(tx=False, segments=False)
        yield made


def loaded(
    lab: TwoNodes,
    bundle: Path,
    return_path: ReturnPath = "tunnel",
    mode: xdp.Mode | None = "auto",
    outer: Sequence[int] = (4, 6),
) -> None:
    """The endpoint is on node b; `outer` are the families of the nodes' addresses."""
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), return_path, outer, xdp_mode=mode)


def sent_on(lab: TwoNodes) -> tuple[int, int]:
    """Requests and answers, by XDP of node a."""
    (found,) = lab.status("a").xdp
    assert found.interface == UPLINK
    return found.requests, found.answers


@pytest.mark.waits
@both_ways
def test_streams_arrive_whole(
    lab: TwoNodes, bundle: Path, family: int, return_path: ReturnPath
) -> None:
    loaded(lab, bundle, return_path)
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, seen = accepted(listening)
    assert seen == address("client1", family)
    with server:
        exchange(client, server, 300_000)
    requests, answers = sent_on(lab)
    assert requests > 100
    assert (answers > 100) == (return_path == "tunnel")
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.both_families
@pytest.mark.waits
@pytest.mark.parametrize("family", [4, 6])
def test_datagrams_cross_a_tunnel_of_either_family(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """Replies go directly, so this node never sees them. The nodes' family is the outer one."""
    loaded(lab, bundle, "dsr", outer=(family,))
    server, client = (
        lab.server("pod-b", family, UDP, TARGET),
        lab.open_socket("client1", family, UDP),
    )
    client.connect((address("a", family), NODE_PORT))
    more = before = 0
    for size in (1, 2, 501, 1200):
        data = os.urandom(size)
        client.send(data)
        found, peer = server.recvfrom(2000)
        assert found == data
        server.sendto(data, peer)
        assert client.recv(2000) == data
        requests, answers = sent_on(lab)
        assert answers == 0
        before, more = requests, requests - before
    assert more == 1
    assert lab.drops() == {} and lab.bad_checksums() == 0


@both_ways
def test_packets_with_offloaded_checksums_arrive_through_tc(
    lab: TwoNodes, bundle: Path, family: int, return_path: ReturnPath
) -> None:
    """A veth never completes checksums. Such packets pass to tc, and all arrive intact."""
    lab.offload(tx=True, segments=True)
    loaded(lab, bundle, return_path)
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, 100_000)
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.waits
@families
def test_a_sender_above_the_tunnels_mtu_gets_an_icmp_error(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The error comes from tc, as without XDP. Fragmented packets arrive."""
    loaded(lab, bundle)
    server, client = (
        lab.server("pod-b", family, UDP, TARGET),
        lab.open_socket("client1", family, UDP),
    )
    client.connect((address("a", family), NODE_PORT))
    for size in (100, 1440, 1440, 100):
        data = os.urandom(size)
        client.send(data)
        assert received(server, client, data)[0] == data
    assert lab.status("a").drops["too big"] > 0 and sent_on(lab)[0] > 0
    assert lab.bad_checksums() == 0


@families
def test_a_removed_endpoint_ends_its_connections(lab: TwoNodes, bundle: Path, family: int) -> None:
    loaded(lab, bundle)
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, 20_000)
        for node in ("a", "b"):
            lab.serve(node, services())
        before = sent_on(lab)
        client.send(b"more")
        assert is_silent(server)
        assert sent_on(lab) == before
    assert "backend gone" in lab.drops()["b"]


def running(lab: TwoNodes) -> dict[str, int]:
    """Device -> the id of our program, on node a."""
    return lab.at["a"].within(lambda: xdp.attached(Pins(lab.bpffs("a"))))


def link_id(lab: TwoNodes) -> int:
    (pin,) = Pins(lab.bpffs("a")).xdp.iterdir()
    with bpf_syscall.obj_get(pin) as fd:
        return bpf_syscall.link_info(fd).id


def modes(lab: TwoNodes) -> list[str]:
    return [each.mode for each in lab.status("a").xdp]


def talk(lab: TwoNodes, times: int = 3) -> None:
    """A connection of its own, with some datagrams each way."""
    server, client = lab.server("pod-b", 4, UDP, TARGET), lab.open_socket("client1", 4, UDP)
    client.connect((address("a", 4), NODE_PORT))
    for _ in range(times):
        client.send(b"question")
        _, peer = server.recvfrom(100)
        server.sendto(b"answer", peer)
        assert client.recv(100) == b"answer"
    server.close()
    client.close()


@pytest.mark.waits
def test_loads_replace_detach_and_reattach_the_xdp_program(lab: TwoNodes, bundle: Path) -> None:
    loaded(lab, bundle)
    talk(lab)
    before, program, link = sent_on(lab), running(lab)[UPLINK], link_id(lab)
    assert before[0] and modes(lab) == ["generic"], "a veth's other end may not take what is sent"
    loaded(lab, bundle)
    assert running(lab)[UPLINK] != program and link_id(lab) == link
    assert sent_on(lab) == before, "the counter continues"
    talk(lab)
    assert sent_on(lab)[0] > before[0]
    loaded(lab, bundle, mode="native")
    assert modes(lab) == ["native"]
    loaded(lab, bundle, mode=None)
    assert running(lab) == {} and lab.status("a").xdp == ()
    talk(lab)
    loaded(lab, bundle)
    assert sent_on(lab) == (0, 0)
    for node in ("a", "b"):
        lab.unload(node)
    shown = lab.at["a"].within(
        lambda: subprocess.run(["ip", "link", "show", UPLINK], capture_output=True, text=True)
    )
    assert "prog/xdp" not in shown.stdout and not Pins(lab.bpffs("a")).is_any()


GENERIC, NATIVE = 2, 4  # XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE


@contextmanager
def foreign(
    lab: TwoNodes, bundle: Path, folder: Path, devices: Mapping[str, str], flags: int
) -> Iterator[None]:
    """A foreign program at devices of some namespaces. (It is policyc's, with maps of its own.)"""
    with own_bpffs(folder), Object(bundle / "xdp.bpf.o", folder) as other, ExitStack() as held:
        other.load()
        program = other.program_fd(xdp.PROGRAM)
        for device, name in devices.items():
            held.enter_context(
                lab.at[name].within(
                    lambda at=device: bpf_syscall.link_create_xdp(
                        program, socket.if_nametoindex(at), flags
                    )
                )
            )
        yield


@pytest.mark.waits
def test_the_driver_runs_the_xdp_program(lab: TwoNodes, bundle: Path, tmp_path: Path) -> None:
    """A veth passes frames to its peer's XDP only if the peer runs a program too."""
    ends = {f"to-{node}": "router" for node in ("a", "b")}
    with foreign(lab, bundle, tmp_path / "foreign", ends, NATIVE):
        loaded(lab, bundle, mode="native")
        talk(lab, 20)
    requests, answers = sent_on(lab)
    assert requests > 10 and answers > 10
    assert lab.drops() == {} and lab.bad_checksums() == 0


def test_a_foreign_program_stays_and_the_load_fails(
    lab: TwoNodes, bundle: Path, tmp_path: Path
) -> None:
    loaded(lab, bundle, mode=None)
    before = lab.status("a")
    with foreign(lab, bundle, tmp_path / "foreign", {UPLINK: "a"}, GENERIC):
        for mode in ("auto", "native", "generic"):
            with pytest.raises(HostError, match="another XDP program is attached to up0"):
                loaded(lab, bundle, mode=mode)
            now = lab.status("a")
            assert (now.epoch, now.programs, now.xdp) == (before.epoch, before.programs, ())
            assert {each.name for each in Pins(lab.bpffs("a")).maps.iterdir()}.isdisjoint(
                {"pc_xdp_uplinks", "pc_xdp_count"}
            )
        talk(lab)
    loaded(lab, bundle)
    talk(lab)
    assert sent_on(lab)[0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["generic", "native"], ids=["the same way", "another way"])
def test_a_later_load_that_fails_keeps_the_attached_xdp_program(
    lab: TwoNodes, bundle: Path, mode: xdp.Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lab, bundle, mode="generic")
    program = running(lab)

    def fails(*_: object) -> None:
        raise HostError("the switch is stuck")

    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fails)
        with pytest.raises(HostError, match="the switch is stuck"):
            lab.load("a", bundle, services("pod-b"), xdp_mode=mode)
    assert running(lab) == program and modes(lab) == ["generic"]
    talk(lab)
    assert sent_on(lab)[0]


def test_a_first_load_that_fails_leaves_no_xdp_program(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise HostError("the switch is stuck")

    monkeypatch.setattr(switch, "store", fails)
    with pytest.raises(HostError, match="the switch is stuck"):
        lab.load("a", bundle, services("pod-b"), xdp_mode="generic")
    assert not Pins(lab.bpffs("a")).is_any()
    shown = lab.at["a"].within(
        lambda: subprocess.run(["ip", "link", "show", UPLINK], capture_output=True, text=True)
    )
    assert "prog/xdp" not in shown.stdout


def test_xdp_without_an_uplink_is_refused(lab: TwoNodes, bundle: Path, tmp_path: Path) -> None:
    lab.load("a", bundle, None)
    endpoints = tmp_path / "endpoints-a.json"
    command = ["node", "load", str(bundle), "--endpoints", str(endpoints), "--xdp"]
    assert run(command) == 2
    assert run([*command, "fast", "--uplink", UPLINK]) == 2


def test_a_note_says_that_xdp_has_no_effect_under_host_policy() -> None:
    notes: list[str] = []
    xdp.require_uplinks("auto", [UPLINK], True, notes.append)
    assert len(notes) == 1 and "under host policy" in notes[0]
    for mode, has_host_policy in ((None, True), ("auto", False)):
        xdp.require_uplinks(mode, [UPLINK], has_host_policy, notes.append)
    assert len(notes) == 1
