# SPDX-License-Identifier: Apache-2.0
"""Real external clients reach Services on real nodes, each under its own address."""

import errno
import os
import socket
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP

from policyc.runtime import switch
from policyc.runtime.attach import (
    attach,
    tcx,
)
from policyc.runtime.devices.tunnel import NAME
from policyc.runtime.devices.tunnel import PORT as TUNNEL_PORT
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.errors import HostError
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    ANSWERS,
    BULK,
    NODE_PORT,
    OFFLOADS,
    PORT,
    REQUESTS,
    TARGET,
    TCP,
    UDP,
    accepted,
    bundle,
    exchange,
    families,
    frames_of,
    is_plain_answer,
    is_tunnelled,
    loaded,
    received,
    services,
)
from tests.kernel.support.node_under_test import ip
from tests.kernel.support.packets import (
    Host,
    Payload,
    arp,
    frame,
    udp,
)
from tests.kernel.support.two_nodes import (
    EXTERNAL,
    PODS,
    UPLINK,
    TwoNodes,
    address,
)

__all__ = ["bundle"]

pytestmark = pytest.mark.kernel


REJECTING = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: web}
spec:
  tier: 500
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      reject tcp, udp from any
"""


@pytest.fixture(scope="module")
def rejecting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that rejects every connection to the pods."""
    return compiled(tmp_path_factory.mktemp("rejecting"), REJECTING)


@families
@pytest.mark.parametrize("to", ["external ip", "node port"])
def test_a_client_reaches_a_pod_of_the_node_that_it_sends_to(
    lab: TwoNodes, bundle: Path, family: int, to: str
) -> None:
    loaded(lab, bundle, "pod-a")
    listening = lab.server("pod-a", family, TCP, TARGET)
    where = (EXTERNAL[family], PORT) if to == "external ip" else (address("a", family), NODE_PORT)
    client = lab.connect("client1", family, *where)
    assert client and client.getpeername()[:2] == where
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
    assert lab.connect("client2", family, *where, SILENCE) is None
    assert lab.drops().keys() == {"a"} and lab.drops()["a"].keys() == {"policy"}
    assert lab.bad_checksums() == 0


