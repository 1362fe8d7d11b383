# SPDX-License-Identifier: Apache-2.0
"""DSR between nodes on one link: a client's packet goes to the endpoint's node without a tunnel."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from policyc.runtime.attach import xdp
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, WAITS
from tests.kernel.support.external_wire import (
    BULK,
    NODE_PORT,
    PORT,
    TARGET,
    TCP,
    UDP,
    accepted,
    bundle,
    exchange,
    families,
    frames_of,
    is_tunnelled,
    received,
    services,
    to_node_port,
)
from tests.kernel.support.linked_nodes import OwnLink, SameLink
from tests.kernel.support.map_content import wipe
from tests.kernel.support.packets import Host, frame, udp
from tests.kernel.support.two_nodes import EXTERNAL, NODES, PODS, address

__all__ = ["bundle"]

pytestmark = pytest.mark.kernel

CONNECTIONS = ("pc_ct4", "pc_ct4_new", "pc_ct6", "pc_ct6_new")
IP_RECVTTL = 12  # of <linux/in.h>


@pytest.fixture(params=[OwnLink, SameLink], ids=["own link", "same link"])
def lab(request: pytest.FixtureRequest, loads: None, tmp_path: Path) -> Iterator[OwnLink]:
    """Nothing is loaded yet. The router takes answers of node a from node b."""
    with ExitStack() as owned:
        made: OwnLink = request.param(tmp_path, owned)
        made.check_no_paths("router")
        yield made
        for node in made.loaded:
            made.unload(node)


def loaded(lab: OwnLink, bundle: Path, *ways: Outside, xdp_mode: xdp.Mode | None = None) -> None:
    """Node a and node b forward and answer so, or as the lab says; pod-b is the endpoint."""
    for node, way in zip(NODES, ways or (lab.outside, lab.outside), strict=True):
        lab.load(node, bundle, services("pod-b"), way, xdp_mode=xdp_mode)
    for family in (4, 6):
        ask_for_neighbour(lab, family)


def ask_for_neighbour(lab: OwnLink, family: int) -> None:
    """Node b knows the MAC of node a, as when a has sent it packets."""
    with lab.open_socket("a", family, UDP) as asking:
        asking.sendto(b"?", (address("b", family), 9))

    mac = lab.at["a"].network.mac(lab.link)
    known = lab.at["b"].network.known_mac
    eventually(lambda: known(address("a", family), lab.link) == mac, "node b knows node a")


@contextmanager
def connection(
    lab: OwnLink, family: int, to: tuple[str, int]
) -> Iterator[tuple[socket.socket, ...]]:
    """Of client1 with pod-b, which sees the client's own address."""
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, *to)
    assert client
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        yield client, server


def node_port(family: int) -> tuple[str, int]:
    """At node a."""
    return address("a", family), NODE_PORT


@families
def test_a_stream_goes_by_the_link_and_its_answers_go_directly(
    lab: OwnLink, bundle: Path, family: int
) -> None:
    loaded(lab, bundle)
    wire = lab.capture("b", lab.link)
    with connection(lab, family, node_port(family)) as ends:
        exchange(*ends, BULK)
    frames = frames_of(wire)
    assert to_node_port(frames, family) > 1 and not any(map(is_tunnelled, frames))
    assert lab.connect("client2", family, address("a", family), NODE_PORT, SILENCE) is None
    assert {node: set(drops) for node, drops in lab.drops().items()} == {"b": {"policy"}}
    assert lab.bad_checksums() == 0


@families
def test_datagrams_go_by_the_link_and_their_fragments_by_the_tunnel(
    lab: OwnLink, bundle: Path, family: int
) -> None:
    loaded(lab, bundle)
    server = lab.server("pod-b", family, UDP, TARGET)
    client = lab.open_socket("client1", family, UDP)
    client.connect((address("a", family), NODE_PORT))
    for size in (10, 1400, 4000):
        wire = lab.capture("b", lab.link)
        client.send(bytes(size))
        found, peer = received(server, client, bytes(size))
        assert found == bytes(size) and peer[0] == address("client1", family)
        server.sendto(found, peer)
        assert len(received(client, server, found, peer)[0]) == size
        frames = frames_of(wire)
        assert any(map(is_tunnelled, frames)) == (size > 1500)
        assert to_node_port(frames, family) or size > 1500
    assert {why for drops in lab.drops().values() for why in drops} <= {"fragment"}


@families
@pytest.mark.parametrize("ways", [("dsr-vxlan", "dsr"), ("dsr", "dsr-vxlan"), ("dsr", "tunnel")])
def test_it_takes_two_nodes(
    lab: OwnLink, bundle: Path, ways: tuple[Outside, Outside], family: int
) -> None:
    """A node that does not take such packets sends them back, and they go by the tunnel.

    With the link of their own, nodes might have filters of reverse paths, and drop them: so they do not
    go by that link without dsr-l2.
    """
    loaded(lab, bundle, *ways)
    wire = lab.capture("b", lab.link)
    with connection(lab, family, node_port(family)) as ends:
        exchange(*ends, 20_000)
    assert any(map(is_tunnelled, frames_of(wire)))
    assert not lab.drops()


