# SPDX-License-Identifier: Apache-2.0
"""The fast path for connections to Services between two pods of a node, packet by packet.

One hook translates and readdresses each redirected frame. The frame equals the expected frame, with
right checksums, only if both were done.
"""

from dataclasses import replace

import pytest

from tests.kernel.support.forwarding_pair import REDIRECT
from tests.kernel.support.node_under_test import (
    DROP,
    HOSTS,
    LOCAL,
    NEXT,
    UPLINK,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    FRAGMENT,
    MORE,
    RST,
    SYN,
    UDP,
    fragment6,
    frame,
    frame6,
    mac_bytes,
    raw,
    tcp,
    udp,
)
from tests.kernel.support.service_pair import (
    CAME_DST,
    CAME_SRC,
    FINS,
    REPLIED,
    RESET,
    ServicePair,
    pair,
    state_of,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)

__all__ = ["pair"]

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])


def load(pair: ServicePair, protocol: str = "TCP") -> None:
    policy = pair.node.policy().allow("a", "b", ANY)
    pair.node.load(policy, services=web(HOSTS["b"], protocol=protocol))


@families
@pytest.mark.parametrize("hops", [2, 64, 255])
def test_both_directions_are_translated_and_redirected(
    pair: ServicePair, family: int, hops: int
) -> None:
    load(pair)
    pair.shake_hands(family)
    word = {"ttl": hops} if family == 4 else {"hop_limit": hops}
    for data in (b"", b"odd", b"even"):
        sent = pair.asks(tcp(4000, PORT, ACK, data), family, **word)
        done = pair.send("a", sent)
        expected = pair.forwarded("b", tcp(4000, TARGET, ACK, data), family, hops - 1)
        assert (done.verdict, done.frame, done.mark) == (REDIRECT, expected, 0)
        sent = pair.answers(tcp(TARGET, 4000, ACK, data), family, **word)
        done = pair.send("b", sent)
        expected = pair.forwarded("a", tcp(PORT, 4000, ACK, data), family, hops - 1)
        assert (done.verdict, done.frame, done.mark) == (REDIRECT, expected, 0)
    assert pair.node.drops() == {}


@families
def test_udp_is_translated_and_redirected(pair: ServicePair, family: int) -> None:
    load(pair, "UDP")
    pair.stack_brings("b", pair.send("a", pair.asks(udp(4000, PORT, b"abc"), family)))
    pair.stack_brings("a", pair.send("b", pair.answers(udp(TARGET, 4000, b"xyz"), family)))
    done = pair.send("a", pair.asks(udp(4000, PORT, b"abc"), family))
    assert done.verdict == REDIRECT
    assert done.frame == pair.forwarded("b", udp(4000, TARGET, b"abc"), family)
    done = pair.send("b", pair.answers(udp(TARGET, 4000, b"xyz"), family))
    assert done.verdict == REDIRECT
    assert done.frame == pair.forwarded("a", udp(PORT, 4000, b"xyz"), family)


@families
def test_each_direction_is_redirected_after_a_packet_of_it_arrived(
    pair: ServicePair, family: int
) -> None:
    load(pair)
    asked = pair.asks(tcp(4000, PORT, SYN), family)
    answered = pair.answers(tcp(TARGET, 4000, SYN | ACK), family)
    first = [pair.send("a", asked) for _ in range(3)]
    assert {each.verdict for each in first} == {NEXT}
    pair.bring("b", first[0].frame)
    assert pair.send("a", asked).verdict == REDIRECT
    done = pair.send("b", answered)
    assert (done.verdict, done.frame) == (NEXT, answered), "what the stack gets is not translated"
    pair.bring("a", answered)
    assert pair.send("b", answered).verdict == REDIRECT


@pytest.mark.both_families
@families
def test_a_changed_source_port_is_translated_in_both_directions(
    pair: ServicePair, family: int
) -> None:
    """The pod uses the same port for a direct connection to the endpoint."""
    load(pair)
    direct = pair.frame("a", tcp(4000, TARGET, SYN), family=family)
    assert pair.send("a", direct).verdict == NEXT
    pair.bring("b", direct)
    accepted = pair.frame("b", tcp(TARGET, 4000, SYN | ACK), family=family)
    assert pair.send("b", accepted).verdict == NEXT
    sent = pair.send("a", pair.asks(tcp(4000, PORT, SYN), family))
    at = 14 + (20 if family == 4 else 40)
    port = int.from_bytes(sent.frame[at : at + 2], "big")
    assert port != 4000
    pair.stack_brings("b", sent)
    answered = pair.answers(tcp(TARGET, port, SYN | ACK), family)
    pair.stack_brings("a", pair.send("b", answered))
    done = pair.send("a", pair.asks(tcp(4000, PORT), family))
    assert (done.verdict, done.frame) == (REDIRECT, pair.forwarded("b", tcp(port, TARGET), family))
    done = pair.send("b", pair.answers(tcp(TARGET, port), family))
    assert (done.verdict, done.frame) == (REDIRECT, pair.forwarded("a", tcp(PORT, 4000), family))
    done = pair.send("a", pair.frame("a", tcp(4000, TARGET), family=family))
    assert done.verdict == REDIRECT
    assert done.frame == pair.forwarded("b", tcp(4000, TARGET), family)


