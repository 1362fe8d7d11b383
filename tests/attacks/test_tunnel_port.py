# SPDX-License-Identifier: Apache-2.0
"""A pod sends VXLAN to the tunnel port under its node's address, which only a node may do.

The inner packet claims to be from a client that policy allows. Each test ends with a packet that
node a itself forwards. It arrives, so a forged packet would have arrived as well.
"""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.tunnel import PORT as TUNNEL_PORT
from policyc.runtime.snat.snat import Masquerade
from tests.attacks.tunnel_port import (
    masqueraded_by_nft,
)
from tests.eventually import eventually
from tests.kernel.support.arrival import arrived, arrived_from
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    NODE_PORT,
    POLICY,
    PORT,
    REQUESTS,
    services,
)
from tests.kernel.support.node_under_test import (
    A,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.service_yaml import (
    service,
    slices,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.two_nodes import (
    BESIDE,
    EXTERNAL,
    PODS,
    UPLINK,
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
outers = pytest.mark.parametrize("outer", [4, 6])
UNLISTED = {4: "198.51.2.9", 6: "2001:db8:2::9"}
"""Addresses of node b that no endpoints file names."""
LIE, TRUTH = 4000, 4001
"""The inner source port of a pod's packet, and of a node's."""
SERVICE = Host("02:00:00:00:00:ff", "10.96.0.77", "fd96::77")
DSTOPTS_OPTION, DSTOPTS = 59, bytes((0, 0, 1, 4, 0, 0, 0, 0))  # IPV6_DSTOPTS: one of padding


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """client1 alone may reach the pods."""
    return compiled(tmp_path_factory.mktemp("tunnel-port"), POLICY)


class WithStranger(TwoNodes):
    """Beside pod-a is a pod that no load knows."""

    pods = PODS | BESIDE

    def _endpoints(self, node: str, families: Sequence[int]) -> dict[str, object]:
        found = super()._endpoints(node, families)
        listed = found["endpoints"]
        assert isinstance(listed, list)
        return found | {"endpoints": [each for each in listed if each["name"] not in BESIDE]}


@pytest.fixture
def lab_with_stranger(loads: None, tmp_path: Path) -> Iterator[WithStranger]:
    with ExitStack() as owned:
        made = WithStranger(tmp_path, owned)
        yield made
        for node in made.loaded:
            made.unload(node)


def loaded(
    lab: TwoNodes, bundle: Path, *more: JsonValue, masquerade: Masquerade | None = None
) -> None:
    lab.load("a", bundle, [*services("pod-b"), *more], masquerade=masquerade)
    lab.load("b", bundle, services("pod-b"))


def with_unlisted(lab: TwoNodes) -> None:
    for family, size in ((4, 24), (6, 64)):
        lab.at["b"].network.add_address(UPLINK, f"{UNLISTED[family]}/{size}")


def inner_of(kind: str, family: int, sport: int, size: int = 0) -> bytes:
    """A packet of client1, which policy allows, to the Service with the endpoint pod-b."""
    client, to_a = (
        Host("02:00:00:00:00:02", address(name, 4), address(name, 6)) for name in ("client1", "a")
    )
    to = Host(to_a.mac, EXTERNAL[4], EXTERNAL[6]) if kind == "external ip" else to_a
    port = PORT if kind == "external ip" else NODE_PORT
    payload = tcp(sport, port, SYN) if kind == "SYN" else udp(sport, port, b"x" * size or b"lie")
    return frame(client, to, payload, family=family)


def say(lab: TwoNodes, who: str, to: tuple[str, int], inner: bytes, options: bytes = b"") -> None:
    """Sends as a forwarding node does, by a socket."""
    made = lab.open_socket(who, 6 if ":" in to[0] else 4, socket.SOCK_DGRAM)
    if options:
        made.setsockopt(socket.IPPROTO_IPV6, DSTOPTS_OPTION, options)
    made.sendto(b"\x08\0\0\0" + REQUESTS + b"\0" + inner, to)


def is_of(data: bytes, family: int, sport: int) -> bool:
    """A frame from client1 with that source port."""
    source = socket.inet_pton(
        socket.AF_INET if family == 4 else socket.AF_INET6, address("client1", family)
    )
    at, ports = (26, 34) if family == 4 else (22, 54)
    return data[at : at + len(source)] == source and data[ports : ports + 2] == sport.to_bytes(2)


class Victim:
    """What has come to pod-b from the forged client."""

    def __init__(self, lab: TwoNodes, family: int) -> None:
        self._lab, self._family = lab, family
        self._wire = lab.capture("pod-b", "eth0")
        self._frames: list[bytes] = []

    def has(self, sport: int) -> bool:
        while True:
            try:
                self._frames.append(self._wire.recv(1 << 16))
            except BlockingIOError:
                return any(is_of(each, self._family, sport) for each in self._frames)

    def require_only_truth(self, kind: str, to: str) -> None:
        """Node a's own packet arrives, and none of a pod's has."""
        say(self._lab, "a", (to, TUNNEL_PORT), inner_of(kind, self._family, TRUTH))
        eventually(lambda: self.has(TRUTH), "the node's own packet arrives")
        assert not self.has(LIE), "the pod's packet was believed"


def dropped(lab: TwoNodes, node: str = "a") -> int:
    drops: Mapping[str, int] = lab.status(node).drops
    return drops.get("tunnel port", 0)


kinds = pytest.mark.parametrize("kind", ["external ip", "node port", "SYN"])


@families
@outers
@kinds
def test_vxlan_from_a_pod_behind_the_hosts_snat_is_dropped(
    lab: TwoNodes, bundle: Path, family: int, outer: int, kind: str
) -> None:
    loaded(lab, bundle)
    masqueraded_by_nft(lab)
    victim = Victim(lab, family)
    say(lab, "pod-a", (address("b", outer), TUNNEL_PORT), inner_of(kind, family, LIE))
    victim.require_only_truth(kind, address("b", outer))
    assert dropped(lab) == 1


@families
@outers
@kinds
def test_vxlan_from_a_pod_behind_snat_is_dropped(
    lab: TwoNodes, bundle: Path, family: int, outer: int, kind: str
) -> None:
    with_unlisted(lab)
    loaded(lab, bundle, masquerade=Masquerade(range(50000, 60001)))
    victim = Victim(lab, family)
    say(lab, "pod-a", (UNLISTED[outer], TUNNEL_PORT), inner_of(kind, family, LIE))
    victim.require_only_truth(kind, UNLISTED[outer])
    assert dropped(lab) == 1


@outers
def test_vxlan_from_a_pod_through_a_service_is_dropped(
    lab: TwoNodes, bundle: Path, outer: int
) -> None:
    end = Host("02:00:00:00:00:02", UNLISTED[4], UNLISTED[6])
    with_unlisted(lab)
    trap = [service("trap", SERVICE, "UDP", 53), *slices([end], "trap", "UDP", TUNNEL_PORT)]
    loaded(lab, bundle, *trap)
    masqueraded_by_nft(lab)
    victim = Victim(lab, outer)
    for _ in range(2):
        say(lab, "pod-a", (SERVICE.address(outer), 53), inner_of("node port", outer, LIE))
    victim.require_only_truth("node port", UNLISTED[outer])
    assert dropped(lab) == 2


@outers
def test_vxlan_from_a_pod_in_fragments_is_dropped(lab: TwoNodes, bundle: Path, outer: int) -> None:
    """Later fragments follow their first one, which is dropped."""
    loaded(lab, bundle)
    masqueraded_by_nft(lab)
    victim = Victim(lab, outer)
    inner = inner_of("node port", outer, LIE, size=1440)
    say(lab, "pod-a", (address("b", outer), TUNNEL_PORT), inner)
    victim.require_only_truth("node port", address("b", outer))
    drops = lab.status("a").drops
    assert drops["tunnel port"] == drops["fragment"] == 1


def test_vxlan_from_a_pod_behind_extension_headers_is_dropped(lab: TwoNodes, bundle: Path) -> None:
    loaded(lab, bundle)
    masqueraded_by_nft(lab)
    victim = Victim(lab, 6)
    to = address("b", 6), TUNNEL_PORT
    say(lab, "pod-a", to, inner_of("node port", 6, LIE), options=DSTOPTS)
    victim.require_only_truth("node port", address("b", 6))
    assert dropped(lab) == 1


@outers
def test_vxlan_from_a_pod_as_a_reply_is_dropped(lab: TwoNodes, bundle: Path, outer: int) -> None:
    """An external host opens the flow from the tunnel port, so the pod's reply goes to that port."""
    loaded(lab, bundle)
    server = lab.server("pod-a", outer, socket.SOCK_DGRAM, 9000)
    client = lab.server("client1", outer, socket.SOCK_DGRAM, TUNNEL_PORT)
    client.sendto(b"opens", (address("pod-a", outer), 9000))
    data, peer = arrived_from(server)
    assert data == b"opens"
    server.sendto(b"answer", peer)
    eventually(lambda: dropped(lab) == 1, "the answer is dropped")


@outers
def test_the_pods_hook_drops_vxlan_on_a_node_without_uplinks(
    node: NodeUnderTest, outer: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY).allow("c", "a", ANY))
    assert not node.sent_by("a", frame(A, C, udp(4000, TUNNEL_PORT), family=outer))
    assert node.sent_by("a", frame(A, C, udp(4000, TUNNEL_PORT + 1), family=outer))
    assert node.drops() == {"tunnel port": 1}


@outers
def test_vxlan_from_a_pod_without_hooks_is_dropped(
    lab_with_stranger: WithStranger, bundle: Path, outer: int
) -> None:
    """The pod's device has no hook. The uplink drops the forwarded packet."""
    lab = lab_with_stranger
    loaded(lab, bundle)
    masqueraded_by_nft(lab)
    victim = Victim(lab, outer)
    to = address("b", outer)
    say(lab, "pod-c", (to, TUNNEL_PORT), inner_of("node port", outer, LIE))
    victim.require_only_truth("node port", to)
    assert dropped(lab) == 1


@families
def test_other_ports_of_other_nodes_stay_open(lab: TwoNodes, bundle: Path, family: int) -> None:
    loaded(lab, bundle)
    served = lab.server("b", family, socket.SOCK_DGRAM, TUNNEL_PORT + 1)
    pod = lab.open_socket("pod-a", family, socket.SOCK_DGRAM)
    pod.sendto(b"hello", (address("b", family), TUNNEL_PORT + 1))
    assert arrived(served) == b"hello"
    listening = lab.server("b", family, socket.SOCK_STREAM, TUNNEL_PORT)
    assert lab.connect("pod-a", family, address("b", family), TUNNEL_PORT), "TCP is no tunnel"
    listening.close()
    assert dropped(lab) == 0
