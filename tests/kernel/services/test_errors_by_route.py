# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about the node's connections to a Service by the route, in both directions."""

import socket

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.services.route import NAME
from tests.kernel.support.answers import NEXT
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    A,
    B,
    C,
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.packets import (
    ACK,
    MORE,
    SYN,
    Host,
    Payload,
    frame,
    inner,
    tcp,
    udp,
)
from tests.kernel.support.service_error_frames import (
    PAYLOADS,
    ROUTER,
    error,
)
from tests.kernel.support.service_route import (
    CIDRS,
    RESERVED,
    gets,
    heard,
    loaded,
    ran,
    said,
    sends,
    to,
)
from tests.kernel.support.service_route import routed as routed
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    web,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
ENDPOINTS = pytest.mark.parametrize(("pod", "host"), [("b", B), ("c", C)], ids=["here", "there"])


def quoted(src: Host, dst: Host, payload: Payload, family: int) -> bytes:
    return inner(frame(src, dst, payload, family=family))


def comes_in(node: NodeUnderTest, sent: bytes) -> tuple[int, bytes]:
    """What the uplink's hook makes of a frame from outside."""
    device = socket.if_nametoindex(UPLINK)
    with bpf_syscall.obj_get(node.pins.hook("pc_from_uplink")) as fd:
        return run_through(fd, sent, device, device)


@families
@ENDPOINTS
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
def test_an_error_of_the_endpoint_reaches_the_node(
    node: NodeUnderTest, family: int, pod: str, host: Host, protocol: str, make, much: bool
) -> None:
    """It arrives by the device of the route to the Service, as reverse path filters require."""
    loaded(node, host, protocol=protocol)
    first = (SYN,) if protocol == "TCP" else ()
    assert sends(node, to(VIP, make(4000, PORT, *first), family))
    about = error(family, quoted(NODE, host, make(4000, TARGET, *first), family), much)
    expected = error(family, quoted(NODE, VIP, make(4000, PORT, *first), family), much)
    for _ in range(2):
        assert gets(node, pod, said(host, about, family)) == heard(host, expected, family)
        node.load(node.policy(), uplinks=[UPLINK], service_cidr=CIDRS)  # no policy is asked
    assert node.drops() == {}


@families
@ENDPOINTS
def test_an_error_of_a_router_reaches_the_node(
    node: NodeUnderTest, family: int, pod: str, host: Host
) -> None:
    """It keeps the router's address and input device."""
    loaded(node, host)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    about = error(family, quoted(NODE, host, tcp(4000, TARGET, SYN), family), much=True)
    expected = error(family, quoted(NODE, VIP, tcp(4000, PORT, SYN), family), much=True)
    got = comes_in(node, frame(ROUTER, NODE, about, family=family))
    assert got == (NEXT, frame(ROUTER, NODE, expected, family=family))
    assert node.drops() == {}
    assert node.leaves("a", frame(A, NODE, about, family=family)) is None, "a pod is no router"
    assert node.drops() == {"policy": 1}


@families
def test_a_translated_port_is_restored_in_the_quoted_packet(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, B)
    assert node.sent_by_node_to("b", frame(NODE, B, tcp(4000, TARGET, SYN), family=family))
    got = sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    at = 34 if family == 4 else 54
    assert got is not None
    port = int.from_bytes(got[at : at + 2], "big")
    assert port != 4000
    about = error(family, quoted(NODE, B, tcp(port, TARGET, SYN), family), much=True)
    expected = error(family, quoted(NODE, VIP, tcp(4000, PORT, SYN), family), much=True)
    assert gets(node, "b", said(B, about, family)) == heard(B, expected, family)
    direct = said(B, error(family, quoted(NODE, B, tcp(4000, TARGET, SYN), family)), family)
    assert node.leaves("b", direct) == direct, "of the connection to the endpoint itself"


