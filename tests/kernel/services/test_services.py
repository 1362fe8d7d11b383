# SPDX-License-Identifier: Apache-2.0
"""Pods reach Services: every request and reply, byte for byte, and their conntrack entries.

The builders make frames with right checksums. A translated frame equals the expected frame only if
every checksum was updated.
"""

import struct

import pytest

from tests.kernel.support.answers import REDIRECT
from tests.kernel.support.node_under_test import (
    NODE,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    UDP,
    Host,
    frame,
    packed,
    raw,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_frames import (
    FRONT,
    NAT,
    REPLIED,
    SECOND,
    _state,
    answer,
    as_to,
    ports_of,
    to_vip,
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
    sctp_port,
    tcp_port,
    udp_port,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])


def opened(node: NodeUnderTest, port: int = 4000, family: int = 4) -> None:
    """An established connection to the Service with one endpoint."""
    for flags in (SYN, ACK, ACK, ACK):
        assert node.leaves("a", to_vip(tcp(port, PORT, flags), family))
        assert node.arrives("a", answer(C, tcp(TARGET, port, flags | ACK), family))


@pytest.mark.both_families
@families
def test_tcp_is_translated_to_the_endpoint_and_back(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", tcp_port(TARGET)), services=web(C))
    for flags in (SYN, ACK, ACK, FIN | ACK):
        data = b"odd" if flags == ACK else b""
        sent = node.leaves("a", to_vip(tcp(4000, PORT, flags, data), family))
        assert sent == as_to(C, tcp(4000, TARGET, flags, data), family)
        got = node.arrives("a", answer(C, tcp(TARGET, 4000, flags | ACK, data), family))
        assert got == answer(VIP, tcp(PORT, 4000, flags | ACK, data), family)
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_udp_is_translated_to_the_endpoint_and_back(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", udp_port(53)), services=web(C, protocol="UDP", port=53))
    for port in (4000, 4001, 4000):
        sent = node.leaves("a", to_vip(udp(port, PORT), family))
        assert sent == as_to(C, udp(port, 53), family)
        got = node.arrives("a", answer(C, udp(53, port), family))
        assert got == answer(VIP, udp(PORT, port), family)
    assert node.drops() == {}


def _checksum_field(sent: bytes | None) -> bytes:
    assert sent is not None
    return sent[14 + 20 + 6 : 14 + 20 + 8]


def test_udp_without_a_checksum_stays_without(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", udp_port(53)), services=web(C, protocol="UDP", port=53))
    bare = raw(UDP, struct.pack("!HHHH", 4000, PORT, 8 + 3, 0) + b"abc")
    expected = raw(UDP, struct.pack("!HHHH", 4000, 53, 8 + 3, 0) + b"abc")
    sent = node.leaves("a", to_vip(bare))
    assert sent == as_to(C, expected)
    assert _checksum_field(sent) == b"\0\0"


@pytest.mark.both_families
@families
def test_a_udp_checksum_that_comes_to_zero_is_written_as_ones(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="UDP", port=53))
    src, dst = packed(A.address(family)), packed(C.address(family))
    plain = udp(4000, 53, b"\0\0").build(src, dst)
    left = struct.unpack("!H", plain[6:8])[0]  # data that makes the sum of everything ffff
    data = struct.pack("!H", left)
    assert udp(4000, 53, data).build(src, dst)[6:8] == b"\xff\xff"
    sent = node.leaves("a", to_vip(udp(4000, PORT, data), family))
    assert sent == as_to(C, udp(4000, 53, data), family)


@pytest.mark.both_families
@families
def test_sctp_changes_its_address_only(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "c", sctp_port(PORT))
    node.load(policy, services=web(C, protocol="SCTP", port=PORT))
    assert node.leaves("a", to_vip(sctp(4000, PORT, 1), family)) == as_to(
        C, sctp(4000, PORT, 1), family
    )
    got = node.arrives("a", answer(C, sctp(PORT, 4000, 2), family))
    assert got == answer(VIP, sctp(PORT, 4000, 2), family)


@families
def test_a_connection_has_an_established_pre_nat_and_post_nat_entry(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", tcp_port(TARGET)), services=web(C))
    opened(node, family=family)
    fronts = [each for each in node.table(f"pc_ct{family}") if _state(each) & FRONT]
    proper = [each for each in node.table(f"pc_ct{family}") if not _state(each) & FRONT]
    assert len(fronts) == len(proper) == 1, "both are in the established table"
    assert not node.table(f"pc_ct{family}_new")
    assert fronts[0]["flow_id"] == proper[0]["flow_id"]
    # The port and the endpoint, struct pc_ct_nat: in the end to which the entry forwards nothing.
    assert fronts[0]["src"][10:12] == proper[0]["dst"][10:12] == struct.pack("!H", 4000)
    assert fronts[0]["src"][12:] == proper[0]["dst"][12:] != bytes(4)
    both = _state(fronts[0]) & _state(proper[0])
    assert both & NAT and both & REPLIED, "both are translated and answered"


@families
def test_policy_sees_the_endpoint_and_the_client(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=web(B))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN), family)) is None
    assert node.drops() == {"policy": 1} and not node.connections(family)
    node.load(node.policy().allow_egress("a", "b", tcp_port(TARGET)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN), family)) is None, "policy of b denies it"
    node.load(node.policy().allow("a", "b", tcp_port(PORT)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN), family)) is None, "the Service's own port"
    node.load(node.policy().allow("a", "b", tcp_port(TARGET)))
    sent = node.leaves("a", to_vip(tcp(4000, PORT, SYN), family))
    assert sent == as_to(B, tcp(4000, TARGET, SYN), family)


