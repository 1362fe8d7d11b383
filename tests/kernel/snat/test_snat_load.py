# SPDX-License-Identifier: Apache-2.0
"""`node load --masquerade`: ports that it reserves and releases, options that it refuses, its
status.
"""

import errno
import ipaddress
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from policyc.compiler.cli.main import run
from policyc.runtime import switch
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import sock_diag
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status_text import show
from policyc.runtime.services.tables import node_ports
from policyc.runtime.snat import reserved_ports
from policyc.runtime.snat.reserved_ports import RESERVED
from policyc.runtime.snat.snat import (
    DEFAULT_PORTS,
    Masquerade,
    read_options,
)
from tests.kernel.support.killed import die, killed
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import (
    Host,
    frame,
    udp,
)
from tests.kernel.support.service_yaml import (
    service,
    slices,
)
from tests.kernel.support.snat_frames import (
    answer,
    answered,
    ends,
    families,
    left,
    loaded,
    out,
    port_of,
    sent,
)
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
PORTS = range(50000, 50100)
OWN = Host(NODE.mac, "10.0.0.77", "fd00::77")


def reserved() -> str:
    return RESERVED.read_text().strip()


def reserve(text: str) -> None:
    RESERVED.write_text(f"{text}\n")


@pytest.mark.parametrize("before", ["", "8080", "22,49990-50009,60000"])
def test_a_load_reserves_its_ports_and_unload_releases_them(
    node: NodeUnderTest, before: str
) -> None:
    reserve(before)
    loaded(node, ports=PORTS)
    both = {"": "50000-50099", "8080": "8080,50000-50099",
            "22,49990-50009,60000": "22,49990-50099,60000"}  # fmt: skip
    assert reserved() == both[before]
    loaded(node, ports=PORTS)
    assert reserved() == both[before], "again is no more"
    loaded(node, ports=range(50020, 50030))
    now = {"": "50020-50029", "8080": "8080,50020-50029",
           "22,49990-50009,60000": "22,49990-50009,50020-50029,60000"}  # fmt: skip
    assert reserved() == now[before]
    node.load(node.policy(), uplinks=[UPLINK])
    assert reserved() == before
    loaded(node, ports=PORTS)
    assert node.unload()
    assert reserved() == before
    assert not node.state_root.exists()


