# SPDX-License-Identifier: Apache-2.0
"""ICMP errors and fragments of connections to Services are translated as the connection is."""

import struct

import pytest

from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    UDP,
    Host,
    Payload,
    frame,
    inner,
    raw,
    tcp,
    udp,
)
from tests.kernel.support.service_error_frames import (
    DATA,
    GATEWAY,
    PAYLOADS,
    ROUTER,
    answered,
    error,
    fragments,
    seen,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    udp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])


@families
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
@pytest.mark.parametrize("sender", ["router", "endpoint", "node"])
def test_an_error_about_a_request_is_translated_for_the_client(
    node: NodeUnderTest, family: int, protocol: str, make, much: bool, sender: str
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol=protocol))
    first = (SYN,) if protocol == "TCP" else ()
    assert node.leaves("a", frame(A, VIP, make(4000, PORT, *first), family=family))
    reporter = Host(GATEWAY, C.ip4, C.ip6) if sender == "endpoint" else ROUTER
    shown = Host(GATEWAY, VIP.ip4, VIP.ip6) if sender == "endpoint" else ROUTER
    about = error(family, seen(C, make(4000, TARGET, *first), family), much)
    expected = error(family, seen(VIP, make(4000, PORT, *first), family), much)
    got = node.arrives(
        "a",
        frame(reporter, A, about, family=family),
        came_in=None if sender == "node" else "pcup",
    )
    assert got == frame(shown, A, expected, family=family)


@families
@pytest.mark.parametrize(("protocol", "make", "much"), PAYLOADS)
def test_an_error_about_a_reply_is_translated_for_the_endpoint(
    node: NodeUnderTest, family: int, protocol: str, make, much: bool
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol=protocol))
    first = (SYN,) if protocol == "TCP" else ()
    assert node.leaves("a", frame(A, VIP, make(4000, PORT, *first), family=family))
    about = error(family, answered(VIP, make(PORT, 4000), family), much)
    expected = error(family, answered(C, make(TARGET, 4000), family), much)
    sent = node.leaves("a", frame(A, VIP, about, family=family))
    assert sent == frame(A, VIP, expected, family=family, daddr=C.address(family))


@families
def test_an_endpoints_error_is_translated_by_the_clients_hook_only(
    node: NodeUnderTest, family: int
) -> None:
    """The endpoint's hook passes the error unchanged."""
    node.load(node.policy().allow("a", "b", ANY), services=web(B, protocol="UDP"))
    assert node.leaves("a", frame(A, VIP, udp(4000, PORT), family=family))
    about = error(family, seen(B, udp(4000, TARGET), family))
    report = frame(B, VIP, about, family=family, daddr=A.address(family))
    assert node.leaves("b", report) == report


@families
def test_an_error_about_a_translated_port_reaches_the_client(
    node: NodeUnderTest, family: int
) -> None:
    node.load(
        node.policy().allow("a", "c", ANY),
        services=[service(), service("other", OTHER_VIP), *slices([C]), *slices([C], "other")],
    )
    assert node.leaves("a", frame(A, VIP, tcp(4000, PORT, SYN), family=family))
    sent = node.leaves("a", frame(A, OTHER_VIP, tcp(4000, PORT, SYN), family=family))
    assert sent is not None
    (port,) = struct.unpack_from("!H", inner(sent), 20 if family == 4 else 40)
    assert port != 4000
    about = error(family, seen(C, tcp(port, TARGET, SYN), family), much=True)
    expected = error(family, seen(OTHER_VIP, tcp(4000, PORT, SYN), family), much=True)
    got = node.arrives("a", frame(ROUTER, A, about, family=family))
    assert got == frame(ROUTER, A, expected, family=family)


def test_a_zero_udp_checksum_in_a_quoted_packet_stays_zero(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="UDP"))

    def bare(port: int) -> Payload:
        return raw(UDP, struct.pack("!HHHH", 4000, port, 8, 0))

    assert node.leaves("a", frame(A, VIP, bare(PORT)))
    got = node.arrives("a", frame(ROUTER, A, error(4, seen(C, bare(TARGET), 4))))
    assert got == frame(ROUTER, A, error(4, seen(VIP, bare(PORT), 4)))


@families
def test_an_error_that_quotes_the_services_address_is_decided_by_policy(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    assert node.leaves("a", frame(A, VIP, tcp(4000, PORT, SYN), family=family))
    about = error(family, seen(VIP, tcp(4000, PORT, SYN), family))
    assert node.arrives("a", frame(ROUTER, A, about, family=family)) is None
    assert node.drops() == {"policy": 1}


@families
@pytest.mark.parametrize("endpoint", ["a pod", "the node"])
def test_fragments_follow_their_first(node: NodeUnderTest, family: int, endpoint: str) -> None:
    node.load(
        node.policy().allow("a", "c", udp_port(53)).allow("a", "world", udp_port(53)),
        services=web(C if endpoint == "a pod" else WORLD, protocol="UDP", port=53),
    )
    end = C if endpoint == "a pod" else WORLD
    for _ in range(2):  # of a connection that is new, and one that is known
        given = fragments(A, VIP, (4000, PORT), family, A, VIP)
        expected = fragments(A, VIP, (4000, 53), family, A, end)
        assert tuple(node.leaves("a", each) for each in given) == expected
        gateway = Host(GATEWAY, "", "")
        given = fragments(gateway, A, (53, 4000), family, end, A)
        expected = fragments(gateway, A, (PORT, 4000), family, VIP, A)
        assert tuple(node.arrives("a", each) for each in given) == expected


@families
def test_fragments_of_a_connection_under_another_policy_follow_their_first(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="UDP", port=53))
    assert node.leaves("a", frame(A, VIP, udp(4000, PORT, DATA), family=family))
    node.load(node.policy().allow("a", "c", udp_port(53)))
    gateway = Host(GATEWAY, "", "")
    given = fragments(gateway, A, (53, 4000), family, C, A)
    expected = fragments(gateway, A, (PORT, 4000), family, VIP, A)
    assert tuple(node.arrives("a", each) for each in given) == expected
    given = fragments(A, VIP, (4000, PORT), family, A, VIP)
    expected = fragments(A, VIP, (4000, 53), family, A, C)
    assert tuple(node.leaves("a", each) for each in given) == expected


@families
def test_fragments_alone_do_not_reach_a_service(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "c", ANY).allow("a", "world", ANY)
    node.load(policy, services=web(C, protocol="UDP", port=53))
    first, later = fragments(A, VIP, (4000, PORT), family, A, VIP)
    assert node.leaves("a", later) is None
    assert node.leaves("a", first)
    node.serve([])
    assert node.leaves("a", later) is None, "its endpoint is gone"
    assert node.drops() == {"fragment": 1, "backend gone": 1}