@families
def test_an_endpoint_on_the_same_node_is_reached_through_all_hooks(
    node: NodeUnderTest, family: int
) -> None:
    """All four hooks run, with the host's stack between them."""
    node.load(node.policy().allow("a", "b", tcp_port(TARGET)), services=web(B))
    for flags in (SYN, ACK, ACK, ACK):
        sent = node.leaves("a", to_vip(tcp(4000, PORT, flags), family))
        assert sent == as_to(B, tcp(4000, TARGET, flags), family)
        assert node.arrives("b", sent, came_in="pca") == sent
        back = frame(B, VIP, tcp(TARGET, 4000, flags | ACK), family=family, daddr=A.address(family))
        assert node.leaves("b", back) == back, "the client's hook translates the reply"
        got = node.arrives("a", answer(B, tcp(TARGET, 4000, flags | ACK), family), came_in="pcb")
        assert got == answer(VIP, tcp(PORT, 4000, flags | ACK), family)
    assert len(node.table(f"pc_ct{family}")) == 2
    assert node.drops() == {}


@families
def test_an_endpoint_in_the_host_network_is_reached(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "world", tcp_port(6443)), services=web(NODE, port=6443))
    sent = node.leaves("a", to_vip(tcp(4000, PORT, SYN), family))
    assert sent == as_to(NODE, tcp(4000, 6443, SYN), family)
    got = node.arrives("a", answer(NODE, tcp(6443, 4000, SYN | ACK), family), came_in=None)
    assert got == answer(VIP, tcp(PORT, 4000, SYN | ACK), family)


def test_every_endpoint_is_chosen(node: NodeUnderTest) -> None:
    policy = node.policy().allow("a", "b", ANY).allow("a", "c", ANY).allow("a", "world", ANY)
    node.load(policy, services=web(B, C, SECOND))
    went = [node.leaves("a", to_vip(tcp(4000 + i, PORT, SYN))) for i in range(200)]
    ends = [sent[30:34] for sent in went if sent]
    for host in (B, C, SECOND):
        assert 30 < ends.count(packed(host.ip4)) < 110
    assert len(ends) == 200


def test_a_service_without_endpoints_is_counted(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=web())
    for payload in (tcp(4000, PORT, SYN), tcp(4001, PORT, SYN)):
        assert node.answered("a", to_vip(payload))[0] == REDIRECT, "test_service_no_endpoints.py"
    assert node.leaves("a", to_vip(tcp(4000, PORT + 1, SYN))), "a port that is not the Service's"
    assert node.drops() == {"no backend": 2}
    assert len(node.connections()) == 1