@families
@pytest.mark.parametrize(("flags", "bits"), [(RST, RESET), (FIN | ACK, FINS & ~2)])
def test_a_redirected_packet_updates_the_pre_nat_and_post_nat_entries(
    pair: ServicePair, family: int, flags: int, bits: int
) -> None:
    load(pair)
    pair.shake_hands(family)
    for _ in range(2):
        assert pair.send("a", pair.asks(tcp(4000, PORT), family)).verdict == REDIRECT
    assert not pair.node.table(f"pc_ct{family}_new"), "both are where nothing is evicted"
    assert pair.send("b", pair.answers(tcp(TARGET, 4000, flags), family)).verdict == REDIRECT
    front, proper = pair.entries(family)
    for entry in (front, proper):
        assert state_of(entry) & (FINS | RESET) == bits
        assert state_of(entry) & REPLIED
    assert state_of(front) & CAME_DST
    assert state_of(proper) & CAME_SRC
    assert pair.send("a", pair.asks(tcp(4000, PORT, FIN | ACK), family)).verdict == REDIRECT
    front, proper = pair.entries(family)
    assert state_of(front) & state_of(proper) & 2, "PC_CT_FIN_SRC"


LEFT = {
    "options": (4, lambda pair, frames: frames(options=b"\1\1\1\1")),
    "the last hop": (4, lambda pair, frames: frames(ttl=1)),
    "the last hop, v6": (6, lambda pair, frames: frames(hop_limit=1)),
}


@pytest.mark.parametrize("reason", LEFT)
def test_stack_path_packets_are_the_same_as_without_the_fast_path(
    pair: ServicePair, reason: str
) -> None:
    """A packet to the Service is only translated, and a reply is unchanged."""
    family, build = LEFT[reason]
    load(pair)
    pair.shake_hands(family)
    payload = tcp(4000, PORT, ACK, b"data")
    sent = build(pair, lambda **fields: pair.asks(payload, family, **fields))
    done = pair.send("a", sent)
    vip = replace(VIP, mac=pair.gateways["a"])
    there = {"daddr": HOSTS["b"].address(family)}
    body = tcp(4000, TARGET, ACK, b"data")
    expected = build(
        pair, lambda **fields: frame(HOSTS["a"], vip, body, family=family, **there, **fields)
    )
    assert (done.verdict, done.frame) == (NEXT, expected)
    body = tcp(TARGET, 4000, ACK, b"data")
    sent = build(pair, lambda **fields: pair.answers(body, family, **fields))
    done = pair.send("b", sent)
    assert (done.verdict, done.frame) == (NEXT, sent)
    assert pair.send("b", pair.answers(tcp(TARGET, 4000), family)).verdict == REDIRECT


@pytest.mark.both_families
@families
def test_packets_above_the_receivers_mtu_take_the_stack_path(
    pair: ServicePair, family: int
) -> None:
    load(pair)
    pair.shake_hands(family)
    data = bytes(1500 - (40 if family == 4 else 60))
    assert pair.send("a", pair.asks(tcp(4000, PORT, ACK, data), family)).verdict == REDIRECT
    assert pair.send("b", pair.answers(tcp(TARGET, 4000, ACK, data), family)).verdict == REDIRECT
    for device in LOCAL.values():
        ip("link", "set", device, "mtu", "1400")
    assert pair.send("a", pair.asks(tcp(4000, PORT, ACK, data), family)).verdict == NEXT
    sent = pair.answers(tcp(TARGET, 4000, ACK, data), family)
    done = pair.send("b", sent)
    assert (done.verdict, done.frame) == (NEXT, sent)


@families
def test_a_removed_endpoint_receives_and_sends_nothing(pair: ServicePair, family: int) -> None:
    load(pair)
    pair.shake_hands(family)
    pair.node.serve([service(), *slices([])])
    assert pair.send("b", pair.answers(tcp(TARGET, 4000), family)).verdict == DROP
    assert pair.send("a", pair.asks(tcp(4000, PORT), family)).verdict == DROP
    assert pair.node.drops() == {"backend gone": 2}


@families
def test_a_change_of_policy_decides_again_and_keeps_the_fast_path(
    pair: ServicePair, family: int
) -> None:
    load(pair)
    pair.shake_hands(family)
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(TARGET)))
    sent = [pair.send("a", pair.asks(tcp(4000, PORT), family)) for _ in range(2)]
    assert [each.verdict for each in sent] == [NEXT, REDIRECT]
    assert sent[1].frame == pair.forwarded("b", tcp(4000, TARGET), family)
    done = pair.send("b", pair.answers(tcp(TARGET, 4000), family))
    assert (done.verdict, done.frame) == (REDIRECT, pair.forwarded("a", tcp(PORT, 4000), family))
    pair.node.load(pair.node.policy())
    for _ in range(2):
        assert pair.send("a", pair.asks(tcp(4000, PORT), family)).verdict == DROP
    assert pair.send("b", pair.answers(tcp(TARGET, 4000), family)).verdict == DROP


