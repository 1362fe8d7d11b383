# SPDX-License-Identifier: Apache-2.0
"""First packets between a pod and other nodes or external hosts do not take the stack."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from policyc.runtime.attach.attach import Mode
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.fast_path import TARGET, UDP, Connections, ipsec_policy
from tests.kernel.support.netfilter_hooks import FEWEST
from tests.kernel.support.packets import Host, frame, mac_bytes, udp
from tests.kernel.support.service_yaml import PORT, VIP, web
from tests.kernel.support.two_nodes import NODES, UPLINK, TwoNodes, address, gateway_of

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
OPEN = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{}]
  egress: [{}]
"""
DROPPING = """\
table inet first {
  chain c {
    type filter hook forward priority 0; policy drop
  }
}
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that allows pods every connection, in both directions."""
    return compiled(tmp_path_factory.mktemp("opened"), OPEN)


def are_seen(found: dict[str, int], due: dict[str, int]) -> bool:
    """Whether each stack saw so many packets; more where a security module has hooks in netfilter."""
    return all(found[node] >= n if FEWEST else found[node] == n for node, n in due.items())


@families
@pytest.mark.both_families
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_of_a_connection_between_nodes_the_stack_sees_the_first_packet_at_its_receiver(
    lab: TwoNodes, opened: Path, mode: Mode, family: int
) -> None:
    for node in NODES:
        lab.load(node, opened, None, mode=mode)
    talk = Connections(lab, family, "pod-a", "pod-b")
    talk.once()  # neighbours are known
    assert are_seen(talk.routed(), {"a": 0, "b": 1})
    assert lab.drops() == {}


@families
@pytest.mark.parametrize(
    ("client", "server", "routed"),
    [("pod-a", "client1", {"a": 0, "b": 0}), ("client1", "pod-b", {"a": 0, "b": 1})],
)
def test_connections_with_hosts_outside_the_cluster_are_like_those_between_nodes(
    lab: TwoNodes, opened: Path, client: str, server: str, routed: dict[str, int], family: int
) -> None:
    for node in NODES:
        lab.load(node, opened, None)
    talk = Connections(lab, family, client, server)
    talk.once()
    assert are_seen(talk.routed(), routed)


