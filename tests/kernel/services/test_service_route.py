# SPDX-License-Identifier: Apache-2.0
"""The node sends to a Service by its route: every frame at the hooks, byte for byte."""

import socket
import subprocess

import pytest

from policyc.runtime import switch
from policyc.runtime.devices import own_device
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.services import route as service_route
from policyc.runtime.services.route import NAME
from tests.kernel.support.answers import answer_of
from tests.kernel.support.killed import (
    die,
    killed,
)
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    MORE,
    RST,
    SYN,
    Host,
    Payload,
    echo,
    frame,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_route import (
    CIDRS,
    DEVICE_MAC,
    ON_DEVICE,
    RESERVED,
    gets,
    heard,
    loaded,
    routed,
    said,
    sends,
    to,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    web,
)

__all__ = ["routed"]

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])


def exchanged(protocol: str, target: int, flags: int) -> tuple[Payload, ...]:
    """The request to the Service and to the endpoint; the endpoint's reply and its translation."""
    if protocol == "TCP":
        more = flags | ACK
        asked = tcp(4000, PORT, flags), tcp(4000, target, flags)
        return *asked, tcp(target, 4000, more), tcp(PORT, 4000, more)
    if protocol == "UDP":
        return udp(4000, PORT), udp(4000, target), udp(target, 4000), udp(PORT, 4000)
    chunk = 1 if flags == SYN else 0
    return sctp(4000, PORT, chunk), sctp(4000, target, chunk), sctp(target, 4000), sctp(PORT, 4000)


@pytest.mark.both_families
@families
def test_request_and_reply_are_translated(node: NodeUnderTest, family: int) -> None:
    """No policy is asked: the pods are isolated. The pod's own hook sees packets of the node."""
    loaded(node)
    for protocol, target in (("TCP", TARGET), ("UDP", TARGET), ("SCTP", PORT)):
        for pod, host in (("b", B), ("c", C)):
            node.serve(web(host, protocol=protocol, port=target))
            for flags in (SYN, ACK, ACK, FIN | ACK):
                asked, there, back, known = exchanged(protocol, target, flags)
                assert sends(node, to(VIP, asked, family)) == to(host, there, family)
                if pod in LOCAL:
                    sent = frame(NODE, host, there, family=family)
                    assert node.sent_by_node_to(pod, sent)
                assert gets(node, pod, said(host, back, family)) == heard(host, known, family)
            node.expire_connections(family)
    assert node.drops() == {}


@families
def test_the_node_is_its_own_endpoint(node: NodeUnderTest, family: int) -> None:
    loaded(node, NODE)
    for flags in (SYN, ACK, FIN | ACK):
        got = sends(node, to(VIP, tcp(4000, PORT, flags), family))
        assert got == to(NODE, tcp(4000, TARGET, flags), family, RESERVED)
        got = sends(node, to(RESERVED, tcp(TARGET, 4000, flags | ACK), family))
        assert got == to(NODE, tcp(PORT, 4000, flags | ACK), family, VIP)
    assert node.drops() == {}


@families
def test_packets_that_forge_either_end_are_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    back = tcp(TARGET, 4000, SYN | ACK)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family)) is not None
    assert gets(node, "world", frame(NODE, VIP, tcp(4000, PORT, ACK), family=family)) is None
    assert gets(node, "world", frame(NODE, B, tcp(4000, TARGET, ACK), family=family)) is None
    assert gets(node, "a", said(B, back, family)) is None
    assert gets(node, "world", said(B, back, family)) is None
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family, WORLD)) is None
    assert node.drops() == {"spoofed ip": 5}
    assert gets(node, "b", said(B, back, family)) is not None
    node.serve(web(C))
    assert sends(node, to(VIP, tcp(4001, PORT, SYN), family)) is not None
    assert gets(node, "a", said(C, tcp(TARGET, 4001, SYN | ACK), family)) is None
    assert node.drops() == {"spoofed ip": 6}


@families
def test_a_removed_endpoint_ends_tcp_and_moves_udp(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family)) is not None
    assert gets(node, "b", said(B, tcp(TARGET, 4000, SYN | ACK), family)) is not None
    node.serve(web(A))
    assert sends(node, to(VIP, tcp(4000, PORT, ACK), family)) is None
    assert gets(node, "b", said(B, tcp(TARGET, 4000, ACK), family)) is None
    assert node.drops() == {"backend gone": 2}
    node.serve(web(B, protocol="UDP"))
    sent = to(VIP, udp(5000, PORT), family)
    assert sends(node, sent) == to(B, udp(5000, TARGET), family)
    node.serve(web(C, protocol="UDP"))
    assert sends(node, sent) == to(C, udp(5000, TARGET), family)


@families
def test_a_service_without_endpoints_refuses_the_node(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    got = sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    assert got is not None
    told = answer_of(got)
    assert told.proto == 6 and told.body[13] & RST
    assert node.drops() == {"no backend": 1}


@families
def test_a_packet_to_no_service_is_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    for sent in (
        to(OTHER_VIP, tcp(4000, PORT, SYN), family),
        to(VIP, tcp(4000, PORT + 1, SYN), family),
        to(VIP, echo(family), family),
    ):
        assert sends(node, sent) is None
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family), socket.if_nametoindex(UPLINK)) is None
    assert node.drops() == {"no backend": 4}