@families
def test_the_other_addresses_of_a_service_go_by_the_tunnel(
    lab: OwnLink, bundle: Path, family: int
) -> None:
    loaded(lab, bundle)
    wire = lab.capture("b", lab.link)
    with connection(lab, family, (EXTERNAL[family], PORT)) as ends:
        exchange(*ends, 20_000)
    frames = frames_of(wire)
    assert any(map(is_tunnelled, frames)) and not to_node_port(frames, family)
    assert not lab.drops()


@families
def test_a_removed_endpoint_ends_its_connections(lab: OwnLink, bundle: Path, family: int) -> None:
    loaded(lab, bundle)
    with connection(lab, family, node_port(family)) as (client, server):
        exchange(client, server, 1000)
        for node in NODES[::-1]:
            lab.serve(node, services())
        client.settimeout(SILENCE)
        client.send(b"late")
        with pytest.raises(TimeoutError):
            client.recv(100)
    assert lab.drops()["b"].keys() == {"backend gone"}


@families
def test_with_maglev_connections_survive_if_the_first_node_forgets_them(
    lab: OwnLink, bundle: Path, family: int
) -> None:
    """It chooses the same node again, which has the connection's entry. Both nodes have an endpoint."""
    spread = {"policyc.dev/balance": "maglev", "policyc.dev/maglev-slots": "251"}
    for node in NODES:
        lab.load(node, bundle, services(*PODS, annotations=spread), lab.outside)
    ask_for_neighbour(lab, family)
    listening = {pod: lab.server(pod, family, TCP, TARGET) for pod in PODS}
    forwarded = []
    with ExitStack() as accepting:
        for _ in range(64):  # each goes to one of two endpoints
            client = lab.connect("client1", family, *node_port(family))
            assert client
            (ready,), _, _ = select.select([*listening.values()], [], [], WAITS)
            server = accepting.enter_context(accepted(ready)[0])
            if ready is listening["pod-b"]:
                forwarded.append((client, server))
            if len(forwarded) == 4:
                break
        assert len(forwarded) == 4
        for name in CONNECTIONS:
            with bpf_syscall.obj_get(Pins(lab.bpffs("a")).map(name)) as table:
                wipe(table)
        for ends in forwarded:
            exchange(*ends, 1000)


@families
def test_every_node_on_the_path_counts_as_a_router(lab: OwnLink, bundle: Path, family: int) -> None:
    loaded(lab, bundle)
    server = lab.server("pod-b", family, UDP, TARGET)
    level, option, kind = (
        (socket.IPPROTO_IP, socket.IP_TTL, IP_RECVTTL)
        if family == 4
        else (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, socket.IPV6_RECVHOPLIMIT)
    )
    server.setsockopt(level, kind, 1)
    client = lab.open_socket("client1", family, UDP)
    client.setsockopt(level, option, 20)
    client.sendto(b"counted", (address("a", family), NODE_PORT))
    _, controls, _, _ = server.recvmsg(100, 100)
    hops = [int.from_bytes(value[:1], "little") for _, _, value in controls]
    assert hops == [17], "the router, node a and node b"


@families
def test_a_sender_learns_the_mtu_of_the_link(lab: OwnLink, bundle: Path, family: int) -> None:
    for node in NODES:
        lab.at[node].network.change(lab.link, mtu=1300)
    loaded(lab, bundle)
    wire = lab.capture("b", lab.link)
    with connection(lab, family, node_port(family)) as ends:
        exchange(*ends, 200_000)
    frames = frames_of(wire)
    assert to_node_port(frames, family) > 1 and not any(map(is_tunnelled, frames))
    assert lab.drops() == {}


@families
def test_xdp_forwards_by_the_link_too(lab: OwnLink, bundle: Path, family: int) -> None:
    lab.offload(tx=False, segments=False)  # XDP leaves unfinished checksums to tc
    loaded(lab, bundle, xdp_mode="generic")
    wire = lab.capture("b", lab.link)
    with connection(lab, family, node_port(family)) as ends:
        exchange(*ends, BULK)
    frames = frames_of(wire)
    assert to_node_port(frames, family) > 1 and not any(map(is_tunnelled, frames))
    assert sum(each.requests for each in lab.status("a").xdp) > 1
    assert lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("is_of_node", [True, False], ids=["a's MAC", "another MAC"])
def test_the_source_mac_says_which_node_has_forwarded(
    lab: OwnLink, bundle: Path, family: int, is_of_node: bool
) -> None:
    """With another MAC the packet is routed to node a, if the filter of reverse paths lets it pass."""
    loaded(lab, bundle)
    server = lab.server("pod-b", family, UDP, TARGET)
    wire = lab.capture("b", lab.link)
    macs = {node: lab.at[node].network.mac(lab.link) for node in NODES}
    sender = Host(
        macs["a"] if is_of_node else "02:00:00:00:00:99",
        *(address("client1", each) for each in (4, 6)),
    )
    target = Host(macs["b"], *(address("a", each) for each in (4, 6)))
    forged = frame(sender, target, udp(4000, NODE_PORT, b"forged"), family=family)
    with lab.at["a"].within(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as at:
        at.bind((lab.link, 0))
        at.send(forged)
    if is_of_node:
        assert server.recv(100) == b"forged"
        assert not any(map(is_tunnelled, frames_of(wire)))
        return
    server.settimeout(SILENCE)
    try:
        assert server.recv(100) == b"forged"
    except TimeoutError:
        assert isinstance(lab, OwnLink) and not isinstance(lab, SameLink)
    else:
        assert any(map(is_tunnelled, frames_of(wire)))