def test_ready_endpoints_are_chosen_before_terminating_ones_that_serve(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY))
    draining = {"ready": False, "serving": True, "terminating": True}
    node.serve(web((B, {"ready": True}), (C, draining)))
    assert {_end(node, 5000 + i) for i in range(30)} == {B.ip4}
    node.serve(web((B, {"ready": False}), (C, draining)))
    assert {_end(node, 5100 + i) for i in range(30)} == {C.ip4}
    node.serve(web((B, {"ready": False}), (C, draining | {"serving": False})))
    assert node.answered("a", to_vip(tcp(5200, PORT, SYN)))[0] == REDIRECT
    assert node.drops() == {"no backend": 1}


def _end(node: NodeUnderTest, port: int) -> str:
    sent = node.leaves("a", to_vip(tcp(port, PORT, SYN)))
    assert sent is not None
    return ".".join(str(byte) for byte in sent[30:34])


@pytest.mark.both_families
@families
def test_a_source_port_in_use_is_translated_to_another(node: NodeUnderTest, family: int) -> None:
    """The pod uses the port for a direct connection to the endpoint, and for the Service's other
    address.
    """
    policy = node.policy().allow("a", "c", ANY)
    both = [service(), service("other", OTHER_VIP), *slices([C]), *slices([C], "other")]
    node.load(policy, services=both)
    direct = frame(A, C, tcp(4000, TARGET, SYN), family=family)
    assert node.leaves("a", direct) == direct
    taken = {4000}
    for vip in (VIP, OTHER_VIP):
        sent = node.leaves("a", to_vip(tcp(4000, PORT, SYN), family, vip))
        port, target = ports_of(sent, family)
        assert target == TARGET and port not in taken
        taken.add(port)
        assert sent == frame(A, vip, tcp(port, TARGET, SYN), family=family, daddr=C.address(family))
        got = node.arrives("a", answer(C, tcp(TARGET, port, SYN | ACK), family))
        assert got == answer(vip, tcp(PORT, 4000, SYN | ACK), family)
        again = node.leaves("a", to_vip(tcp(4000, PORT, ACK), family, vip))
        assert ports_of(again, family) == (port, TARGET)
    back = answer(C, tcp(TARGET, 4000, SYN | ACK), family)
    assert node.arrives("a", back) == back, "the direct one is not translated"
    assert node.drops() == {}


def test_a_direct_connection_from_a_port_that_is_taken_is_refused(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    assert node.leaves("a", frame(A, C, tcp(4000, TARGET, SYN))) is None
    assert node.drops() == {"nat taken": 1}
    assert node.leaves("a", frame(A, C, tcp(4001, TARGET, SYN)))


def test_sctp_whose_port_is_taken_is_refused(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="SCTP", port=PORT))
    assert node.leaves("a", frame(A, C, sctp(4000, PORT, 1)))
    assert node.leaves("a", to_vip(sctp(4000, PORT, 1))) is None
    assert node.drops() == {"nat taken": 1}


@pytest.mark.both_families
@families
def test_a_removed_endpoint_ends_tcp_and_moves_udp(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "c", ANY).allow("a", "world", ANY)
    node.load(policy, services=web(C))
    opened(node, family=family)
    node.serve(web(SECOND))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK), family)) is None
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, ACK), family)) is None
    assert node.drops() == {"backend gone": 2}
    sent = node.leaves("a", to_vip(tcp(4000, PORT, SYN), family))
    assert sent == as_to(SECOND, tcp(4000, TARGET, SYN), family), "a new connection may begin"

    node.serve(web(C, protocol="UDP", port=53))
    assert node.leaves("a", to_vip(udp(4000, PORT), family)) == as_to(C, udp(4000, 53), family)
    node.serve(web(SECOND, protocol="UDP", port=53))
    sent = node.leaves("a", to_vip(udp(4000, PORT), family))
    assert sent == as_to(SECOND, udp(4000, 53), family)
    assert node.arrives("a", answer(C, udp(53, 4000), family)) is None