@families
@pytest.mark.both_families
def test_a_connection_through_a_service_bypasses_the_stack_of_its_client(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    endpoint = Host(lab.mac("pod-b"), address("pod-b", 4), address("pod-b", 6))
    for node in NODES:
        lab.load(node, opened, web(endpoint))
    talk = Connections(lab, family, "pod-a", "pod-b", VIP.address(family), PORT)
    talk.once()
    assert are_seen(talk.routed(), {"a": 0, "b": 1})
    assert lab.drops() == {}


@families
def test_datagrams_and_their_answers_bypass_the_stack(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    for node in NODES:
        lab.load(node, opened, None)
    Connections(lab, family, "pod-a", "pod-b").once()
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("pod-a", family, UDP)
    before = {node: lab.routed(node, family) for node in NODES}
    client.sendto(b"question", (address("pod-b", family), TARGET))
    question, peer = server.recvfrom(16)
    server.sendto(b"answer", peer)
    assert (question, client.recv(16)) == (b"question", b"answer")
    after = {node: lab.routed(node, family) - before[node] for node in NODES}
    assert are_seen(after, {"a": 0, "b": 1})


@contextmanager
def chain(lab: TwoNodes, node: str, hook: str) -> Iterator[None]:
    text = f"table inet first {{\nchain c {{\ntype filter hook {hook} priority 0\n}}\n}}\n"
    lab.run(node, "nft", "-f", "-", text=text)
    try:
        yield
    finally:
        lab.run(node, "nft", "delete", "table", "inet", "first")


STACK: dict[str, Callable[[TwoNodes, str], AbstractContextManager[None]]] = {
    "a chain in prerouting": partial(chain, hook="prerouting"),
    "a chain in forward": partial(chain, hook="forward"),
    "a chain in postrouting": partial(chain, hook="postrouting"),
    "an IPsec policy": lambda lab, node: ipsec_policy(partial(lab.run, node, "ip")),
}


@families
@pytest.mark.parametrize("why", STACK)
def test_the_stack_of_each_node_sees_first_packets_that_it_may_change_or_drop(
    lab: TwoNodes, opened: Path, why: str, family: int
) -> None:
    for node in NODES:
        lab.load(node, opened, None)
    talk = Connections(lab, family, "pod-a", "pod-b")
    talk.once()
    with STACK[why](lab, "a"):
        found = talk.routed()
    assert found["a"] >= 2, "the SYN and its answer"
    assert are_seen(found, {"b": 1})
    with STACK[why](lab, "b"):
        found = talk.routed()
    assert found["b"] >= 3, "also the first packet after the answer"
    assert are_seen(found, {"a": 0})
    assert are_seen(talk.routed(), {"a": 0, "b": 1})


@families
@pytest.mark.both_families
def test_a_firewall_of_the_node_drops_first_packets(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    """It comes after the load."""
    lab.load("a", opened, None)
    Connections(lab, family, "pod-a", "client1").once()
    lab.run("a", "nft", "-f", "-", text=DROPPING)
    assert not lab.connect("pod-a", family, address("client1", family), TARGET, SILENCE)


@families
@pytest.mark.both_families
def test_the_pods_address_leaves_the_node_translated(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None, masquerade=Masquerade(range(50000, 50100)))
    talk = Connections(lab, family, "pod-a", "client1")
    talk.once()
    assert talk.peer == address("a", family)
    lab.load("b", opened, None)
    between = Connections(lab, family, "pod-a", "pod-b")
    between.once()
    assert are_seen(between.routed(), {"a": 0, "b": 1}), "no translation between pods"
    assert between.peer == address("pod-a", family)


@families
@pytest.mark.parametrize(
    ("node", "client", "server"), [("a", "pod-a", "client1"), ("b", "client1", "pod-b")]
)
def test_the_kernel_confirms_the_neighbour_that_first_packets_and_answers_are_sent_to(
    lab: TwoNodes, opened: Path, node: str, client: str, server: str, family: int
) -> None:
    """A short connection may have no packet that would ask for it later."""
    lab.load(node, opened, None)
    talk = Connections(lab, family, client, server)
    talk.once()
    gateway = gateway_of(node, family)
    lab.run(node, "ip", "neigh", "change", gateway, "dev", UPLINK, "nud", "stale")
    assert are_seen(talk.routed(), {node: int(client == "client1")})
    shown = lab.at[node].within(
        lambda: subprocess.run(
            ["ip", "neigh", "show", gateway, "dev", UPLINK],
            capture_output=True,
            text=True,
            check=True,
        )
    )
    assert "STALE" not in shown.stdout and "lladdr" in shown.stdout, "DELAY, and then it asks"


def unreachable_pod(lab: TwoNodes, family: int) -> None:
    """From the uplink no route leads to the pod, and the stack would drop the answer."""
    lab.run("a", "ip", f"-{family}", "rule", "add", "iif", UPLINK, "lookup", "77", "priority", "5")
    lab.run("a", "ip", f"-{family}", "route", "add", "unreachable", "default", "table", "77")


def no_route(lab: TwoNodes, family: int) -> None:
    size = 32 if family == 4 else 128
    to = f"{address('client1', family)}/{size}"
    lab.run("a", "ip", f"-{family}", "route", "add", "unreachable", to)


def other_mac(lab: TwoNodes, family: int, pod: str = "pod-a") -> None:
    """The stack would send what is for the pod to another MAC."""
    to, by = address(pod, family), ("lladdr", "02:00:00:00:0f:0f", "dev", lab.device(pod))
    lab.run(lab.pods[pod], "ip", "neigh", "replace", to, *by, "nud", "permanent")


@families
@pytest.mark.parametrize("routes", [unreachable_pod, no_route, other_mac])
def test_routes_of_the_node_hold_for_first_packets_and_their_answers(
    lab: TwoNodes, opened: Path, routes: Callable[[TwoNodes, int], None], family: int
) -> None:
    lab.load("a", opened, None)
    Connections(lab, family, "pod-a", "client1").once()
    routes(lab, family)
    with suppress(OSError):  # an ICMP error
        to = address("client1", family)
        assert not lab.connect("pod-a", family, to, TARGET, SILENCE)


@families
def test_a_pod_gets_no_datagrams_that_the_stack_sends_to_another_mac(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("b", opened, None)
    other_mac(lab, family, "pod-b")
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("client1", family, UDP)
    for _ in range(3):
        client.sendto(b"question", (address("pod-b", family), TARGET))
    assert is_silent(server)


@families
@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_other_software_at_an_uplink_sees_the_first_packets_that_come_in(
    lab: TwoNodes, opened: Path, tmp_path: Path, direction: str, family: int
) -> None:
    """What leaves passes its programs in any case."""
    lab.load("a", opened, None)
    talk = Connections(lab, family, "pod-a", "client1")
    talk.once()
    lab.run("a", "tc", "qdisc", "add", "dev", UPLINK, "clsact")
    matching = ("protocol", "all", "prio", "7", "u32", "match", "u32", "0", "0", "classid", "1:1")
    lab.run("a", "tc", "filter", "add", "dev", UPLINK, direction, *matching)
    lab.load("a", opened, None)
    found = talk.routed()
    if direction == "egress":
        assert are_seen(found, {"a": 0}) and lab.notes == []
    else:
        assert found["a"] >= 2
        (note,) = lab.notes
        assert note == (
            f"other software has tc programs at {UPLINK}, "
            "so first packets to and from other nodes take the stack path"
        )


def test_first_datagrams_above_the_mtu_of_a_route_take_the_stack_path(
    lab: TwoNodes, opened: Path
) -> None:
    """The route gets it after the load. The uplink itself would take them."""
    lab.load("a", opened, None)
    Connections(lab, 4, "pod-a", "client1").once()
    by = ("via", gateway_of("a", 4), "dev", UPLINK, "mtu", "lock", "1300")
    lab.run("a", "ip", "route", "add", f"{address('client1', 4)}/32", *by)
    server, client = lab.server("client1", 4, UDP, TARGET), lab.open_socket("pod-a", 4, UDP)
    client.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
    client.connect((address("client1", 4), TARGET))
    client.send(bytes(1350))
    assert is_silent(server)
    with pytest.raises(OSError, match="Message too long"):
        client.send(bytes(1350))


def test_a_first_packet_at_its_last_hop_does_not_leave_the_node(
    lab: TwoNodes, opened: Path
) -> None:
    lab.load("a", opened, None)
    Connections(lab, 4, "pod-a", "client1").once()
    client = lab.open_socket("pod-a", 4, UDP)
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    hears = lab.capture("router", "to-a")
    client.sendto(b"last", (address("client1", 4), TARGET))
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 2)
    client.sendto(b"next", (address("client1", 4), TARGET))
    sent: list[bytes] = []
    eventually(
        lambda: sent.extend(payloads(hears)) or b"next" in sent, "the packet with a hop more"
    )
    assert b"last" not in sent


@pytest.mark.parametrize("to", ["224.0.0.251", "239.1.2.3", "255.255.255.255", "127.0.0.9"])
def test_what_routers_do_not_forward_does_not_leave_the_node(
    lab: TwoNodes, opened: Path, to: str
) -> None:
    """The pod sends it to the MAC of its gateway."""
    lab.load("a", opened, None)
    Connections(lab, 4, "pod-a", "client1").once()
    hears = lab.capture("router", "to-a")
    pod, gateway = mac_bytes(lab.mac("pod-a")), lab.at["a"].network.mac(lab.device("pod-a"))
    source = Host(lab.mac("pod-a"), address("pod-a", 4), address("pod-a", 6))
    sent: list[bytes] = []
    for there, payload in ((to, b"last"), (address("client1", 4), b"next")):
        target = Host(gateway, there, "fd00::1")
        whole = frame(source, target, udp(5000, TARGET, payload))
        lab.at["pod-a"].within(partial(send_frame, whole))
    assert whole[6:12] == pod
    eventually(lambda: sent.extend(payloads(hears)) or b"next" in sent, "the packet to a host")
    assert b"last" not in sent


def send_frame(whole: bytes) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("eth0", 0))
        out.send(whole)


def test_a_route_by_type_of_service_holds_for_first_packets(lab: TwoNodes, opened: Path) -> None:
    lab.load("a", opened, None)
    Connections(lab, 4, "pod-a", "client1").once()
    to = f"{address('client1', 4)}/32"
    lab.run("a", "ip", "route", "add", "unreachable", to, "tos", "0x10")
    client = lab.open_socket("pod-a", 4, UDP)
    hears = lab.capture("router", "to-a")
    for tos, payload in ((0x10, b"last"), (0, b"next")):
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        with suppress(OSError):  # an ICMP error
            client.sendto(payload, (address("client1", 4), TARGET + tos))
    sent: list[bytes] = []
    eventually(lambda: sent.extend(payloads(hears)) or b"next" in sent, "the packet without it")
    assert b"last" not in sent


@families
def test_under_snat_the_stack_sees_what_a_host_outside_the_cluster_opens(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("b", opened, None, masquerade=Masquerade(range(50000, 50100)))
    talk = Connections(lab, family, "client1", "pod-b")
    talk.once()
    assert talk.routed()["b"] > 5


def payloads(hears: socket.socket) -> Iterator[bytes]:
    """The last four bytes of every frame so far."""
    with suppress(BlockingIOError):
        while True:
            yield hears.recv(1 << 16)[-4:]
