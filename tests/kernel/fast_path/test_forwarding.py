# SPDX-License-Identifier: Apache-2.0
"""The fast path between pods, packet by packet: what changes in a packet, and what takes the stack
path.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernel.support.forwarding_pair import (
    MARK,
    REDIRECT,
    Pair,
)
from tests.kernel.support.node_under_test import (
    DROP,
    HOSTS,
    LOCAL,
    NEXT,
    UPLINK,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    BROADCAST,
    DSTOPTS,
    FRAGMENT,
    MORE,
    SYN,
    TCP,
    checksum,
    echo,
    extension,
    fragment6,
    frame,
    frame6,
    mac_bytes,
    packed,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)
from tests.kernel.support.wire import Wire

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])


@pytest.fixture
def pair(node: NodeUnderTest) -> Iterator[Pair]:
    with ExitStack() as owned:
        wire = Wire(node, owned)
        wire.move_away("b", UPLINK)
        yield Pair(node, wire)


def _has_right_sums(whole: bytes, family: int) -> bool:
    """The IP header's sum and the transport's, over all that they cover."""
    packet = whole[14:]
    if family == 4:
        assert not checksum(packet[:20])
        proto, segment, addresses = packet[9], packet[20:], packet[12:20]
    else:
        proto, segment, addresses = packet[6], packet[40:], packet[8:40]
    return not checksum(addresses + struct.pack("!II", len(segment), proto) + segment)


@families
@pytest.mark.parametrize("hops", [2, 64, 255])
def test_a_redirected_packet_changes_in_macs_and_hop_limit_only(
    pair: Pair, family: int, hops: int
) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    word = {"ttl": hops} if family == 4 else {"hop_limit": hops}
    sent = pair.frame("a", tcp(1000, 80, ACK, b"data"), family=family, **word)
    done = pair.send("a", sent)
    word = {"ttl": hops - 1} if family == 4 else {"hop_limit": hops - 1}
    gateway = replace(HOSTS["a"], mac=pair.gateways["b"])
    addresses = {"saddr": HOSTS["a"].address(family)}
    expected = frame(
        gateway, HOSTS["b"], tcp(1000, 80, ACK, b"data"), family=family, **addresses, **word
    )
    assert (done.verdict, done.frame, done.mark) == (REDIRECT, expected, 0)
    assert _has_right_sums(done.frame, family)


@pytest.mark.slow
def test_a_packet_that_a_stage_drops_after_the_redirect_was_chosen_is_dropped(
    pair: Pair, variant: Callable[..., Path]
) -> None:
    """`forward_to` alone does not let a packet pass."""
    passes, drops = (
        f"\tpc_frag_passed(flow);\n\treturn {result};\n}}\n\n/* The policy changed"
        for result in ("PC_PASS", "PC_DROP_MALFORMED")
    )
    policy = pair.node.policy().allow("a", "b", tcp_port(80))
    pair.node.load(policy)
    pair.open()
    pair.node.load(policy, objects=variant("drops", {"from_pod.h": (passes, drops)}))
    sent = pair.frame("a", tcp(1000, 80, ACK, b"data"))
    assert pair.send("a", sent).verdict == NEXT, "decided again, on the stack path"
    assert pair.send("a", sent).verdict == DROP


def test_every_ipv4_header_checksum_is_updated_correctly(pair: Pair) -> None:
    """Each carry of the incremental update: checksums around 0x0000, 0xfeff and 0xffff."""
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open()
    seen = set()
    for ident in range(0, 0x10000, 61):
        sent = pair.frame("a", tcp(1000, 80), ident=ident)
        done = pair.send("a", sent)
        assert done.verdict == REDIRECT
        assert not checksum(done.frame[14:34])
        seen.add(sent[24])
    assert len(seen) == 256
    for target in (0x0000, 0x0001, 0xFEFE, 0xFEFF, 0xFF00, 0xFFFE):
        base = pair.frame("a", tcp(1000, 80), ident=0)
        ident = (struct.unpack_from("!H", base, 24)[0] - target) % 0xFFFF
        sent = pair.frame("a", tcp(1000, 80), ident=ident)
        assert struct.unpack_from("!H", sent, 24)[0] == target
        assert not checksum(pair.send("a", sent).frame[14:34])
        if not target:  # the other zero of such sums
            sent = sent[:24] + b"\xff\xff" + sent[26:]
            assert not checksum(sent[14:34])
            assert not checksum(pair.send("a", sent).frame[14:34])


def test_a_wrong_sum_stays_wrong(pair: Pair) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open()
    sent = bytearray(pair.frame("a", tcp(1000, 80)))
    sent[24] ^= 0x55
    done = pair.send("a", bytes(sent))
    assert done.verdict == REDIRECT
    assert checksum(done.frame[14:34])


@families
def test_each_direction_is_redirected_after_a_packet_of_it_arrived(pair: Pair, family: int) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    request = pair.frame("a", tcp(1000, 80), family=family)
    reply = pair.frame("b", tcp(80, 1000), family=family)
    assert pair.send("a", pair.frame("a", tcp(1000, 80, SYN), family=family)).verdict == NEXT
    pair.answer(family)
    assert [pair.send("a", request).verdict for _ in range(3)] == [NEXT] * 3
    pair.bring("b", request)
    assert pair.send("a", request).verdict == REDIRECT
    assert pair.send("b", reply).verdict == NEXT
    pair.bring("a", reply)
    done = pair.send("b", reply)
    assert done.verdict == REDIRECT
    assert done.frame[:12] == mac_bytes(HOSTS["a"].mac) + mac_bytes(pair.gateways["a"])
    assert _has_right_sums(done.frame, family)


@families
def test_udp_and_icmp_echoes_are_redirected(pair: Pair, family: int) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", ANY))
    for payload in (udp(5000, 53), echo(family)):
        pair.open(family, payload)
        sent = pair.frame("a", payload, family=family)
        assert pair.send("a", sent).verdict == REDIRECT


@families
def test_a_frame_that_arrives_with_another_mac_enables_no_fast_path(
    pair: Pair, family: int
) -> None:
    """The stack sends to the neighbour of the address, which need not be the pod."""
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    sent = pair.frame("a", tcp(1000, 80, SYN), family=family)
    assert pair.send("a", sent).verdict == NEXT
    pair.bring("b", sent, mac="02:00:00:00:00:99")
    assert pair.send("a", sent).verdict == NEXT


def _with_options(pair: Pair) -> bytes:
    return pair.frame("a", tcp(1000, 80), options=b"\1\1\1\1")


def _first_fragment(pair: Pair) -> bytes:
    return pair.frame("a", tcp(1000, 80, ACK, bytes(44)), fragment=MORE)


def _with_extension(pair: Pair) -> bytes:
    return _frame6(pair, DSTOPTS, lambda body: extension(TCP, body))


def _first_fragment6(pair: Pair) -> bytes:
    return _frame6(pair, FRAGMENT, lambda body: fragment6(TCP, body, offset=0, more=True))


def _atomic_fragment6(pair: Pair) -> bytes:
    return _frame6(pair, FRAGMENT, lambda body: fragment6(TCP, body, offset=0, more=False))


def _frame6(pair, kind, wrap) -> bytes:
    a, b = HOSTS["a"], HOSTS["b"]
    body = tcp(1000, 80, ACK, bytes(44)).build(packed(a.ip6), packed(b.ip6))
    return frame6(a, replace(b, mac=pair.gateways["a"]), kind, wrap(body))


def _of_size(pair: Pair, size: int, family: int = 4) -> bytes:
    headers = 40 if family == 4 else 60
    return pair.frame("a", tcp(1000, 80, ACK, bytes(size - headers)), family=family)


LEFT = {
    "options": (4, _with_options),
    "a first fragment": (4, _first_fragment),
    "the last hop": (4, lambda pair: pair.frame("a", tcp(1000, 80), ttl=1)),
    "too large": (4, lambda pair: _of_size(pair, 1501)),
    "for another MAC": (4, lambda pair: ethernet_to(pair, "02:00:00:00:00:0b")),
    "broadcast": (4, lambda pair: ethernet_to(pair, BROADCAST)),
    "multicast": (4, lambda pair: ethernet_to(pair, "01:00:5e:00:00:0b")),
    "an extension header": (6, _with_extension),
    "a first fragment, v6": (6, _first_fragment6),
    "an atomic fragment, v6": (6, _atomic_fragment6),
    "the last hop, v6": (6, lambda pair: pair.frame("a", tcp(1000, 80), family=6, hop_limit=1)),
    "too large, v6": (6, lambda pair: _of_size(pair, 1501, 6)),
}


def ethernet_to(pair: Pair, mac: str) -> bytes:
    return mac_bytes(mac) + pair.frame("a", tcp(1000, 80))[6:]


@pytest.mark.parametrize("reason", LEFT)
def test_packets_that_need_the_hosts_stack_take_the_stack_path(pair: Pair, reason: str) -> None:
    family, build = LEFT[reason]
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    sent = build(pair)
    done = pair.send("a", sent)
    assert (done.verdict, done.frame, done.mark) == (NEXT, sent, MARK)
    assert pair.send("a", pair.frame("a", tcp(1000, 80), family=family)).verdict == REDIRECT


@families
def test_a_packet_of_exactly_the_receivers_mtu_is_redirected(pair: Pair, family: int) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    assert pair.send("a", _of_size(pair, 1500, family)).verdict == REDIRECT
    ip("link", "set", LOCAL["b"], "mtu", "1400")
    assert pair.send("a", _of_size(pair, 1401, family)).verdict == NEXT
    assert pair.send("a", _of_size(pair, 1400, family)).verdict == REDIRECT


@families
def test_a_spoofed_frame_is_not_redirected(pair: Pair, family: int) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    sent = pair.frame("a", tcp(1000, 80), family=family)
    assert pair.send("a", sent, device=LOCAL["b"]).verdict == DROP
    assert pair.send("a", sent[:6] + mac_bytes("02:00:00:00:00:77") + sent[12:]).verdict == DROP
    assert pair.node.drops() == {"spoofed ip": 1, "spoofed mac": 1}


def test_a_frame_with_a_vlan_tag_is_dropped(pair: Pair) -> None:
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open()
    sent = pair.frame("a", tcp(1000, 80))
    tagged = sent[:12] + struct.pack("!HH", 0x8100, 5) + sent[12:]
    assert pair.send("a", tagged).verdict == DROP


def test_a_load_with_the_stack_option_redirects_nothing(pair: Pair) -> None:
    policy = pair.node.policy().allow("a", "b", tcp_port(80))
    pair.node.load(policy, forward="stack")
    pair.open()
    sent = pair.frame("a", tcp(1000, 80))
    assert pair.send("a", sent).verdict == NEXT
    found = pair.node.status()
    assert found
    assert found.forwarding == "stack"
    assert not any(each.has_peer for each in found.endpoints)
    pair.node.load(policy)
    found = pair.node.status()
    assert found
    assert found.forwarding == "redirect"
    assert [each.name for each in found.endpoints if each.has_peer] == ["a", "b"]
    assert pair.send("a", sent).verdict == NEXT
    pair.bring("b", sent)
    assert pair.send("a", sent).verdict == REDIRECT
    pair.node.load(policy, forward="stack")
    assert [pair.send("a", sent).verdict for _ in range(2)] == [NEXT, NEXT]


def test_a_packet_to_a_peer_in_the_nodes_namespace_is_not_redirected(node: NodeUnderTest) -> None:
    """The kernel would drop a redirected packet there."""
    pair = Pair(node)
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    pair.open()
    assert pair.send("a", pair.frame("a", tcp(1000, 80))).verdict == NEXT


@families
def test_a_change_of_policy_decides_again_and_keeps_the_fast_path(pair: Pair, family: int) -> None:
    """A stateful firewall of the host has not seen the redirected packets and could drop later
    ones.
    """
    policy = pair.node.policy().allow("a", "b", tcp_port(80))
    pair.node.load(policy)
    pair.open(family)
    sent = pair.frame("a", tcp(1000, 80), family=family)
    pair.node.load(pair.node.policy().allow("a", "b", ANY))
    assert [pair.send("a", sent).verdict for _ in range(2)] == [NEXT, REDIRECT]
    pair.node.load(pair.node.policy())
    assert [pair.send("a", sent).verdict for _ in range(2)] == [DROP, DROP]


@pytest.mark.parametrize("what", ["device", "mac"])
def test_a_pod_on_another_device_starts_on_the_stack_path(pair: Pair, what: str) -> None:
    policy = pair.node.policy().allow("a", "b", tcp_port(80))
    pair.node.load(policy)
    pair.open()
    sent = pair.frame("a", tcp(1000, 80))
    assert pair.send("a", sent).verdict == REDIRECT
    moved = endpoint("b", HOSTS["b"], UPLINK if what == "device" else LOCAL["b"])
    if what == "mac":
        moved["mac"] = "02:00:00:00:01:0b"
    entries = [endpoint("a", HOSTS["a"], LOCAL["a"]), moved, endpoint("c", HOSTS["c"], None)]
    pair.leave("b")
    pair.node.load(policy, entries=entries)
    assert [pair.send("a", sent).verdict for _ in range(2)] == [NEXT, NEXT]


@families
def test_a_packet_to_a_missing_device_takes_the_stack_path_unless_it_is_small(
    pair: Pair, family: int
) -> None:
    """A small packet is redirected, and the kernel drops it: no device can get it."""
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    ip("link", "del", LOCAL["b"])
    small = 576 if family == 4 else 1280
    sent = _of_size(pair, small + 1, family)
    done = pair.send("a", sent)
    assert (done.verdict, done.frame) == (NEXT, sent)
    assert pair.send("a", _of_size(pair, small, family)).verdict == REDIRECT


@families
def test_a_redirected_packet_moves_its_connection_to_the_established_table(
    pair: Pair, family: int
) -> None:
    """The entry is found in that table afterwards. Other packets cannot evict it."""
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(80)))
    pair.open(family)
    reply = pair.frame("b", tcp(80, 1000, SYN | ACK), family=family)
    assert pair.send("b", reply).verdict == NEXT
    pair.bring("a", reply)
    for pod, payload in (("a", tcp(1000, 80)), ("b", tcp(80, 1000)), ("a", tcp(1000, 80))):
        sent = pair.frame(pod, payload, family=family)
        assert pair.send(pod, sent).verdict == REDIRECT
    assert len(pair.node.table(f"pc_ct{family}")) == 1
    assert pair.node.table(f"pc_ct{family}_new") == []
