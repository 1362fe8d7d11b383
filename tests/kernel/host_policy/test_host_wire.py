# SPDX-License-Identifier: Apache-2.0
"""A node under host policy on the wire: its sockets, its pods, external clients, another node."""

import socket
from pathlib import Path

import pytest

from policyc.runtime.observe.event_records import Event
from policyc.runtime.observe.events import read_events
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, WAITS, arrived, arrived_from, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    BULK,
    TARGET,
    TCP,
    UDP,
    accepted,
    exchange,
    services,
)
from tests.kernel.support.host_policy_wire import (
    CLOSED,
    LOGGED,
    OPEN,
    OUT,
    SSH,
    drops,
    families,
    host_policy,
)
from tests.kernel.support.two_nodes import (
    EXTERNAL,
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
PORT = 80


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("guarded"), host_policy())


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another port is open."""
    return compiled(tmp_path_factory.mktemp("other"), host_policy(CLOSED))


def session(lab: TwoNodes, name: str, family: int, to: str, port: int) -> None:
    """A connection, of which both ends have said and heard much."""
    listening = lab.server(to, family, TCP, port)
    client = lab.connect(name, family, address(to, family), port)
    assert client
    server = lab.accept(listening)
    assert server.getpeername()[0] == address(name, family)
    exchange(client, server, BULK)


@families
def test_clients_reach_only_open_ports_of_the_node(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    where = address("a", family)
    lab.server("a", family, TCP, CLOSED)
    session(lab, "client1", family, "a", OPEN)
    assert drops(lab) == {}
    assert lab.connect("client1", family, where, CLOSED, SILENCE) is None
    assert lab.connect("client2", family, where, OPEN, SILENCE) is None
    assert drops(lab).keys() == {"policy"}
    assert lab.bad_checksums() == 0


@families
def test_failsafe_ports_are_open_whatever_policies_say(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    session(lab, "client2", family, "a", SSH)
    assert drops(lab) == {}


@families
def test_the_node_reaches_only_allowed_ports(lab: TwoNodes, bundle: Path, family: int) -> None:
    lab.load("a", bundle, None)
    where = address("client2", family)
    lab.server("client2", family, TCP, CLOSED)
    session(lab, "a", family, "client2", OUT)
    assert drops(lab) == {}
    assert lab.connect("a", family, where, CLOSED, SILENCE) is None
    assert drops(lab).keys() == {"policy"}
    names = lab.server("client2", family, UDP, 53)
    asking = lab.open_socket("a", family, UDP)
    asking.sendto(b"name?", (where, 53))
    question, who = names.recvfrom(100)
    names.sendto(b"name!", who)
    assert (question, asking.recv(100)) == (b"name?", b"name!")


@families
def test_the_node_is_refused_where_no_process_listens(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """It gets an ICMP error about its packet, or a reset."""
    lab.load("a", bundle, None)
    asking = lab.open_socket("a", family, UDP)
    asking.connect((address("client2", family), OUT))
    asking.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        asking.recv(100)
    with pytest.raises(ConnectionRefusedError):
        lab.connect("a", family, address("client2", family), OUT)
    with pytest.raises(ConnectionRefusedError):
        lab.connect("client1", family, address("a", family), OPEN)
    told = lab.open_socket("client1", family, UDP)
    told.connect((address("a", family), OPEN))
    told.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        told.recv(100)
    assert drops(lab) == {}


@pytest.mark.both_families
@families
def test_fragmented_datagrams_pass_in_both_directions(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    data = bytes(range(256)) * 16
    server = lab.server("a", family, UDP, OPEN)
    client = lab.server("client1", family, UDP, OUT)
    client.sendto(data, (address("a", family), OPEN))
    found, who = arrived_from(server, 9000)
    assert found == data
    server.sendto(data, who)
    assert arrived(client, 9000) == data
    refused = lab.server("a", family, UDP, CLOSED)
    client.sendto(data, (address("a", family), CLOSED))
    assert is_silent(refused)


def answers(client: socket.socket, server: socket.socket, patience: float = WAITS) -> bool:
    """Whether each hears what the other says."""
    for one, another in ((client, server), (server, client)):
        one.sendall(b"hello")
        if is_silent(another, patience) or another.recv(5) != b"hello":
            return False
    return True


@families
def test_a_change_of_policy_ends_sessions_but_at_failsafe_ports(
    lab: TwoNodes, bundle: Path, other: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    sessions = {}
    for port, name in ((OPEN, "client1"), (SSH, "client2")):
        listening = lab.server("a", family, TCP, port)
        client = lab.connect(name, family, address("a", family), port)
        assert client
        sessions[port] = client, accepted(listening)[0]
    listening = lab.server("client2", family, TCP, OUT)
    client = lab.connect("a", family, address("client2", family), OUT)
    assert client
    sessions[OUT] = client, accepted(listening)[0]
    assert [answers(*pair) for pair in sessions.values()] == [True, True, True]
    lab.load("a", bundle, None)
    assert [answers(*pair) for pair in sessions.values()] == [True, True, True]
    lab.load("a", other, None)
    assert not answers(*sessions[OPEN], SILENCE)
    assert answers(*sessions[SSH]) and answers(*sessions[OUT])
    for _, server in sessions.values():
        server.close()


@families
def test_a_session_at_a_failsafe_port_survives_the_first_load(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    listening = lab.server("a", family, TCP, SSH)
    client = lab.connect("client2", family, address("a", family), SSH)
    assert client
    server, _ = accepted(listening)
    lab.load("a", bundle, None)
    with server:
        assert answers(server, client)
        exchange(client, server, BULK)


@pytest.mark.waits
@families
def test_host_policy_does_not_affect_connections_of_pods(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    ways = (("client2", "pod-a"), ("pod-a", "client2"), ("a", "pod-a"))
    for port, (name, to) in enumerate(ways, TARGET):
        session(lab, name, family, to, port)
    assert drops(lab) == {}


@families
def test_a_pod_reaches_its_node_where_host_policy_allows(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    for port in (OPEN, SSH):
        lab.server("a", family, TCP, port)
    assert lab.connect("pod-a", family, address("a", family), OPEN, SILENCE) is None
    assert lab.connect("pod-a", family, address("a", family), SSH)
    assert drops(lab).keys() == {"policy"}


@pytest.mark.waits
@families
def test_services_pass_nodes_under_host_policy(lab: TwoNodes, tmp_path: Path, family: int) -> None:
    """Node a forwards a client's packets to node b. Both have only failsafe ports open."""
    closed = "".join(
        f"""\
---
apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {{name: {node}}}
spec: {{node: {node}, interfaceName: "*"}}
"""
        for node in ("a", "b")
    )
    bundle = compiled(tmp_path, closed + "---\n" + host_policy().split("---\n")[1])
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"))
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, EXTERNAL[family], PORT)
    assert client
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
    assert lab.drops() == {}


