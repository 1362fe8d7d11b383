# SPDX-License-Identifier: Apache-2.0
"""Which of several Services has an address, protocol and port: the same in whatever order they come."""

import ipaddress
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices import listening
from policyc.runtime.devices.listening import Sockets
from policyc.runtime.errors import InputError
from policyc.runtime.services.all_objects import read_services
from policyc.runtime.services.claims import external_ranges
from policyc.runtime.services.services import OwnNode
from policyc.runtime.services.watched_objects import WatchedServices

NODE_ADDRESS, POD = ipaddress.ip_address("192.0.2.7"), ipaddress.ip_address("10.0.0.5")
NODE = OwnNode("node-1", (NODE_ADDRESS,), pods=frozenset({POD}))


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests say which sockets the node has."""
    wait_at(monkeypatch)


def wait_at(patched: pytest.MonkeyPatch, *found: tuple[str, int, str]) -> None:
    there = frozenset((protocol, port, ipaddress.ip_address(at)) for protocol, port, at in found)
    patched.setattr(listening, "sockets", lambda: Sockets(there))
    patched.setattr(listening, "addresses", frozenset)


def service(
    name: str, cluster: str, day: int = 1, port: int = 80, protocol: str = "TCP", **spec: Any
) -> dict[str, Any]:
    """Made on a day of January; 0: no timestamp."""
    made = {"creationTimestamp": f"2026-01-{day:02}T00:00:00Z"} if day else {}
    ports = [{"port": port, "protocol": protocol}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "shop", "name": name} | made,
        "spec": {"clusterIPs": [cluster], "ports": ports} | spec,
    }


def balancer(address: str) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [{"ip": address}]}}


Site = tuple[str, str, int]


def owners(
    objects: Sequence[dict[str, Any]], external: tuple[str, ...] = ()
) -> tuple[dict[Site, str], list[str]]:
    """Which Service has each site, and the warnings; read at once."""
    said: list[str] = []
    values = [JsonValue(each, Path("services.json")) for each in objects]
    found = read_services(values, NODE, external_ranges(external) or (), warn=said.append)
    return {(str(f.address), f.protocol, f.port): f.service[5:] for f in found}, said


def of_world(world: WatchedServices) -> dict[Site, str]:
    return {
        (str(at), proto, port): f.service[5:] for (at, proto, port), f in world.frontends.items()
    }


CLASHES = {
    "its own clusterIP": (
        [service("old", "10.96.0.1", 1, externalIPs=["10.96.0.2"]), service("new", "10.96.0.2", 9)],
        {("10.96.0.1", "TCP", 80): "old", ("10.96.0.2", "TCP", 80): "new"},
    ),
    "the older one": (
        [
            service("young", "10.96.0.1", 5, externalIPs=["198.51.100.1"]),
            service("old", "10.96.0.2", 3, externalIPs=["198.51.100.1"]),
            service("undated", "10.96.0.3", 0, externalIPs=["198.51.100.1"]),
        ],
        {
            ("10.96.0.1", "TCP", 80): "young",
            ("10.96.0.2", "TCP", 80): "old",
            ("10.96.0.3", "TCP", 80): "undated",
            ("198.51.100.1", "TCP", 80): "old",
        },
    ),
    "the first by name": (
        [
            service("b", "10.96.0.1", externalIPs=["198.51.100.1"]),
            service("a", "10.96.0.2", externalIPs=["198.51.100.1"]),
        ],
        {
            ("10.96.0.1", "TCP", 80): "b",
            ("10.96.0.2", "TCP", 80): "a",
            ("198.51.100.1", "TCP", 80): "a",
        },
    ),
    "by protocol and port": (
        [
            service("tcp", "10.96.0.1", externalIPs=["198.51.100.1"]),
            service("udp", "10.96.0.2", protocol="UDP", externalIPs=["198.51.100.1"]),
            service("other", "10.96.0.3", port=81, externalIPs=["198.51.100.1"]),
        ],
        {
            ("10.96.0.1", "TCP", 80): "tcp",
            ("10.96.0.2", "UDP", 80): "udp",
            ("10.96.0.3", "TCP", 81): "other",
            ("198.51.100.1", "TCP", 80): "tcp",
            ("198.51.100.1", "UDP", 80): "udp",
            ("198.51.100.1", "TCP", 81): "other",
        },
    ),
    "a node port": (
        [
            service("old", "10.96.0.1", 1, port=30080, externalIPs=["192.0.2.7"]),
            service(
                *("new", "10.96.0.2", 9),
                type="NodePort",
                ports=[{"port": 80, "nodePort": 30080}],
            ),
        ],
        {
            ("10.96.0.1", "TCP", 30080): "old",
            ("10.96.0.2", "TCP", 80): "new",
            ("192.0.2.7", "TCP", 30080): "new",
        },
    ),
    "a pod's address": (
        [service("web", "10.96.0.1", externalIPs=[str(POD), "198.51.100.1"])],
        {("10.96.0.1", "TCP", 80): "web", ("198.51.100.1", "TCP", 80): "web"},
    ),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_the_outcome_does_not_depend_on_the_order_of_a_list(clash: str) -> None:
    objects, expected = CLASHES[clash]
    dice = random.Random(1)
    told = set()
    for _ in range(12):
        found, said = owners(dice.sample(objects, len(objects)), ("0.0.0.0/0",))
        assert found == expected
        told.add(tuple(said))
    assert len(told) == 1, "the warnings are the same, too"


@pytest.mark.parametrize("seed", range(20))
def test_the_outcome_does_not_depend_on_the_order_of_events(seed: int) -> None:
    """Services of all clashes come, change and go; afterwards all is as if read at once."""
    dice = random.Random(seed)
    everything = [
        service(f"s{n}", f"10.96.0.{n}", dice.randrange(4), port=dice.choice([80, 81]),
                protocol=dice.choice(["TCP", "UDP"]),
                externalIPs=dice.sample([f"10.96.0.{m}" for m in range(8)] + [str(POD)], 3))
        for n in range(8)
    ]  # fmt: skip
    world = WatchedServices(NODE)
    there: dict[str, dict[str, Any]] = {}
    for _ in range(60):
        each = dice.choice(everything)
        name = each["metadata"]["name"]
        kind = dice.choice(["ADDED", "DELETED"])
        there.pop(name, None)
        if kind == "ADDED":
            there[name] = each
        world.take(JsonValue({"type": kind, "object": each}, Path("watch")))
        if dice.random() < 0.5:
            world.changes()
            assert of_world(world) == owners(list(there.values()))[0]


def test_the_other_service_gets_the_address_when_its_holder_is_removed() -> None:
    said: list[str] = []
    world = WatchedServices(NODE, said.append, external_ranges(["0.0.0.0/0"]) or ())
    old = service("old", "10.96.0.1", 1, externalIPs=["198.51.100.1"])
    new = service("new", "10.96.0.2", 2, externalIPs=["198.51.100.1"])
    site = ("198.51.100.1", "TCP", 80)
    for kind, each, owner in (
        ("ADDED", new, "new"),
        ("ADDED", old, "old"),
        ("DELETED", old, "new"),
        ("ADDED", old, "old"),
        ("DELETED", new, "old"),
    ):
        world.take(JsonValue({"type": kind, "object": each}, Path("watch")))
        changes = world.changes()
        assert of_world(world)[site] == owner
        assert all(before != after for before, after in changes.values())
    loss = (
        "shop/new: left out: 198.51.100.1 port 80/TCP: taken by the Service shop/old, "
        "which is older"
    )
    assert said == [loss, loss], "each time that it loses the address"


def test_a_socket_of_the_node_keeps_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [
        service("api", "10.96.0.1", port=6443, externalIPs=["192.0.2.7"]),
        service("dns", "10.96.0.2", port=6443, protocol="UDP", externalIPs=["192.0.2.7"]),
        service("lb", "10.96.0.3", port=443) | {"status": balancer("192.0.2.7")},
        service("np", "10.96.0.4", type="NodePort", ports=[{"port": 80, "nodePort": 10250}]),
    ]
    for at in ("0.0.0.0", "::", "192.0.2.7"):
        wait_at(monkeypatch, ("TCP", 6443, at), ("TCP", 10250, at), ("TCP", 443, "192.0.2.8"))
        found, said = owners(there, ("0.0.0.0/0",))
        assert {key: name for key, name in found.items() if key[0] == "192.0.2.7"} == {
            ("192.0.2.7", "UDP", 6443): "dns",
            ("192.0.2.7", "TCP", 443): "lb",
        }
        assert said == [
            "shop/api: left out: 192.0.2.7 port 6443/TCP: is bound by a socket of the node",
            "shop/np: left out: 192.0.2.7 port 10250/TCP: is bound by a socket of the node",
        ]


def test_external_addresses_are_limited_to_the_ranges_given() -> None:
    there = [
        service("web", "10.96.0.1", externalIPs=["8.8.8.8", "198.51.100.1"])
        | {"status": balancer("203.0.113.1")}
    ]
    found, said = owners(there, ("198.51.100.0/24", "2001:db8::/32"))
    assert {key[0] for key in found} == {"10.96.0.1", "198.51.100.1", "203.0.113.1"}
    assert said == ["shop/web: left out: 8.8.8.8 port 80/TCP: is outside of --external-cidr"]


def test_external_addresses_without_ranges_are_warned_of_once() -> None:
    said: list[str] = []
    world = WatchedServices(NODE, said.append)
    for n in (1, 2):
        each = service(f"s{n}", f"10.96.0.{n}", externalIPs=[f"198.51.100.{n}"])
        world.take(JsonValue({"type": "ADDED", "object": each}, Path("watch")))
        world.changes()
    assert len(said) == 1 and "CVE-2020-8554" in said[0] and "shop/s1" in said[0]
    assert "--external-cidr" in said[0]


def test_an_invalid_range_is_refused() -> None:
    with pytest.raises(InputError, match="--external-cidr: expected a range"):
        external_ranges(["198.51.100.1/24"])


@pytest.mark.parametrize("time", ["yesterday", "2026-01-01T00:00:00+01:00", 5])
def test_a_time_of_another_form_is_refused(time: object) -> None:
    wrong = service("web", "10.96.0.1")
    wrong["metadata"]["creationTimestamp"] = time
    with pytest.raises(InputError, match=r"\$\.metadata\.creationTimestamp"):
        owners([wrong])


def test_sockets_as_the_kernel_lists_them(tmp_path: Path) -> None:
    """Lines of Linux 6.12, on a little-endian machine, shortened behind the state."""
    tcp = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 00000000:07E8 00000000:0000 0A 00000000:00000000\n"
        "   1: 0700000A:1F90 00000000:0000 0A 00000000:00000000\n"
        "   2: 020200C0:07E8 010200C0:A35A 01 00000000:00000000\n"
    )
    tcp6 = (
        "  sl  local_address                         remote_address\n"
        "   0: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0\n"
        "   1: 0000000000000000FFFF00000700000A:0051 00000000000000000000000000000000:0000 0A 0\n"
    )
    udp = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "  70: 0700000A:0035 00000000:0000 07 00000000:00000000\n"
        "  71: 0700000A:9C40 01010101:0035 01 00000000:00000000\n"
    )
    sctp = (
        " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS\n"
        "0000000012345678 0000000087654321 0   10  29   132      0 12345 10.0.0.7 2001:db8::1\n"
    )
    (tmp_path / "sctp").mkdir()
    for name, text in (("tcp", tcp), ("tcp6", tcp6), ("udp", udp), ("sctp/eps", sctp)):
        (tmp_path / name).write_text(text)
    found = {(protocol, port, str(at)) for protocol, port, at in listening._sockets(tmp_path)}
    assert found == {
        ("TCP", 2024, "0.0.0.0"),
        ("TCP", 8080, "10.0.0.7"),
        ("TCP", 80, "2001:db8::1"),
        ("TCP", 81, "10.0.0.7"),
        ("UDP", 53, "10.0.0.7"),
        ("SCTP", 132, "10.0.0.7"),
        ("SCTP", 132, "2001:db8::1"),
    }


def test_limits_keep_the_oldest_whatever_the_order() -> None:
    """A namespace has room for 16384 addresses and ports, an object for 4096."""
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(100)]
    everything = []
    for n in range(6):
        each = service(f"s{n}", f"10.96.0.{n}", 9 - n, ports=ports)
        each["spec"]["externalIPs"] = [f"198.51.{n}.{i}" for i in range(26 + n)]
        everything.append(each)
    dice = random.Random(1)
    expected = owners(everything, ("0.0.0.0/0",))
    assert set(expected[0].values()) == {f"s{n}" for n in range(1, 6)}
    assert len(expected[1]) == 1 and expected[1][0].startswith(
        "shop/s0: left out: the limit of the namespace"
    )
    for _ in range(1):
        assert owners(dice.sample(everything, 6), ("0.0.0.0/0",)) == expected
        world = WatchedServices(NODE, external=external_ranges(["0.0.0.0/0"]) or ())
        for each in dice.sample(everything, 6):
            world.take(JsonValue({"type": "ADDED", "object": each}, Path("watch")))
            world.changes()
        assert of_world(world) == expected[0]
        assert world.left_out == {"over_limits": 2700}
        world.take(JsonValue({"type": "DELETED", "object": everything[1]}, Path("watch")))
        world.changes()
        assert "s0" in of_world(world).values() and world.left_out == {}
