# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about hairpin connections: both ends of the quoted packet become the pod's."""

import errno
import socket

import pytest

from tests.kernel.support.hairpin_frames import (
    RESERVED,
    comes_back,
    reply,
    request,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
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
    error,
)
from tests.kernel.support.service_frames import (
    ports_of,
    to_vip,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])


def quoted(src: Host, dst: Host, payload: Payload, family: int) -> bytes:
    return inner(frame(src, dst, payload, family=family))


@families
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
def test_an_error_about_a_hairpin_request_reaches_the_pod_as_client(
    node: NodeUnderTest, family: int, protocol: str, make, much: bool
) -> None:
    """The endpoint saw the reserved address. The client sent to the Service."""
    node.load(node.policy(), services=web(A, protocol=protocol))
    first = (SYN,) if protocol == "TCP" else ()
    assert comes_back(node, to_vip(make(4000, PORT, *first), family))
    about = error(family, quoted(RESERVED, A, make(4000, TARGET, *first), family), much)
    expected = error(family, quoted(A, VIP, make(4000, PORT, *first), family), much)
    for _ in range(2):
        got = comes_back(node, frame(A, RESERVED, about, family=family))
        assert got == frame(VIP, A, expected, family=family)
        node.load(node.policy())  # no policy is asked
    assert node.drops() == {}


@families
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
def test_an_error_about_a_hairpin_reply_reaches_the_pod_as_endpoint(
    node: NodeUnderTest, family: int, protocol: str, make, much: bool
) -> None:
    node.load(node.policy(), services=web(A, protocol=protocol))
    first, back = ((SYN,), (SYN | ACK,)) if protocol == "TCP" else ((), ())
    assert comes_back(node, to_vip(make(4000, PORT, *first), family))
    assert comes_back(node, reply(make(TARGET, 4000, *back), family))
    about = error(family, quoted(VIP, A, make(PORT, 4000, *back), family), much)
    expected = error(family, quoted(A, RESERVED, make(TARGET, 4000, *back), family), much)
    for _ in range(2):
        got = comes_back(node, frame(A, VIP, about, family=family))
        assert got == frame(RESERVED, A, expected, family=family)
        node.load(node.policy())
    assert node.drops() == {}


@families
def test_a_translated_port_is_restored_in_the_quoted_packet(
    node: NodeUnderTest, family: int
) -> None:
    both = [service(), service("other", OTHER_VIP), *slices([A]), *slices([A], "other")]
    node.load(node.policy(), services=both)
    assert comes_back(node, to_vip(tcp(4000, PORT, SYN), family))
    port, _ = ports_of(comes_back(node, to_vip(tcp(4000, PORT, SYN), family, OTHER_VIP)), family)
    assert port != 4000
    about = error(family, quoted(RESERVED, A, tcp(port, TARGET, SYN), family), much=True)
    expected = error(family, quoted(A, OTHER_VIP, tcp(4000, PORT, SYN), family), much=True)
    got = comes_back(node, frame(A, RESERVED, about, family=family))
    assert got == frame(OTHER_VIP, A, expected, family=family)
    about = error(family, quoted(OTHER_VIP, A, tcp(PORT, 4000, SYN | ACK), family), much=True)
    expected = error(family, quoted(A, RESERVED, tcp(TARGET, port, SYN | ACK), family), much=True)
    got = comes_back(node, frame(A, OTHER_VIP, about, family=family))
    assert got == frame(RESERVED, A, expected, family=family)


@families
def test_errors_of_other_pods_are_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP"))
    assert comes_back(node, to_vip(udp(4000, PORT), family))
    asked = error(family, quoted(RESERVED, A, udp(4000, TARGET), family))
    answered = error(family, quoted(VIP, A, udp(PORT, 4000), family))
    before = node.drops()
    assert before == {}
    assert node.leaves("a", frame(A, RESERVED, asked, family=family, smac=B.mac)) is None
    assert node.leaves("b", frame(A, RESERVED, asked, family=family)) is None
    assert node.leaves("b", frame(A, VIP, answered, family=family)) is None
    assert node.drops() == {"spoofed mac": 1, "spoofed ip": 2}
    assert node.leaves("b", frame(B, RESERVED, asked, family=family)) is None
    assert node.leaves("b", frame(B, VIP, answered, family=family)) is None
    assert node.drops() == {"spoofed mac": 1, "spoofed ip": 2, "policy": 1, "unrelated": 1}


def test_a_fragment_of_an_error_is_dropped(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=web(A, protocol="UDP"))
    assert comes_back(node, to_vip(udp(4000, PORT, b"x" * 32), 4))
    about = error(4, quoted(RESERVED, A, udp(4000, TARGET, b"x" * 32), 4), much=True)
    assert node.leaves("a", frame(A, RESERVED, about, fragment=MORE)) is None
    assert node.drops() == {"hairpin": 1}


@families
def test_an_error_and_its_quoted_packet_are_translated_alike(
    node: NodeUnderTest, family: int
) -> None:
    """An outer packet becomes a request, and the quoted packet becomes what the pod sent."""
    node.load(node.policy(), services=web(A, protocol="UDP"))
    sent = to_vip(udp(4000, PORT, b"data"), family)
    got = comes_back(node, sent)
    assert got == request(udp(4000, TARGET, b"data"), family)
    told = comes_back(node, frame(A, RESERVED, error(family, inner(got), True), family=family))
    assert inner(told)[-len(inner(sent)) :] == inner(sent)


@families
def test_a_socket_receives_the_port_unreachable_error(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """No process listens in the pod, so the pod's kernel sends the error to the pod itself."""
    node.load(node.policy(), services=web(A, protocol="UDP"))
    asking = wire.client(family, socket.SOCK_DGRAM, PORT)
    assert asking is not None
    asking.send(b"who?")
    with pytest.raises(OSError) as refused:
        asking.recv(100)
    assert refused.value.errno == errno.ECONNREFUSED
    assert wire.bad_checksums() == 0
    assert node.drops() == {}