@families
def test_events_name_the_node_and_the_rule(lab: TwoNodes, bundle: Path, family: int) -> None:
    lab.load("a", bundle, None)
    lab.server("a", family, TCP, LOGGED)
    assert lab.connect("client1", family, address("a", family), LOGGED, SILENCE) is None
    found: list[Event] = []

    def read() -> bool:
        for each in read_events(bpffs=lab.bpffs("a"), state_root=lab.folder / "state", seconds=0.2):
            assert isinstance(each, Event)
            found.append(each)
        return bool(found)

    eventually(lambda: lab.at["a"].within(read), "an event")
    said = found[0]
    assert (said.verdict, said.destination, said.destination_port) == ("denied", "node a", LOGGED)
    assert said.ingress and said.egress is None
    assert "GlobalNetworkPolicy.projectcalico.org node" in said.ingress.decided.where
    assert [note.path for note in said.ingress.notes] == ["spec.ingress[0]"]


CILIUM = f"""\
apiVersion: cilium.io/v2
kind: CiliumClusterwideNetworkPolicy
metadata: {{name: nodes}}
spec:
  nodeSelector: {{}}
  ingress:
  - fromCIDR: [{address("client1", 4)}/32, "{address("client1", 6)}/128"]
    toPorts: [{{ports: [{{port: '{OPEN}', protocol: TCP}}]}}]
"""


@families
def test_a_node_under_cilium_host_policy_has_no_failsafe_ports(
    lab: TwoNodes, tmp_path: Path, family: int
) -> None:
    lab.load("a", compiled(tmp_path, CILIUM), None)
    for port in (OPEN, SSH):
        lab.server("a", family, TCP, port)
    assert lab.connect("client1", family, address("a", family), OPEN)
    assert lab.connect("client1", family, address("a", family), SSH, SILENCE) is None
    lab.server("client2", family, TCP, CLOSED)
    assert lab.connect("a", family, address("client2", family), CLOSED), "egress is not isolated"
    found = lab.status("a").host
    assert found is not None
    assert (found.name, found.failsafes.inbound, found.failsafes.outbound) == ("a", (), ())