@families
def test_a_reply_may_be_the_first_packet_after_a_change_of_policy(
    pair: ServicePair, family: int
) -> None:
    """The pre-NAT entry has the older epoch then. Its next packet decides it again."""
    load(pair)
    pair.shake_hands(family)
    pair.node.load(pair.node.policy().allow("a", "b", tcp_port(TARGET)))
    sent = [pair.send("b", pair.answers(tcp(TARGET, 4000), family)) for _ in range(2)]
    assert [each.verdict for each in sent] == [NEXT, REDIRECT]
    assert sent[1].frame == pair.forwarded("a", tcp(PORT, 4000), family)
    sent = [pair.send("a", pair.asks(tcp(4000, PORT), family)) for _ in range(2)]
    assert [each.verdict for each in sent][1] == REDIRECT
    assert sent[1].frame == pair.forwarded("b", tcp(4000, TARGET), family)


@pytest.mark.parametrize("what", ["device", "mac"])
def test_a_pod_on_another_device_starts_on_the_stack_path(pair: ServicePair, what: str) -> None:
    load(pair)
    pair.shake_hands()
    moved = endpoint("b", HOSTS["b"], UPLINK if what == "device" else LOCAL["b"])
    if what == "mac":
        moved["mac"] = "02:00:00:00:01:0b"
    entries = [endpoint("a", HOSTS["a"], LOCAL["a"]), moved, endpoint("c", HOSTS["c"], None)]
    pair.leave("b")
    pair.node.load(pair.node.policy().allow("a", "b", ANY), entries=entries)
    for _ in range(2):
        assert pair.send("a", pair.asks(tcp(4000, PORT))).verdict == NEXT


def test_a_load_with_the_stack_option_redirects_nothing(pair: ServicePair) -> None:
    policy = pair.node.policy().allow("a", "b", ANY)
    pair.node.load(policy, forward="stack", services=web(HOSTS["b"]))
    pair.shake_hands()
    for _ in range(2):
        assert pair.send("a", pair.asks(tcp(4000, PORT))).verdict == NEXT
        assert pair.send("b", pair.answers(tcp(TARGET, 4000))).verdict == NEXT


@families
def test_a_forged_reset_of_another_pod_ends_no_connection(pair: ServicePair, family: int) -> None:
    load(pair)
    pair.shake_hands(family)
    forged = pair.answers(tcp(TARGET, 4000, RST), family)
    assert pair.send("b", forged, device=LOCAL["a"]).verdict == DROP
    other = forged[:6] + mac_bytes("02:00:00:00:00:77") + forged[12:]
    assert pair.send("b", other).verdict == DROP
    assert pair.node.drops() == {"spoofed ip": 1, "spoofed mac": 1}
    for entry in pair.entries(family):
        assert not state_of(entry) & RESET


@pytest.mark.both_families
@families
def test_fragments_of_a_reply_pass_before_the_first_one_has_arrived(
    pair: ServicePair, family: int
) -> None:
    """The stack may hold the first one until all are there (nf_defrag_ipv4 and nf_defrag_ipv6)."""
    load(pair, "UDP")
    pair.stack_brings("b", pair.send("a", pair.asks(udp(4000, PORT, b"abc"), family)))
    pair.stack_brings("a", pair.send("b", pair.answers(udp(TARGET, 4000, b"xyz"), family)))
    assert pair.send("b", pair.answers(udp(TARGET, 4000, b"xyz"), family)).verdict == REDIRECT
    for sent in _fragments(pair, family):
        done = pair.send("b", sent)
        assert (done.verdict, done.frame) == (NEXT, sent)
    assert pair.node.drops() == {}


def _fragments(pair: ServicePair, family: int) -> tuple[bytes, bytes]:
    """Of an answer: with the ports, and without."""
    body = pair.answers(udp(TARGET, 4000, bytes(40)), family)[14 + (20 if family == 4 else 40) :]
    if family == 4:
        return (
            pair.answers(raw(UDP, body), fragment=MORE),
            pair.answers(raw(UDP, bytes(24)), fragment=len(body) // 8),
        )
    gateway = replace(HOSTS["a"], mac=pair.gateways["b"])
    first = fragment6(UDP, body, offset=0, more=True)
    later = fragment6(UDP, bytes(24), offset=len(body), more=False)
    return (
        frame6(HOSTS["b"], gateway, FRAGMENT, first),
        frame6(HOSTS["b"], gateway, FRAGMENT, later),
    )
