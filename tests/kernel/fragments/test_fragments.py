# SPDX-License-Identifier: Apache-2.0
"""Fragments follow their first one (semantics A27). The walk over IPv6 headers is bounded."""

from collections.abc import Callable

import pytest

from tests.kernel.support.fragment_frames import (
    first,
    later,
)
from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    AH,
    DSTOPTS,
    ESP,
    FRAGMENT,
    HOPOPTS,
    MORE,
    NO_NEXT,
    ROUTING,
    SCTP,
    TCP,
    UDP,
    extension,
    fragment6,
    frame,
    frame6,
    packed,
    raw,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import (
    service,
    udp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]


families = pytest.mark.parametrize("family", [4, 6])


@families
def test_later_fragments_follow_a_first_that_passed(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)).allow("world", "b", udp_port(53)))
    assert node.sent_by("a", first(A, B, family))
    assert node.sent_by("a", later(A, B, family))
    assert node.sent_to("b", first(A, B, family), came_in="pca")
    assert node.sent_to("b", later(A, B, family), came_in="pca")
    assert node.sent_to("b", first(WORLD, B, family))
    assert node.sent_to("b", later(WORLD, B, family))


@families
def test_a_fragment_without_its_first_is_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    assert not node.sent_by("a", later(A, B, family))
    assert node.sent_by("a", first(A, B, family))
    assert not node.sent_by("a", later(A, B, family, ident=2))
    assert node.drops() == {"fragment": 2}


@families
def test_later_fragments_of_a_denied_first_are_dropped(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy())
    assert not node.sent_by("a", first(A, B, family))
    assert not node.sent_by("a", later(A, B, family))
    assert node.drops() == {"policy": 1, "fragment": 1}


@families
def test_a_known_connection_records_its_first_fragments_too(
    node: NodeUnderTest, family: int
) -> None:
    """Also the first packet after a change of policy, and a reply."""
    policy = node.policy().allow("b", "a", service(1, 5000))
    node.load(policy)
    assert node.sent_by("b", frame(B, A, udp(53, 5000), family=family))
    assert node.sent_by("a", first(A, B, family))
    assert node.sent_by("a", later(A, B, family))
    node.load(policy)
    assert not node.sent_by("a", later(A, B, family))
    assert node.sent_by("a", first(A, B, family))
    assert node.sent_by("a", later(A, B, family))