@families
@ENDPOINTS
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
def test_an_error_of_the_node_about_a_reply_reaches_the_endpoint(
    node: NodeUnderTest, family: int, pod: str, host: Host, protocol: str, make, much: bool
) -> None:
    loaded(node, host, protocol=protocol)
    first, back = ((SYN,), (SYN | ACK,)) if protocol == "TCP" else ((), ())
    assert sends(node, to(VIP, make(4000, PORT, *first), family))
    assert gets(node, pod, said(host, make(TARGET, 4000, *back), family))
    about = error(family, quoted(VIP, NODE, make(PORT, 4000, *back), family), much)
    expected = error(family, quoted(host, NODE, make(TARGET, 4000, *back), family), much)
    assert sends(node, to(VIP, about, family)) == to(host, expected, family)
    if pod in LOCAL:
        last = frame(NODE, host, expected, family=family)
        assert node.arrives(pod, last, came_in=None) == last
    else:
        last = frame(NODE, host, expected, family=family)
        assert node.goes_out(last, pod=None) == last
    assert node.drops() == {}


@families
def test_errors_of_a_node_that_is_its_own_endpoint_are_translated(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, NODE, protocol="UDP")
    assert sends(node, to(VIP, udp(4000, PORT), family))
    about = error(family, quoted(RESERVED, NODE, udp(4000, TARGET), family))
    expected = error(family, quoted(NODE, VIP, udp(4000, PORT), family))
    assert sends(node, to(RESERVED, about, family)) == to(NODE, expected, family, VIP)
    about = error(family, quoted(VIP, NODE, udp(PORT, 4000), family))
    expected = error(family, quoted(NODE, RESERVED, udp(TARGET, 4000), family))
    assert sends(node, to(VIP, about, family)) == to(NODE, expected, family, RESERVED)
    assert node.drops() == {}


@families
def test_errors_of_other_senders_are_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    asked = error(family, quoted(NODE, B, tcp(4000, TARGET, SYN), family))
    answered = error(family, quoted(VIP, NODE, tcp(PORT, 4000, SYN | ACK), family))
    assert gets(node, "a", said(B, asked, family)) is None, "from another pod's device"
    assert gets(node, "world", said(B, asked, family)) is None, "a pod's address from outside"
    assert gets(node, "world", frame(NODE, B, asked, family=family)) is None
    assert node.drops() == {"spoofed ip": 3}
    assert gets(node, "world", frame(ROUTER, VIP, answered, family=family)) is None
    assert gets(node, "a", frame(A, VIP, answered, family=family)) is None
    assert node.drops() == {"spoofed ip": 3, "unrelated": 2}
    assert sends(node, to(VIP, answered, family, A)) is None
    assert ran(node, "pc_to_route", to(VIP, answered, family), NAME, 1) is None


@families
def test_an_error_about_no_connection_is_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    about = error(family, quoted(VIP, NODE, tcp(PORT, 4000, SYN | ACK), family))
    assert sends(node, to(VIP, about, family)) is None
    about = error(family, quoted(RESERVED, NODE, tcp(4000, TARGET, SYN), family))
    assert sends(node, to(RESERVED, about, family)) is None
    assert node.drops() == {"unrelated": 2}


def test_fragments_of_errors_are_dropped(node: NodeUnderTest) -> None:
    loaded(node, B, protocol="UDP")
    assert sends(node, to(VIP, udp(4000, PORT, b"x" * 32), 4))
    about = error(4, quoted(NODE, B, udp(4000, TARGET, b"x" * 32), 4), much=True)
    assert gets(node, "b", frame(B, NODE, about, fragment=MORE)) is None
    assert node.drops() == {"node answer": 1}


@families
def test_an_error_of_a_removed_endpoint_is_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, B)
    assert sends(node, to(VIP, tcp(4000, PORT, SYN), family))
    node.serve(web(A))
    about = error(family, quoted(NODE, B, tcp(4000, TARGET, SYN), family))
    assert gets(node, "b", said(B, about, family)) is None
    assert node.drops() == {"backend gone": 1}