def test_an_endpoint_that_is_not_ready_keeps_its_tcp_connections(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    opened(node)
    node.serve(web((C, {"ready": False})))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, ACK)))
    assert node.answered("a", to_vip(tcp(4001, PORT, SYN)))[0] == REDIRECT
    assert node.drops() == {"no backend": 1}


def test_an_endpoint_that_stays_keeps_its_connections(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY).allow("a", "world", ANY), services=web(C))
    opened(node)
    for backends in ((C, SECOND), (SECOND, C), (C,)):
        node.serve(web(*backends))
        assert node.leaves("a", to_vip(tcp(4000, PORT, ACK))) == as_to(C, tcp(4000, TARGET, ACK))
    node.load(node.policy().allow("a", "c", ANY))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK))) == as_to(C, tcp(4000, TARGET, ACK))
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))), "a load leaves the Services there"


@families
@pytest.mark.parametrize("first", ["client", "endpoint"])
def test_a_connection_follows_the_policy(node: NodeUnderTest, family: int, first: str) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    opened(node, family=family)
    request = to_vip(tcp(4000, PORT, ACK), family)
    reply = answer(C, tcp(TARGET, 4000, ACK), family)
    node.load(node.policy().allow("a", "c", tcp_port(TARGET)))
    for _ in range(2):
        if first == "client":
            assert node.leaves("a", request) == as_to(C, tcp(4000, TARGET, ACK), family)
        assert node.arrives("a", reply) == answer(VIP, tcp(PORT, 4000, ACK), family)
        assert node.leaves("a", request) == as_to(C, tcp(4000, TARGET, ACK), family)
    node.load(node.policy())
    for _ in range(2):
        if first == "client":
            assert node.leaves("a", request) is None
        assert node.arrives("a", reply) is None
        assert node.leaves("a", request) is None
    node.load(node.policy().allow("c", "a", ANY))
    assert node.arrives("a", reply) is None, "which the endpoint could open, and has not"


def test_packets_that_forge_the_service_or_the_client_are_dropped(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY).allow("b", "a", ANY), services=web(B))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    forged = frame(B, A, tcp(PORT, 4000, SYN | ACK), saddr=VIP.ip4)
    assert node.leaves("b", forged) is None
    assert node.arrives("a", answer(VIP, tcp(PORT, 4000, SYN | ACK))) is None
    spoofed = frame(B, VIP, tcp(4000, PORT, ACK), saddr=A.ip4)
    assert node.leaves("b", spoofed) is None, "another pod does not continue it"
    assert node.drops() == {"spoofed ip": 3}


@pytest.mark.both_families
@families
def test_a_forged_reset_of_an_endpoint_of_this_node_changes_nothing(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY), services=web(B))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN), family))
    before = node.connections(family)
    assert node.arrives("a", answer(B, tcp(TARGET, 4000, RST), family)) is None, "by the uplink"
    assert node.drops() == {"spoofed ip": 1}
    assert node.connections(family) == before


def test_an_evicted_entry_is_created_again(node: NodeUnderTest) -> None:
    """Before the connection is established, a flood may evict either of its entries alone."""
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol="UDP", port=53))
    assert node.leaves("a", to_vip(udp(4000, PORT)))
    node.expire_connections(ports=[53])
    assert node.leaves("a", to_vip(udp(4000, PORT))) == as_to(C, udp(4000, 53))
    got = node.arrives("a", answer(C, udp(53, 4000)))
    assert got == answer(VIP, udp(PORT, 4000))
    node.expire_connections(ports=[PORT])
    sent = node.leaves("a", to_vip(udp(4000, PORT)))
    port, target = ports_of(sent)
    assert target == 53 and port != 4000, "the other entry lasts until it expires"
    assert node.arrives("a", answer(C, udp(53, port))) == answer(VIP, udp(PORT, 4000))