def test_a_load_that_fails_reserves_nothing(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("it cannot be stored")

    reserve("8080")
    with monkeypatch.context() as patch:
        patch.setattr(switch, "store", fail)
        with pytest.raises(OSError, match="it cannot be stored"):
            loaded(node, ports=PORTS)
    assert reserved() == "8080" and not node.bpffs.exists() and not node.state_root.exists()
    loaded(node, ports=PORTS)
    with monkeypatch.context() as patch:
        patch.setattr(switch, "store", fail)
        with pytest.raises(OSError, match="it cannot be stored"):
            loaded(node, ports=range(51000, 51010), excepted=("192.0.2.0/24",))
    assert reserved() == "8080,50000-50099"
    assert port_of(out(node, udp(4000, 53), 4), 4) in PORTS
    with node.shared_map("pc_snat_except") as fd:
        assert not list(reserved_ports_keys(fd))


def reserved_ports_keys(fd: int) -> Iterator[bytes]:
    from policyc.runtime.kernel import bpf_syscall

    yield from bpf_syscall.map_keys(fd, 24)


def test_the_next_load_releases_the_ports_of_a_killed_load(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve("8080")

    def step() -> None:
        monkeypatch.setattr(switch, "store", die)
        loaded(node, ports=PORTS)

    killed(step)
    assert reserved() == "8080,50000-50099"
    node.n_bundles += 1
    node.load(node.policy(), uplinks=[UPLINK])
    assert reserved() == "8080"


@contextmanager
def listening(kind: int, address: str, port: int) -> Iterator[None]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as made:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        if kind == socket.SOCK_STREAM:
            made.listen()
        yield


@pytest.mark.parametrize(
    ("kind", "address", "port", "is_refused"),
    [
        (socket.SOCK_STREAM, "0.0.0.0", 50050, True),
        (socket.SOCK_STREAM, "10.0.0.1", 50050, True),
        (socket.SOCK_STREAM, "::", 50099, True),
        (socket.SOCK_STREAM, "127.0.0.1", 50050, False),
        (socket.SOCK_STREAM, "::1", 50050, False),
        (socket.SOCK_STREAM, "0.0.0.0", 50100, False),
        (socket.SOCK_DGRAM, "0.0.0.0", 50050, False),  # the kernel may have chosen it
        (socket.SOCK_DGRAM, "0.0.0.0", 61050, True),
        (socket.SOCK_DGRAM, "::", 61050, True),
        (socket.SOCK_DGRAM, "::1", 61050, False),
    ],
)
def test_a_range_with_a_port_where_the_node_listens_is_refused(
    node: NodeUnderTest, kind: int, address: str, port: int, is_refused: bool
) -> None:
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("32768 60999\n")
    Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").write_text("0")
    ip("addr", "add", f"{NODE.ip4}/32", "dev", "lo")
    ports = PORTS if port < 61000 else range(61000, 61100)
    with listening(kind, address, port):
        if not is_refused:
            loaded(node, ports=ports)
            return
        with pytest.raises(InputError, match=f"listens at (TCP|UDP) port {port}") as caught:
            loaded(node, ports=ports)
    assert f"`ss -lnp 'sport = :{port}'`" in caught.value.hint
    assert reserved() == "" and not node.bpffs.exists()


def test_a_port_where_the_node_listens_is_refused_where_the_kernel_lists_no_sockets(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(sock_diag, "listening", fail)
    with listening(socket.SOCK_STREAM, "::", 50099), pytest.raises(InputError, match="TCP"):
        loaded(node, ports=PORTS)


@families
def test_a_load_with_other_ports_ends_connections_by_the_previous_ports(
    node: NodeUnderTest, family: int
) -> None:
    """The connection starts again. Packets to the old port match no entry, or reach a socket."""
    loaded(node, ports=PORTS)
    old = port_of(out(node, udp(50007, 53), family), family)
    assert old == 50007
    loaded(node, ports=range(51000, 51010))
    new = port_of(out(node, udp(50007, 53), family), family)
    assert new in range(51000, 51010)
    assert port_of(out(node, udp(50007, 53), family), family) == new
    assert node.comes_in(answer(udp(53, old), family)) == answer(udp(53, old), family)
    assert node.comes_in(answer(udp(53, new), family)) == answered(udp(53, 50007), family)
    assert len(ends(node)) == 3, "the entry of the old port lasts until it expires"


@families
def test_a_load_with_another_address_ends_connections_under_the_previous_one(
    node: NodeUnderTest, family: int
) -> None:
    """The connection gets the same port under the new address."""
    loaded(node, ports=PORTS)
    assert out(node, udp(50007, 53), family) == left(udp(50007, 53), family)
    node.node_addresses = (OWN.ip4, OWN.ip6)
    loaded(node, ports=PORTS)
    new = frame(OWN, WORLD, udp(50007, 53), family=family)
    assert out(node, udp(50007, 53), family) == new
    assert node.comes_in(answer(udp(53, 50007), family)) == answer(udp(53, 50007), family)
    back = frame(WORLD, OWN, udp(53, 50007), family=family)
    assert node.comes_in(back) == answered(udp(53, 50007), family)


def test_no_port_is_tried_twice_for_a_connection(node: NodeUnderTest) -> None:
    """A search tries 32 of these 33 ports. So 32 connections find one, wherever each search starts."""
    size = 33
    loaded(node, ports=range(50000, 50000 + size))
    for to in range(80, 90):
        found = {
            port_of(node.goes_out(sent(udp(4000 + each, to), 4)), 4) for each in range(size - 1)
        }
        assert len(found) == size - 1
    assert node.drops() == {}


def node_port(number: int) -> list[object]:
    ports = [{"port": 80, "nodePort": number, "protocol": "TCP"}]
    return [service(type="NodePort", ports=ports), *slices([])]


def test_a_port_cannot_be_a_snat_port_and_a_node_port(node: NodeUnderTest) -> None:
    """The later one loses: the Service is left out, or the ports are refused."""
    wanted = Masquerade(PORTS)
    node.load(node.policy(), uplinks=[UPLINK], masquerade=wanted, services=node_port(50050))
    assert "node port 50050 is one of the SNAT ports" in node.warnings[-1]
    assert not node_ports(node.pins, PORTS)
    node.unload()
    node.load(node.policy(), uplinks=[UPLINK], services=node_port(50050))
    node.load(node.policy(), uplinks=[UPLINK], masquerade=Masquerade(range(50051, 50060)))
    with pytest.raises(InputError, match="50050 is the node port of a Service"):
        node.load(node.policy(), uplinks=[UPLINK], masquerade=wanted)
    assert reserved() == "50051-50059"
    node.serve(node_port(50055))
    assert "node port 50055" in node.warnings[-1]
    assert not node_ports(node.pins, PORTS)
    node.serve(node_port(50050))


@families
def test_a_change_of_services_does_not_affect_snat(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    went = out(node, udp(4000, 53), family)
    assert port_of(went, family) != 4000
    node.serve(node_port(30080))
    assert out(node, udp(4000, 53), family) == went
    assert len(ends(node)) == 2


def test_status_shows_the_snat_addresses_and_ports(node: NodeUnderTest) -> None:
    loaded(node, ports=PORTS, excepted=("10.0.0.0/8",))
    assert out(node, udp(4000, 53), 4)
    found = node.status()
    assert found and found.masquerade
    as_json = json.loads(json.dumps(found.to_json()))
    schema = json.loads((SCHEMAS / "node-status-v1.schema.json").read_text())
    Draft202012Validator(schema).validate(as_json)
    assert as_json["masquerade"] == {
        "first_port": 50000, "last_port": 50099, "excepted": ["10.0.0.0/8"],
        "addresses": {UPLINK: [NODE.ip4, NODE.ip6]},
    }  # fmt: skip
    assert {each.name: each.used for each in found.maps}["pc_snat_entries"] == 2
    console = Console(width=200, record=True)
    show(found, console)
    text = console.export_text()
    assert f"SNAT to {NODE.ip4} {NODE.ip6} ({UPLINK}), ports 50000-50099" in text
    assert "except to 10.0.0.0/8" in text
    node.load(node.policy(), uplinks=[UPLINK])
    found = node.status()
    assert found and found.masquerade is None


def test_packets_of_a_family_without_a_node_address_are_dropped(node: NodeUnderTest) -> None:
    """The load says that SNAT is off for the family."""
    node.node_addresses = (NODE.ip4,)
    loaded(node)
    assert any(f"SNAT is off for IPv6 at {UPLINK}" in each for each in node.notes)
    assert out(node, udp(4000, 53), 4)
    assert out(node, udp(4000, 53), 6) is None
    assert node.drops() == {"not masqueraded": 1}


@pytest.mark.parametrize("command", ["unload", "load"])
def test_ports_that_cannot_be_released_are_released_by_the_next_command(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The load succeeds nevertheless."""
    reserve("8080")
    loaded(node, ports=PORTS)

    def fail(_: object) -> None:
        raise HostError("it cannot be written", "no hint")

    with monkeypatch.context() as patch:
        patch.setattr(reserved_ports, "_write", fail)
        if command == "unload":
            assert node.unload()
            assert not node.bpffs.exists()
        else:
            node.load(node.policy(), uplinks=[UPLINK])
            assert len(node.pins.generations()) == 1, "the one before is swept away"
    assert any("stay reserved" in each for each in node.warnings)
    assert reserved() == "8080,50000-50099"
    node.load(node.policy(), uplinks=[UPLINK])
    assert reserved() == "8080"
    node.unload()
    assert not node.state_root.exists()


@pytest.mark.slow
def test_a_repeated_load_accepts_udp_sockets_at_its_ports(node: NodeUnderTest) -> None:
    """UDP sockets at ports outside of the kernel's range. The first load refuses them."""
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("32768 60999\n")
    ports = range(61000, 61100)
    loaded(node, ports=ports)
    with listening(socket.SOCK_DGRAM, "0.0.0.0", 61050):
        loaded(node, ports=ports)
    with listening(socket.SOCK_STREAM, "0.0.0.0", 61050), pytest.raises(InputError, match="TCP"):
        loaded(node, ports=ports)


def test_a_sysctl_that_cannot_be_written_is_reported(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = Path("/proc/sys/kernel/cap_last_cap")
    monkeypatch.setattr(reserved_ports, "RESERVED", read_only)
    with pytest.raises(HostError, match="cannot reserve the SNAT ports"):
        loaded(node, ports=PORTS)
    assert not node.bpffs.exists() and not node.state_root.exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((False, "50000-50100", (), ("eth0",)), "--masquerade-ports needs --masquerade"),
        ((False, None, ("10.0.0.0/8",), ("eth0",)), "--masquerade-except needs --masquerade"),
        ((True, None, (), ()), "needs the device"),
        ((True, "50000", (), ("eth0",)), "expected LOW-HIGH"),
        ((True, "60000-50000", (), ("eth0",)), "expected LOW-HIGH"),
        ((True, "80-50000", (), ("eth0",)), "expected LOW-HIGH"),
        ((True, "60000-65536", (), ("eth0",)), "expected LOW-HIGH"),
        ((True, None, ("10.0.0.1/8",), ("eth0",)), "10.0.0.1/8 has host bits set"),
        ((True, None, ("ten",), ("eth0",)), "--masquerade-except ten"),
    ],
)
def test_invalid_options_are_refused(arguments: tuple[object, ...], why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        read_options(*arguments)
    assert caught.value.hint and caught.value.exit_code == 2


def test_options_and_their_defaults() -> None:
    assert read_options(False, None, (), ()) is None
    found = read_options(True, None, ("10.0.0.0/8", "10.0.0.0/8", "fd00::/8"), ("eth0",))
    assert found and f"{found.ports[0]}-{found.ports[-1]}" == DEFAULT_PORTS
    assert [str(each) for each in found.excepted] == ["10.0.0.0/8", "fd00::/8"]
    found = read_options(True, "2000-2000", (), ("eth0",))
    assert found and list(found.ports) == [2000]


def test_the_command_line_passes_the_options_to_the_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def load(request: LoadRequest, **_: object) -> None:
        asked.append(request.masquerade)
        raise InputError("that is all")

    monkeypatch.setattr(runtime, "load", load)
    command = ["node", "load", "bundle", "--endpoints", "pods.json", "--uplink", "eth0"]
    assert run(command) == 2 and asked == [None]
    ours = [
        "--masquerade",
        "--masquerade-ports",
        "50000-50099",
        "--masquerade-except",
        "10.0.0.0/8",
    ]
    assert run([*command, *ours]) == 2
    assert asked[1] == Masquerade(PORTS, (ipaddress.ip_network("10.0.0.0/8"),))
    assert run([*command, *ours[1:]]) == 2 and len(asked) == 2
    assert "needs --masquerade" in capsys.readouterr().err
