# SPDX-License-Identifier: Apache-2.0
"""Connections to Services that meet older entries, floods, and endpoints with the Service's
address.
"""

import json
import socket
import struct
import subprocess
from contextlib import ExitStack

import pytest

from policyc.runtime.services import tables as service_tables
from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    RST,
    SYN,
    UDP,
    Host,
    frame,
    raw,
    tcp,
)
from tests.kernel.support.service_error_frames import (
    ROUTER,
    error,
    seen,
)
from tests.kernel.support.service_frames import (
    FRONT,
    NAT,
    SECOND,
    _state,
    answer,
    as_to,
    to_vip,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.unsummed import send_unsummed

pytestmark = pytest.mark.kernel


def opened_with_b(node: NodeUnderTest) -> None:
    """A connection of a to the Service, whose endpoint b is of the same node."""
    for flags in (SYN, ACK, ACK, ACK):
        sent = node.leaves("a", to_vip(tcp(4000, PORT, flags)))
        assert sent and node.arrives("b", sent, came_in="pca")
        assert node.leaves("b", frame(B, VIP, tcp(TARGET, 4000, flags | ACK), daddr=A.ip4))
        assert node.arrives("a", answer(B, tcp(TARGET, 4000, flags | ACK)), came_in="pcb")


def mac_of(device: str) -> str:
    told = subprocess.run(["ip", "-j", "link", "show", device], capture_output=True, check=True)
    return str(json.loads(told.stdout)[0]["address"])


def test_an_endpoint_that_has_the_services_address_is_reached(node: NodeUnderTest) -> None:
    """An external address that is a node's, and a hostNetwork endpoint on that node, with one port."""
    objects = [service(vip=SECOND), *slices([SECOND], port=PORT)]
    node.load(node.policy().allow("a", "world", ANY), services=objects)
    asked = frame(A, SECOND, tcp(4000, PORT, SYN))
    told = answer(SECOND, tcp(PORT, 4000, SYN | ACK))
    assert node.leaves("a", asked) == asked
    assert node.arrives("a", told) == told
    assert not any(_state(entry) & NAT for entry in node.connections())


def test_one_packet_moves_both_entries_to_the_established_table(node: NodeUnderTest) -> None:
    """Otherwise a flood would end a connection in which the endpoint sends first."""
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    assert len(node.table("pc_ct4")) == 2 and node.table("pc_ct4_new") == []


def test_an_error_is_translated_after_an_unrelated_one(node: NodeUnderTest) -> None:
    policy = node.policy().allow("a", "c", ANY).allow("world", "a", ANY)
    node.load(policy, services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    unrelated = frame(ROUTER, A, error(4, seen(C, tcp(4999, TARGET, SYN), 4)))
    assert node.arrives("a", unrelated) == unrelated
    got = node.arrives("a", frame(ROUTER, A, error(4, seen(C, tcp(4000, TARGET, SYN), 4))))
    assert got == frame(ROUTER, A, error(4, seen(VIP, tcp(4000, PORT, SYN), 4)))


def test_a_reused_client_port_is_translated_after_an_untranslated_connection(
    node: NodeUnderTest,
) -> None:
    policy = node.policy().allow("a", "world", ANY).allow("a", "c", ANY)
    node.load(policy, services=[])
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    assert node.arrives("a", answer(VIP, tcp(PORT, 4000, SYN | ACK)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    node.serve(web(C))
    going_on = to_vip(tcp(4000, PORT, ACK))
    assert node.leaves("a", going_on) == going_on
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))


def test_a_denied_connection_to_a_service_does_not_block_a_direct_one(node: NodeUnderTest) -> None:
    allowed = node.policy().allow("a", "world", ANY)
    node.load(allowed, services=web(SECOND))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    assert node.arrives("a", answer(SECOND, tcp(TARGET, 4000, SYN | ACK)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    node.load(node.policy())
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK))) is None
    node.load(allowed)
    direct = frame(A, SECOND, tcp(4000, TARGET, SYN))
    assert node.leaves("a", direct) == direct


def test_a_pre_nat_entry_renews_no_entry_of_a_direct_connection(node: NodeUnderTest) -> None:
    """The pre-NAT entry did not see the endpoint's reset. Then the pod used the tuple directly."""
    policy = node.policy().allow("a", "b", ANY)
    node.load(policy, services=web(B))
    opened_with_b(node)
    node.load(policy)
    assert node.leaves("b", frame(B, VIP, tcp(TARGET, 4000, RST), daddr=A.ip4))
    assert node.arrives("a", answer(B, tcp(TARGET, 4000, RST)), came_in="pcb")
    direct = frame(A, B, tcp(4000, TARGET, SYN))
    assert node.leaves("a", direct) == direct
    node.expire_connections(ports=[TARGET])
    sent = node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    states = [_state(entry) for entry in node.connections()]
    assert all(state & NAT for state in states if state & FRONT)
    if sent is not None:
        got = node.arrives("a", answer(B, tcp(TARGET, 4000, ACK)), came_in="pcb")
        assert got == answer(VIP, tcp(PORT, 4000, ACK))
    forged = node.arrives("a", answer(VIP, tcp(PORT, 4000, ACK)), came_in="pcb")
    assert forged is None, "only the hook sends with the Service's address"


@pytest.mark.parametrize("is_left", [False, True], ids=["none", "a checksum in the data"])
def test_a_tunnelled_packet_with_an_offloaded_inner_checksum_is_dropped(
    node: NodeUnderTest, is_left: bool
) -> None:
    """The pod's tunnel goes through a Service. The packet is counted, and never sent with a wrong
    checksum.
    """
    with ExitStack() as owned:
        wire = ServiceWire(node, owned)
        wire.offload("a", tx=True, segments=True)
        policy = node.policy().allow("a", "c", ANY)
        node.load(policy, services=web(C, protocol="UDP", port=TARGET))
        bound = wire.server("c", 4, socket.SOCK_DGRAM, TARGET)
        data = b"\x12\x34" * 10
        head = struct.pack("!HHHH", 4000, PORT, 8 + len(data), 0)
        gateway = mac_of("pca")
        sent = frame(A, Host(gateway, VIP.ip4, VIP.ip6), raw(UDP, head + data))
        if is_left:
            wire.within("a", lambda: send_unsummed("pca", sent, 14 + 28 + 4, 6))
        else:
            wire.within("a", lambda: node.sends_on_the_wire("a", sent))
        if is_left:
            assert node.drops() == {"malformed": 1}
        else:
            assert bound.recvfrom(2000)[0] == data and node.drops() == {}
        assert wire.bad_checksums() == 0


@pytest.mark.slow
def test_a_flood_ends_no_connection_to_a_service(node: NodeUnderTest) -> None:
    """As without a Service: the flood has three times as many flows as the new-connection table
    holds.
    """
    policy = node.policy().allow("a", "c", ANY).allow("b", "world", ANY)
    node.load(policy, services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK)))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK)))
    flood = bytearray(frame(B, WORLD, tcp(1, 1, SYN)))
    for number in range(100_000):
        struct.pack_into("!HH", flood, 34, number & 0xFFFF, 1 + (number >> 16))
        assert node.sent_by("b", bytes(flood))
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, ACK, b"banner")))
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK, b"data")))


def test_a_change_of_services_killed_after_its_switch_is_reported_and_repaired(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.load(node.policy().allow("a", "c", ANY).allow("a", "world", ANY), services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN)))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(service_tables.Filled, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            node.serve(web(SECOND))
    told = node.status()
    assert told is not None and told.services_unfinished
    node.serve(web(SECOND))
    told = node.status()
    assert told is not None and not told.services_unfinished
    assert node.leaves("a", to_vip(tcp(4000, PORT, ACK))) is None