@families
def test_a_spoofed_fragment_is_dropped_as_spoofed(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    assert node.sent_by("a", first(A, B, family))
    assert not node.sent_by("b", later(A, B, family))
    assert not node.sent_to("b", later(A, B, family))
    assert node.drops() == {"spoofed ip": 2}


@families
@pytest.mark.parametrize("proto", [TCP, SCTP], ids=["tcp", "sctp"])
def test_a_fragment_over_the_flags_or_the_chunk_header_is_dropped(
    node: NodeUnderTest, family: int, proto: int
) -> None:
    node.load(node.policy())
    if family == 4:
        overlap = frame(A, B, raw(proto, bytes(40)), fragment=1)
    else:
        overlap = frame6(A, B, FRAGMENT, fragment6(proto, bytes(40), offset=8, more=False))
    assert not node.sent_by("a", overlap)
    assert node.drops() == {"malformed": 1}


@families
def test_a_first_fragment_holds_its_transport_header(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    if family == 4:
        tiny = frame(A, B, raw(TCP, bytes(16)), fragment=MORE)
    else:
        tiny = frame6(A, B, FRAGMENT, fragment6(TCP, bytes(16), offset=0, more=True))
    assert not node.sent_by("a", tiny)
    assert node.drops() == {"malformed": 1}


def test_ipv4_options_are_skipped(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    assert node.sent_by("a", frame(A, B, udp(5000, 53), options=b"\x94\x04\x00\x00"))
    assert not node.sent_by("a", frame(A, B, udp(5000, 54), options=b"\x01" * 40))


OPTIONS = [
    ("a loose source route", bytes([1, 131, 7, 4, 10, 0, 1, 12]), "source route"),
    ("a strict source route", bytes([137, 7, 4, 10, 0, 1, 12, 0]), "source route"),
    ("a source route at the end", bytes([1] * 37 + [131, 3, 4]), "source route"),
    ("a record of the route that looks like one", bytes([7, 7, 4, 131, 137, 131, 137, 0]), None),
    ("a source route behind the end of options", bytes([0, 131, 3, 4]), None),
    ("nothing at all", bytes([1] * 40), None),
    ("an option of no length", bytes([7, 0, 131, 3]), "malformed"),
    ("an option behind the header", bytes([1, 1, 7, 9]), "malformed"),
    ("an option cut off", bytes([1, 1, 1, 7]), "malformed"),
]


@pytest.mark.parametrize(
    ("options_", "reason"), [c[1:] for c in OPTIONS], ids=[c[0] for c in OPTIONS]
)
def test_an_ipv4_packet_passes_or_is_dropped_by_its_options(
    node: NodeUnderTest, options_: bytes, reason: str | None
) -> None:
    """The node may accept source routes. B is allowed, and would only be a hop on the path to c."""
    node.load(node.policy().allow("a", "b", udp_port(53)))
    packet = frame(A, B, udp(5000, 53), options=options_)
    assert node.sent_by("a", packet) == (reason is None)
    assert node.drops() == ({reason: 1} if reason else {})


def options(times: int, body: bytes) -> bytes:
    """UDP behind that many headers; the first one's kind is for the header before it to say."""
    body = extension(UDP, body)
    for _ in range(times - 1):
        body = extension(DSTOPTS, body)
    return body


HEADERS = [
    ("none", UDP, lambda body: body, None),
    ("hop-by-hop", HOPOPTS, lambda body: extension(UDP, body), None),
    ("destination options of 16 bytes", DSTOPTS, lambda body: extension(UDP, body, words=1), None),
    ("routing, nothing left", ROUTING, lambda body: extension(UDP, body, third=4), None),
    ("an atomic fragment", FRAGMENT, lambda b: fragment6(UDP, b, offset=0, more=False), None),
    ("two kinds", HOPOPTS, lambda body: extension(ROUTING, extension(UDP, body)), None),
    ("six of them", DSTOPTS, lambda body: options(6, body), None),
    ("seven of them", DSTOPTS, lambda body: options(7, body), "ext headers"),
    ("routing by way of somebody", ROUTING,
     lambda body: extension(UDP, body, third=4, fourth=1), "ext headers"),
    ("a header behind the end", DSTOPTS, lambda _: extension(UDP, b"", words=9)[:8], "malformed"),
    ("ESP", ESP, lambda _: bytes(16), "policy"),
    ("AH, whatever it holds", AH, lambda body: extension(UDP, body), "policy"),
    ("no next header", NO_NEXT, lambda _: b"", "policy"),
    ("destination options, then nothing", DSTOPTS, lambda _: extension(NO_NEXT, b""), "policy"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wrap", "reason"), [c[1:] for c in HEADERS], ids=[c[0] for c in HEADERS]
)
def test_an_ipv6_packet_passes_or_is_dropped_by_its_headers(
    node: NodeUnderTest, kind: int, wrap: Callable[[bytes], bytes], reason: str | None
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    body = udp(5000, 53).build(packed(A.ip6), packed(B.ip6))
    assert node.sent_by("a", frame6(A, B, kind, wrap(body))) == (reason is None)
    assert node.drops() == ({reason: 1} if reason else {})


def test_other_protocols_are_named_by_their_number(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", service(5, ESP)))
    assert node.sent_by("a", frame6(A, B, ESP, bytes(16)))
    assert node.sent_by("a", frame(A, B, raw(ESP, bytes(16))))
    assert not node.sent_by("a", frame6(A, B, AH, bytes(16)))
    assert not node.sent_by("a", frame(A, B, tcp(1, ESP)))