def test_fragments_are_dropped_in_both_directions(node: NodeUnderTest) -> None:
    loaded(node, B, protocol="UDP")
    whole = udp(4000, PORT, b"x" * 32)
    cut = frame(ON_DEVICE, Host(DEVICE_MAC, VIP.ip4, VIP.ip6), whole, fragment=MORE)
    assert sends(node, cut) is None
    assert node.drops() == {"fragment": 1}
    assert sends(node, to(VIP, udp(4000, PORT), 4)) is not None
    assert gets(node, "b", frame(B, NODE, udp(TARGET, 4000, b"x" * 32), fragment=MORE)) is None
    assert node.drops() == {"fragment": 1, "node answer": 1}


@families
def test_an_endpoint_that_no_uplink_leads_to_is_dropped(node: NodeUnderTest, family: int) -> None:
    ip(f"-{family}", "route", "del", C.address(family))
    loaded(node, C)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family)) is None
    assert node.drops() == {"no route": 1}


@pytest.mark.both_families
@families
def test_a_source_port_in_use_is_translated_to_another(node: NodeUnderTest, family: int) -> None:
    """The node has a direct connection to the endpoint."""
    loaded(node, B)
    assert node.sent_by_node_to("b", frame(NODE, B, tcp(4000, TARGET, SYN), family=family))
    got = sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    at = 34 if family == 4 else 54
    assert got is not None
    port = int.from_bytes(got[at : at + 2], "big")
    assert port != 4000 and got == to(B, tcp(port, TARGET, SYN), family)
    back = gets(node, "b", said(B, tcp(TARGET, port, SYN | ACK), family))
    assert back == heard(B, tcp(PORT, 4000, SYN | ACK), family)


@families
def test_clients_stay_with_their_endpoint(node: NodeUnderTest, family: int) -> None:
    loaded(node, A, B, sessionAffinity="ClientIP")
    found = {
        (sends(node, to(VIP, tcp(port, PORT, SYN), family)) or b"")[16:40]
        for port in range(4000, 4016)
    }
    ends = {each[14:18] if family == 4 else each for each in found}
    assert len(ends) == 1


def test_an_existing_route_is_not_replaced(node: NodeUnderTest) -> None:
    ip("route", "add", "10.100.0.0/16", "dev", UPLINK)
    with pytest.raises(
        InputError, match=r"--service-cidr 10\.96\.0\.0/12: there is a route to 10\.100"
    ):
        loaded(node, B)
    assert NAME not in [name for _, name in socket.if_nameindex()]
    assert node.status() is None


def test_a_load_that_fails_keeps_the_previous_routes(node: NodeUnderTest) -> None:
    """The node does not have the address that it would send from."""
    loaded(node, B)
    before = routes()
    ip("addr", "del", f"{NODE.ip4}/32", "dev", "lo")
    kept = routes()
    assert len(kept) < len(before), "the kernel takes what has that source"
    with pytest.raises(HostError, match="cannot route"):
        loaded(node, B)
    assert routes() == kept
    node.unload()
    with pytest.raises(HostError, match="cannot route"):
        loaded(node, B)
    assert NAME not in [name for _, name in socket.if_nameindex()]


@pytest.mark.parametrize("at", ["while it is made", "at the switch"])
def test_the_next_command_cleans_up_after_a_killed_load(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    place = {"while it is made": (own_device, "quieten"), "at the switch": (switch, "store")}[at]

    def step() -> None:
        monkeypatch.setattr(*place, die)
        loaded(node, B)

    killed(step)
    node.n_bundles += 1
    loaded(node, B)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), 6)) == to(B, tcp(4000, TARGET, SYN), 6)
    assert len(routes()) == 4
    node.unload()
    assert NAME not in [name for _, name in socket.if_nameindex()]


def test_a_route_may_disappear_while_it_is_removed(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(node)
    listed = service_route._ours

    def and_then_gone(netlink: object, ifindex: int) -> list[object]:
        found = listed(netlink, ifindex)
        subprocess.run(["ip", "-4", "route", "flush", "dev", NAME], check=True)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(service_route, "_ours", and_then_gone)
        node.load(node.policy(), uplinks=[UPLINK], service_cidr=CIDRS[1:])


def test_ranges_that_the_next_load_does_not_name_are_removed(node: NodeUnderTest) -> None:
    loaded(node, B)
    assert any(each.startswith("fd96::/112") for each in routes())
    node.load(node.policy(), uplinks=[UPLINK], service_cidr=["10.96.0.0/16"])
    assert sorted(each.split()[0] for each in routes()) == ["10.96.0.0/16", "169.254.255.1"]
    node.unload()
    assert NAME not in [name for _, name in socket.if_nameindex()]


def routes() -> list[str]:
    found = [
        subprocess.run(
            ["ip", f"-{family}", "route", "show", "dev", NAME],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for family in (4, 6)
    ]
    return sorted(each for lines in found for each in lines)
