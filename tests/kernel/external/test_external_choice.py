# SPDX-License-Identifier: Apache-2.0
"""Services that name their own return path, side by side on real nodes."""

import io
import os
import socket
import time
from pathlib import Path

import pytest
from rich.console import Console

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.observe.status_text import show
from tests.kernel.support.external_wire import (
    ANSWERS,
    NODE_PORT,
    TARGET,
    TCP,
    UDP,
    bundle,
    exchange,
    families,
    frames_of,
    is_plain_answer,
    is_tunnelled,
    received,
    services,
)
from tests.kernel.support.two_nodes import (
    NODES,
    UPLINK,
    TwoNodes,
    address,
)

__all__ = ["bundle"]
pytestmark = pytest.mark.kernel
OTHER_PORT = 30081
PORTS = {"web": NODE_PORT, "other": OTHER_PORT}


def chosen(**ways: ReturnPath | None) -> list[JsonValue]:
    """A Service by each name, with its node port alone; all have one endpoint, on node b."""
    return [
        each
        for name, way in ways.items()
        for each in services(
            "pod-b",
            of=name,
            node_port=PORTS[name],
            annotations={"policyc.dev/outside": way} if way else None,
            clusterIPs=[],
            externalIPs=[],
        )
    ]


def answering(
    lab: TwoNodes, family: int, ends: dict[str, tuple[socket.socket, socket.socket]]
) -> dict[str, set[str]]:
    """By Service, the nodes from which its open connection is answered."""
    wires = {node: lab.capture(node, UPLINK) for node in NODES}
    for client, server in ends.values():
        exchange(client, server, 20_000)
    frames = {node: frames_of(wire) for node, wire in wires.items()}
    for wire in wires.values():
        wire.close()
    return {
        name: {
            node
            for node, found in frames.items()
            if any(is_plain_answer(each, family, address("a", family), port) for each in found)
        }
        for name, port in PORTS.items()
    }


def is_answered_back(wire: socket.socket) -> bool:
    """Whether anything of what was captured went back in the tunnel."""
    return any(is_tunnelled(each) and each[46:49] == ANSWERS for each in frames_of(wire))


@pytest.mark.waits
@families
@pytest.mark.parametrize("default", ["tunnel", "dsr"])
def test_each_service_has_its_own_return_path_and_may_change_it_with_open_connections(
    lab: TwoNodes, bundle: Path, family: int, default: ReturnPath
) -> None:
    """Both Services have the same endpoint. The router accepts node a's address from node b."""
    lab.check_no_paths("router")
    other: ReturnPath = "dsr" if default == "tunnel" else "tunnel"
    for node in NODES:
        lab.load(node, bundle, chosen(web=other, other=None), default)
        told = lab.status(node)
        assert told.services_outside == {other: 4}, "two families, two protocols"
        show(told, Console(file=(text := io.StringIO()), width=200))
        assert f"uplinks: {UPLINK} ({default}, 4 addresses and ports {other})" in text.getvalue()
    listening = lab.server("pod-b", family, TCP, TARGET)
    ends = {}
    for name, port in PORTS.items():
        client = lab.connect("client1", family, address("a", family), port)
        assert client
        ends[name] = client, lab.accept(listening)
    by_way = {"tunnel": {"a"}, "dsr": {"b"}}
    assert answering(lab, family, ends) == {"web": by_way[other], "other": by_way[default]}
    for node in NODES:
        lab.serve(node, chosen(web=None, other=other))
    assert answering(lab, family, ends) == {"web": by_way[default], "other": by_way[other]}
    lab.serve("b", chosen(web=other, other=other))  # and node a does not know yet
    assert answering(lab, family, ends) == {"web": by_way[other], "other": by_way[other]}
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.both_families
@families
def test_datagrams_and_their_fragments_take_the_return_path_of_their_service(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.check_no_paths("router")
    for node in NODES:
        lab.load(node, bundle, chosen(web="dsr", other="tunnel"))
    server = lab.server("pod-b", family, UDP, TARGET)
    for name, port in PORTS.items():
        wire = lab.capture("b", UPLINK)
        client = lab.open_socket("client1", family, UDP)
        client.connect((address("a", family), port))
        for size in (10, 5000):
            data = os.urandom(size)
            client.send(data)
            found, peer = received(server, client, data)
            assert found == data
            server.sendto(data, peer)
            assert received(client, server, data, peer)[0] == data
        assert (name == "other") == is_answered_back(wire)
    time.sleep(0.1)
    assert not {why for drops in lab.drops().values() for why in drops} - {"fragment"}


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_an_error_of_an_endpoint_takes_the_return_path_of_its_service(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """No process listens. The pod sends an ICMP error that quotes the Service's address and port."""
    lab.check_no_paths("router")
    for node in NODES:
        lab.load(node, bundle, chosen(web="dsr", other="tunnel"))
    for name, port in PORTS.items():
        wire = lab.capture("b", UPLINK)
        client = lab.open_socket("client1", family, UDP)
        client.connect((address("a", family), port))
        client.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            client.recv(100)
        assert (name == "other") == is_answered_back(wire)
    assert lab.drops() == {}