@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_a_pre_nat_entry_does_not_use_the_entry_of_a_direct_connection(
    node: NodeUnderTest, protocol: str
) -> None:
    """Its own post-NAT entry expired or was evicted, and a direct connection has the tuple."""
    make = udp if protocol == "UDP" else tcp
    first, then = ((), ()) if protocol == "UDP" else ((SYN,), (ACK,))
    node.load(node.policy().allow("a", "c", ANY), services=web(C, protocol=protocol))
    assert node.leaves("a", to_vip(make(4000, PORT, *first)))
    node.expire_connections(ports=[TARGET])
    assert node.leaves("a", frame(A, C, make(4000, TARGET, *first)))
    if protocol == "TCP":
        assert node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK)))
    for _ in range(2):
        sent = node.leaves("a", to_vip(make(4000, PORT, *then)))
        if protocol == "TCP":
            assert sent is None, "no other end knows the connection"
        else:
            assert ports_of(sent)[0] != 4000
        direct = frame(A, C, make(4000, TARGET, *then))
        assert node.leaves("a", direct) == direct
    assert node.drops() == ({"backend gone": 2} if protocol == "TCP" else {})


@families
@pytest.mark.parametrize("host", [B, C], ids=["here", "elsewhere"])
def test_both_entries_record_the_packets_of_both_ends(
    node: NodeUnderTest, family: int, host: Host
) -> None:
    """Otherwise the pre-NAT entry of a connection that the endpoint reset would last for hours."""
    node.load(node.policy().allow("a", "b", ANY).allow("a", "c", ANY), services=web(host))
    for payload, by_client in (
        (tcp(4000, PORT, SYN), True),
        (tcp(TARGET, 4000, SYN | ACK), False),
        (tcp(4000, PORT, ACK), True),
        (tcp(4000, PORT, ACK), True),
        (tcp(TARGET, 4000, FIN | ACK), False),
        (tcp(4000, PORT, FIN | ACK), True),
        (tcp(TARGET, 4000, RST), False),
    ):
        if by_client:
            assert node.leaves("a", to_vip(payload, family))
            continue
        if host == B:
            back = frame(B, VIP, payload, family=family, daddr=A.address(family))
            assert node.leaves("b", back) == back
        came_in = "pcb" if host == B else "pcup"
        assert node.arrives("a", answer(host, payload, family), came_in=came_in)
    entries = node.connections(family)
    assert len(entries) == 2
    assert [_state(each) & 15 for each in entries] == [15, 15], "answered, both FINs, the reset"
    lives = [int.from_bytes(each["expires"], "little") for each in entries]
    assert abs(lives[0] - lives[1]) <= 2 * 1000, "two seconds' ticks at most"


def test_the_ports_of_a_closed_connection_are_reused(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    opened(node)
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, RST)))
    before = {each["flow_id"] for each in node.connections()}
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    after = {each["flow_id"] for each in node.connections()}
    assert len(after) == 1 and not before & after


def test_the_middle_of_an_unknown_connection_is_dropped(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    for flags in (ACK, FIN | ACK, RST, SYN | ACK):
        assert node.leaves("a", to_vip(tcp(4000, PORT, flags))) is None
    assert node.drops() == {"backend gone": 4}


def test_a_new_service_takes_over_an_unanswered_connection(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", ANY).allow("a", "c", ANY), services=[])
    plain = to_vip(udp(4000, PORT))
    assert node.leaves("a", plain) == plain
    node.serve(web(C, protocol="UDP", port=53))
    assert node.leaves("a", plain) == as_to(C, udp(4000, 53))
    assert node.arrives("a", answer(C, udp(53, 4000))) == answer(VIP, udp(PORT, 4000))


def test_packets_to_a_removed_service_are_decided_by_policy(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    opened(node)
    node.serve([])
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK))) is None
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) is None
    assert node.drops() == {"policy": 2}
    found = node.status()
    assert found is not None
    used = {each.name: each.used for each in found.maps}
    assert used["pc_frontends"] == used["pc_backends"] == 0


def test_a_node_without_services_translates_nothing(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", ANY))
    plain = to_vip(tcp(4000, PORT, SYN))
    assert node.leaves("a", plain) == plain
