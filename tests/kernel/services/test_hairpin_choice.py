# SPDX-License-Identifier: Apache-2.0
"""A pod that is one of several endpoints of a Service: the choice may fall on the pod itself."""

import select
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.answers import (
    NEXT,
    REDIRECT,
)
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.hairpin_frames import (
    from_vip,
    reply,
    request,
)
from tests.kernel.support.node_under_test import (
    A,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
    tcp,
    udp,
)
from tests.kernel.support.picks import (
    HANDED,
    OUTSIDE,
    Asked,
    picking,
)
from tests.kernel.support.service_frames import to_vip
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    service,
    slices,
    value,
    web,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
protocols = pytest.mark.parametrize("protocol", ["TCP", "UDP"])
TRIES = 60
OTHERS = [Host(C.mac, f"10.9.0.{i}", f"fd09::{i:x}") for i in range(1, 4)]


def payload(protocol: str, sport: int, dport: int, flags: int = SYN) -> Payload:
    return tcp(sport, dport, flags) if protocol == "TCP" else udp(sport, dport)


def answered_by_itself(node: NodeUnderTest, protocol: str, sport: int, family: int) -> bool:
    """Whether the pod's next connection comes back to it; every byte of either outcome is checked."""
    sent = to_vip(payload(protocol, sport, PORT), family)
    verdict, found = node.answered("a", sent)
    if verdict == REDIRECT:
        assert found == request(payload(protocol, sport, TARGET), family)
        return True
    assert verdict == NEXT
    return False


@families
@protocols
def test_each_of_two_endpoints_gets_about_half_of_the_connections(
    node: NodeUnderTest, family: int, protocol: str
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(A, C, protocol=protocol))
    own = [p for p in range(5000, 5000 + TRIES) if answered_by_itself(node, protocol, p, family)]
    assert TRIES // 6 < len(own) < TRIES - TRIES // 6, "by chance: 2 in 10 million are outside"
    for port in own[:5]:
        verdict, found = node.answered(
            "a", reply(payload(protocol, TARGET, port, SYN | ACK), family)
        )
        assert (verdict, found) == (
            REDIRECT,
            from_vip(payload(protocol, PORT, port, SYN | ACK), family),
        )
        verdict, found = node.answered("a", to_vip(payload(protocol, port, PORT, ACK), family))
        assert (verdict, found) == (
            REDIRECT,
            request(payload(protocol, port, TARGET, ACK), family),
        ), "what began goes on"
    assert node.drops() == {}


def sticky(*hosts: Host, **spec: object) -> list[JsonValue]:
    return [service(sessionAffinity="ClientIP", **spec), *slices(hosts)]


@families
def test_affinity_to_the_pod_itself_lasts(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=sticky(A))
    assert answered_by_itself(node, "TCP", 5000, family)
    node.serve(sticky(A, *OTHERS))
    assert all(answered_by_itself(node, "TCP", port, family) for port in range(5001, 5031))
    node.serve(sticky(*OTHERS))
    assert not answered_by_itself(node, "TCP", 5100, family)
    node.serve(sticky(A, *OTHERS))
    assert not any(answered_by_itself(node, "TCP", port, family) for port in range(5101, 5131))
    assert node.drops() == {}


def steady(hosts: Sequence[Host]) -> list[JsonValue]:
    made = service()
    annotations = {"policyc.dev/balance": "maglev"}
    metadata = made.raw["metadata"] | {"annotations": annotations}
    return [value(made.raw | {"metadata": metadata}), *slices(hosts)]


@families
def test_a_maglev_table_may_choose_the_pod_itself(node: NodeUnderTest, family: int) -> None:
    """The same client ports lead to it at each try, as the table says."""
    node.load(node.policy().allow("a", "world", ANY), services=steady([A, OTHERS[0]]))
    ports = range(5000, 5000 + TRIES)
    own = [p for p in ports if answered_by_itself(node, "TCP", p, family)]
    assert TRIES // 6 < len(own) < TRIES - TRIES // 6
    node.expire_connections(family)
    assert own == [p for p in ports if answered_by_itself(node, "TCP", p, family)]


@pytest.mark.parametrize("kind", [OUTSIDE, HANDED], ids=["outside", "of another node"])
@families
def test_a_client_without_hooks_on_this_node_never_gets_itself_as_endpoint(
    node: NodeUnderTest, picks_program: Path, family: int, kind: int
) -> None:
    """The packet keeps its source address, so the client would take it for its own."""
    there = slices([OTHERS[0], OTHERS[1]])
    for each in there:
        for endpoint in each.raw["endpoints"]:
            endpoint["nodeName"] = "node-1"
    node.load(node.policy(), services=[service(externalIPs=[OTHER_VIP.ip4, OTHER_VIP.ip6]), *there])
    client, other = (each.address(family) for each in OTHERS[:2])
    vip = OTHER_VIP.address(family)
    with picking(picks_program, node) as picks:
        asked = [Asked(client, vip, PORT, port, kind) for port in range(4000, 4040)]
        assert Counter(picks.ends(asked)) == {other: 40}


@families
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["TCP", "UDP"])
def test_sockets_of_a_pod_reach_the_pod_itself_or_another_endpoint(
    node: NodeUnderTest, wire: ServiceWire, family: int, kind: int
) -> None:
    """Real clients get a reply of whichever endpoint was chosen."""
    protocol = "TCP" if kind == socket.SOCK_STREAM else "UDP"
    served = web(A, C, protocol=protocol)
    node.load(node.policy().allow("a", "c", ANY), services=served)
    servers = {name: wire.server(name, family, kind, TARGET) for name in ("a", "c")}
    seen: Counter[str] = Counter()
    for _ in range(30):
        client = wire.client(family, kind, PORT)
        assert client is not None
        client.send(b"who?")
        seen[_answering(servers, kind)] += 1
        assert client.recv(100) == b"it is me"
        client.close()
    assert set(seen) == {"a", "c"}
    assert wire.bad_checksums() == 0
    assert node.drops() == {}


def _answering(servers: dict[str, socket.socket], kind: int) -> str:
    """The endpoint that has got the question; it answers."""
    ready, _, _ = select.select(list(servers.values()), [], [], WAITS)
    assert len(ready) == 1
    (name,) = (name for name, server in servers.items() if server is ready[0])
    if kind == socket.SOCK_DGRAM:
        _, where = ready[0].recvfrom(100)
        ready[0].sendto(b"it is me", where)
        return name
    accepted, _ = ready[0].accept()
    with accepted:
        assert accepted.recv(100) == b"who?"
        accepted.sendall(b"it is me")
    return name