@families
def test_a_pod_on_another_node_sees_the_clients_own_address(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    where = address("a", family), NODE_PORT
    client = lab.connect("client1", family, *where)
    assert client and client.getpeername()[:2] == where
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
    assert lab.connect("client2", family, *where, SILENCE) is None
    assert lab.drops().keys() == {"b"} and lab.drops()["b"].keys() == {"policy"}
    assert lab.bad_checksums() == 0


@pytest.mark.waits
@families
@pytest.mark.parametrize("return_path", ["tunnel", "dsr"])
def test_the_reply_takes_the_configured_return_path(
    lab: TwoNodes, bundle: Path, family: int, return_path: ReturnPath
) -> None:
    """The test watches the wires of both nodes. The router accepts node a's address from node b."""
    lab.check_no_paths("router")
    loaded(lab, bundle, "pod-b", return_path=return_path)
    listening = lab.server("pod-b", family, TCP, TARGET)
    where = address("a", family), NODE_PORT
    wires = {node: lab.capture(node, UPLINK) for node in ("a", "b")}
    client = lab.connect("client1", family, *where)
    assert client
    server, seen = accepted(listening)
    assert seen == address("client1", family)
    with server:
        exchange(client, server, 20_000)
    frames = {node: frames_of(wire) for node, wire in wires.items()}
    plain = {n: sum(is_plain_answer(each, family, *where) for each in frames[n]) for n in frames}
    answers = {
        node: sum(is_tunnelled(each) and each[46:49] == ANSWERS for each in found)
        for node, found in frames.items()
    }
    assert any(is_tunnelled(each) for each in frames["a"]), "what the client sends goes to b"
    used = {each.name: each.used for each in lab.status("a").maps}
    assert used[f"pc_ct{family}"] == 1, "no flood ends what goes on"
    if return_path == "dsr":
        assert plain["b"] and not plain["a"] and not answers["a"] and not answers["b"]
    else:
        assert plain["a"] and not plain["b"] and answers["a"] and answers["b"]
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.waits
@families
def test_rules_as_of_kube_proxy_hide_the_client(lab: TwoNodes, family: int) -> None:
    """The comparison: with DNAT and MASQUERADE on node a, the pod on b sees node a."""
    to = address("pod-b", family)
    target = f"{to}:{TARGET}" if family == 4 else f"[{to}]:{TARGET}"
    rules = [
        "*nat",
        ":KUBE-NODEPORTS - [0:0]",
        ":KUBE-SEP - [0:0]",
        ":KUBE-POSTROUTING - [0:0]",
        f"-A PREROUTING -d {address('a', family)} -j KUBE-NODEPORTS",
        "-A POSTROUTING -j KUBE-POSTROUTING",
        f"-A KUBE-NODEPORTS -p tcp --dport {NODE_PORT} -j MARK --set-xmark 0x4000/0x4000",
        f"-A KUBE-NODEPORTS -p tcp --dport {NODE_PORT} -j KUBE-SEP",
        f"-A KUBE-SEP -p tcp -j DNAT --to-destination {target}",
        "-A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE",
        "COMMIT",
    ]
    program = "iptables-restore" if family == 4 else "ip6tables-restore"
    lab.run("a", program, text="\n".join([*rules, ""]))
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, seen = accepted(listening)
    server.close()
    assert seen == address("a", family) != address("client1", family)


@pytest.mark.both_families
@pytest.mark.waits
@families
@pytest.mark.parametrize("offloads", OFFLOADS, ids=str)
@pytest.mark.parametrize("return_path", ["tunnel", "dsr"])
def test_datagrams_and_their_fragments_arrive_whole(
    lab: TwoNodes, bundle: Path, family: int, offloads: tuple[bool, bool], return_path: ReturnPath
) -> None:
    lab.check_no_paths("router")
    lab.offload(*offloads)
    for pod in ("pod-a", "pod-b"):
        loaded(lab, bundle, pod, return_path=return_path)
        server = lab.server(pod, family, UDP, TARGET)
        client = lab.open_socket("client1", family, UDP)
        client.connect((address("a", family), NODE_PORT))
        for size in (1, 2, 501, 1400, 5000, 4999):
            data = os.urandom(size)
            client.send(data)
            found, peer = received(server, client, data)
            assert found == data and peer[:2] == client.getsockname()[:2]
            server.sendto(data, peer)
            assert received(client, server, data, peer)[0] == data
        stream = lab.server(pod, family, TCP, TARGET)
        end = lab.connect("client1", family, EXTERNAL[family], PORT)
        assert end
        served, _ = accepted(stream)
        with served:
            exchange(end, served, 200_000)
        stream.close()
        server.close()
    reasons = {reason for found in lab.drops().values() for reason in found}
    behind_too_big = {"fragment"} if family == 6 else set()  # of the one that was too big at first
    assert reasons <= behind_too_big and lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("pod", PODS)
def test_a_client_is_refused_where_no_process_listens(
    lab: TwoNodes, bundle: Path, family: int, pod: str
) -> None:
    loaded(lab, bundle, pod)
    client = lab.open_socket("client1", family, UDP)
    client.connect((address("a", family), NODE_PORT))
    client.send(b"is there anybody?")
    with pytest.raises(ConnectionRefusedError):
        client.recv(100)
    refused = lab.open_socket("client1", family, TCP)
    with pytest.raises(ConnectionRefusedError):
        refused.connect((address("a", family), NODE_PORT))
    assert lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("pod", PODS)
def test_answers_to_rejected_packets_come_from_the_service(
    lab: TwoNodes, rejecting: Path, family: int, pod: str
) -> None:
    """The endpoint's node answers, whichever node the client sent to."""
    lab.check_no_paths("router")
    loaded(lab, rejecting, pod)
    refused = lab.open_socket("client1", family, TCP)
    with pytest.raises(ConnectionRefusedError):
        refused.connect((address("a", family), NODE_PORT))
    datagrams = lab.open_socket("client1", family, UDP)
    datagrams.connect((address("a", family), NODE_PORT))
    datagrams.send(b"may I?")
    with pytest.raises(OSError) as told:
        datagrams.recv(100)
    assert told.value.errno == (errno.EHOSTUNREACH if family == 4 else errno.EACCES)
    assert lab.drops() == {PODS[pod]: {"policy": 2}} and lab.bad_checksums() == 0


@families
def test_a_service_without_endpoints_refuses_the_client(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    loaded(lab, bundle)
    refused = lab.open_socket("client1", family, TCP)
    with pytest.raises(ConnectionRefusedError):
        refused.connect((address("a", family), NODE_PORT))
    assert lab.drops() == {"a": {"no backend": 1}}


@families
def test_an_endpoint_that_is_removed_ends_its_connections(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """TCP gets no more packets. Datagrams of the client go to the other node's pod."""
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    servers = {pod: lab.server(pod, family, UDP, TARGET) for pod in PODS}
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    datagrams = lab.open_socket("client1", family, UDP)
    datagrams.connect((address("a", family), NODE_PORT))
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, 1000)
        for pod in ("pod-b", "pod-a", "pod-b"):
            for node in ("a", "b"):
                lab.serve(node, services(pod))
            datagrams.send(pod.encode())
            found, peer = servers[pod].recvfrom(100)
            assert found == pod.encode()
            servers[pod].sendto(b"yes", peer)
            assert datagrams.recv(100) == b"yes"
        client.sendall(b"still there?")
        assert is_silent(server)
    assert lab.drops()["b"]["backend gone"] >= 1


@pytest.mark.waits
@families
def test_endpoints_in_the_host_network_are_reached(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """They are on the node that the client sends to and on the other node."""
    for node in ("a", "b"):
        loaded(lab, bundle, node)
        listening = lab.server(node, family, TCP, TARGET)
        client = lab.connect("client2", family, address("a", family), NODE_PORT)
        assert client
        server, seen = accepted(listening)
        with server:
            assert seen == address("client2", family), "no policy holds for the node"
            exchange(client, server, 20_000)
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.waits
@families
def test_one_client_port_reaches_the_same_pod_through_both_nodes(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The two connections would have one tuple at the pod."""
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    ends = []
    for node in ("a", "b"):
        client = lab.open_socket("client1", family, TCP)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((address("client1", family), 4321))
        client.connect((address(node, family), NODE_PORT))
        ends.append((client, accepted(listening)[0]))
    for client, server in ends:
        with server:
            exchange(client, server, 5000)
    assert lab.drops() == {}


@pytest.mark.both_families
@families
def test_client_and_endpoint_learn_the_tunnels_mtu(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """Each gets an ICMP error from its peer's address. No outer packet is fragmented."""
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    wires = {node: lab.capture(node, UPLINK) for node in ("a", "b")}
    client = lab.connect("client1", family, address("a", family), NODE_PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, BULK)
        level, option = (socket.IPPROTO_IP, 14) if family == 4 else (socket.IPPROTO_IPV6, 24)
        for end in (client, server):  # IP_MTU, IPV6_MTU
            assert end.getsockopt(level, option) == 1500 - 50
    for node, wire in wires.items():
        frames = frames_of(wire)
        assert any(is_tunnelled(each) for each in frames)
        assert not any(is_cut(each) for each in frames), node
        assert lab.status(node).drops.keys() == {"too big"}
    assert lab.bad_checksums() == 0


def is_cut(frame: bytes) -> bool:
    """A fragment, of IPv4."""
    return frame[12:14] == b"\x08\x00" and bool(int.from_bytes(frame[20:22], "big") & 0x3FFF)


@pytest.mark.both_families
@families
def test_every_node_on_the_path_decrements_the_hop_limit(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The router, node a, which forwards, and node b. The return path is the same."""
    loaded(lab, bundle, "pod-b")
    level, ask, give = (
        (socket.IPPROTO_IP, 12, socket.IP_TTL)
        if family == 4
        else (socket.IPPROTO_IPV6, 51, socket.IPV6_UNICAST_HOPS)
    )  # IP_RECVTTL, IPV6_RECVHOPLIMIT
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("client1", family, UDP)
    client.connect((address("a", family), NODE_PORT))
    for end in (server, client):
        end.setsockopt(level, ask, 1)
        end.setsockopt(level, give, 40)
    client.send(b"there")
    _, told, _, peer = server.recvmsg(100, 100)
    assert int.from_bytes(told[0][2], "little") == 40 - 3
    server.sendto(b"back", peer)
    _, told, _, _ = client.recvmsg(100, 100)
    assert int.from_bytes(told[0][2], "little") == 40 - 3
    client.setsockopt(level, give, 2)
    client.send(b"the router's is the last but one")
    assert is_silent(server)
    assert lab.drops() == {"a": {"hop limit": 1}}


@pytest.mark.both_families
@families
def test_forged_tunnel_packets_are_dropped(lab: TwoNodes, bundle: Path, family: int) -> None:
    """VXLAN from a client, and VXLAN from a node about a packet to no Service or to another node."""
    loaded(lab, bundle, "pod-b")
    server = lab.server("pod-b", family, UDP, TARGET)

    def host(name: str) -> Host:
        return Host("02:00:00:00:00:02", address(name, 4), address(name, 6))

    client, to_a, to_b, pod = map(host, ("client1", "a", "b", "pod-b"))
    external = Host(to_a.mac, EXTERNAL[4], EXTERNAL[6])
    there, back, other = udp(4000, NODE_PORT), udp(NODE_PORT, 4000), udp(4000, 1)

    def packet(src: Host, dst: Host, payload: Payload) -> bytes:
        return frame(src, dst, payload, family=family)

    lies = [
        ("client1", REQUESTS, packet(client, to_a, there), "not a node"),
        ("client2", ANSWERS, packet(to_b, client, back), "not a node"),
        ("a", REQUESTS, packet(client, to_b, there), "not a node"),
        ("a", b"\0\0\1", packet(client, to_a, there), "not a node"),
        ("a", ANSWERS, packet(to_b, client, back), "backend gone"),
        ("a", REQUESTS, packet(client, to_a, other), "no backend"),
        ("a", REQUESTS, packet(client, external, other), "no backend"),
        ("a", REQUESTS, packet(to_b, to_a, there), "spoofed ip"),
        ("a", REQUESTS, packet(pod, to_a, there), "spoofed ip"),
        ("a", REQUESTS, arp(client), "ethertype"),
    ]
    for who, network, inner, reason in lies:
        before = lab.status("b").drops
        hand_over(lab, who, network, inner)
        expected = before | {reason: before.get(reason, 0) + 1}
        eventually(lambda then=expected: lab.status("b").drops == then, f"drops: {expected}")
    assert is_silent(server)
    hand_over(lab, "a", REQUESTS, packet(client, to_a, there))
    assert server.recv(100) == b"payload", "it passes from the node that the client sent to"


def hand_over(lab: TwoNodes, who: str, network: bytes, inner: bytes) -> None:
    """As a node does it, by a socket."""
    header = b"\x08\0\0\0" + network + b"\0"
    lab.open_socket(who, 4, UDP).sendto(header + inner, (address("b", 4), TUNNEL_PORT))


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_nodes_with_ipv6_only_forward_through_the_tunnel(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The outer header is larger and needs a checksum."""
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), families=[6])
    listening = lab.server("pod-b", family, TCP, TARGET)
    wire = lab.capture("b", UPLINK)
    client = lab.connect("client1", family, EXTERNAL[family], PORT)
    assert client
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
        level, option = (socket.IPPROTO_IP, 14) if family == 4 else (socket.IPPROTO_IPV6, 24)
        assert client.getsockopt(level, option) == 1500 - 70
    outer = [each for each in frames_of(wire) if each[12:14] == b"\x86\xdd" and each[20] == 17]
    assert outer and all(each[60:62] != b"\0\0" for each in outer)
    assert lab.drops() == {} and lab.bad_checksums() == 0


def test_the_tunnel_device_exists_only_while_a_load_needs_it(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed load leaves no device, and unload removes it. A foreign device stays."""

    def devices() -> set[str]:
        return lab.at["a"].within(lambda: {name for _, name in socket.if_nameindex()})

    def hooks() -> set[str]:
        """Those that are attached, by their links."""
        links = lab.bpffs("a") / "links"
        found = links.iterdir() if links.is_dir() else ()
        return {pin.name.partition("-")[2] for pin in found if tcx.find(pin) is not None}

    def tunnel() -> tuple[bool, int]:
        """Whether it is up, and its MTU."""
        with IPRoute() as netlink:
            (link,) = netlink.link("get", ifname=NAME)
        return bool(link["flags"] & IFF_UP), int(link.get_attr("IFLA_MTU"))

    roles = ("pod", "uplink", "tunnel")
    every = {hook.program for role in roles for hook in attach.BY_ROLE[role]}
    before = devices()
    with monkeypatch.context() as patch:
        patch.setattr(switch, "store", _fail)
        with pytest.raises(OSError, match="it cannot be stored"):
            lab.load("a", bundle, services("pod-b"))
    assert devices() == before and hooks() == set()
    lab.load("a", bundle, services("pod-b"))
    assert devices() == before | {NAME} and hooks() == every
    is_up, mtu = lab.at["a"].within(tunnel)
    assert is_up
    lab.at["a"].within(lambda: ip("link", "set", UPLINK, "mtu", "1400"))
    with monkeypatch.context() as patch:
        patch.setattr(switch, "store", _fail)
        with pytest.raises(OSError, match="it cannot be stored"):
            lab.load("a", bundle, services("pod-a"))
    assert devices() == before | {NAME} and hooks() == every
    assert lab.at["a"].within(tunnel) == (True, mtu)
    lab.load("a", bundle, services("pod-b"))
    assert lab.at["a"].within(tunnel) == (True, mtu - 100)
    lab.unload("a")
    assert devices() == before and hooks() == set()
    lab.at["a"].within(lambda: ip("link", "add", NAME, "type", "veth", "peer", "name", "other"))
    with pytest.raises(HostError, match=NAME):
        lab.load("a", bundle, services("pod-b"))
    assert devices() == before | {NAME, "other"}


def _fail(*_: object) -> None:
    raise OSError("it cannot be stored")
