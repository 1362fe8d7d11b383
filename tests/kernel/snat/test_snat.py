# SPDX-License-Identifier: Apache-2.0
"""Pods leave the cluster under the node's address: every packet at the uplink, byte for byte."""

import socket
import struct
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.external_frames import EXTERNAL
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    GRE,
    RST,
    SYN,
    Host,
    echo,
    echo_reply,
    frame,
    raw,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.snat_frames import (
    HIGH,
    LOW,
    OTHER,
    answer,
    answered,
    ends,
    expire,
    families,
    left,
    loaded,
    out,
    port_of,
    sent,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.ticks import ticks

pytestmark = pytest.mark.kernel


PAIRS = {
    "TCP": (lambda p: tcp(p, 80, SYN), lambda p: tcp(80, p, SYN | ACK)),
    "UDP": (lambda p: udp(p, 53), lambda p: udp(53, p)),
    "SCTP": (lambda p: sctp(p, 80, 1), lambda p: sctp(80, p, 2)),
}


@pytest.mark.both_families
@families
@pytest.mark.parametrize("protocol", ["TCP", "UDP", "SCTP", "echo"])
def test_a_free_source_port_is_kept_and_the_reply_is_translated(
    node: NodeUnderTest, family: int, protocol: str
) -> None:
    loaded(node)
    if protocol == "echo":
        there, back = echo(family, LOW + 1), echo_reply(family, LOW + 1)
    else:
        there, back = (make(LOW + 1) for make in PAIRS[protocol])
    for _ in range(3):
        assert out(node, there, family) == left(there, family)
        came = node.comes_in(answer(back, family))
        assert came == answered(back, family)
        assert node.arrives("a", came) == came
    assert node.drops() == {}


@pytest.mark.both_families
@families
@pytest.mark.parametrize("protocol", ["TCP", "UDP", "echo"])
def test_a_source_port_outside_the_range_is_translated_in_both_directions(
    node: NodeUnderTest, family: int, protocol: str
) -> None:
    loaded(node)
    if protocol == "echo":
        to, back = (lambda p: echo(family, p)), (lambda p: echo_reply(family, p))
    else:
        to, back = PAIRS[protocol]
    went = out(node, to(4000), family)
    port = port_of(went, family)
    assert LOW <= port <= HIGH
    for _ in range(3):
        assert out(node, to(4000), family) == left(to(port), family)
        came = node.comes_in(answer(back(port), family))
        assert came == answered(back(4000), family)
        assert node.arrives("a", came) == came
    assert node.drops() == {}


@families
def test_two_pods_with_one_source_port_get_two_snat_ports(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    ports = {}
    for pod in ("a", "b"):
        ports[pod] = port_of(out(node, udp(LOW, 53), family, pod), family)
    assert ports["a"] == LOW != ports["b"] and LOW <= ports["b"] <= HIGH
    for pod, host in (("a", A), ("b", B)):
        assert out(node, udp(LOW, 53), family, pod) == left(udp(ports[pod], 53), family)
        came = node.comes_in(answer(udp(53, ports[pod]), family))
        assert came == answered(udp(53, LOW), family, host)
        assert node.arrives(pod, came) == came
    elsewhere = sent(udp(LOW, 54), family, B)
    assert node.goes_out(elsewhere, "b") == left(udp(LOW, 54), family), "free towards another port"


@families
def test_ports_are_exhausted_per_destination(node: NodeUnderTest, family: int) -> None:
    loaded(node, ports=range(LOW, LOW + 3))
    found = {port_of(out(node, tcp(port, 80, SYN), family), family) for port in (1000, 2000, 3000)}
    assert found == {LOW, LOW + 1, LOW + 2}
    assert out(node, tcp(4000, 80, SYN), family) is None
    assert node.drops() == {"no port": 1}
    assert out(node, tcp(4000, 81, SYN), family), "another port of the same side"
    expire(node)
    assert out(node, tcp(4000, 80, SYN), family), "what is over has no port"
    assert node.drops() == {"no port": 1}


@pytest.mark.both_families
@families
def test_sctp_keeps_its_port_or_is_dropped(node: NodeUnderTest, family: int) -> None:
    """The SCTP checksum covers the port."""
    loaded(node)
    assert out(node, sctp(4000, 80, 1), family, "a") == left(sctp(4000, 80, 1), family)
    assert out(node, sctp(4000, 80, 1), family, "b") is None
    assert out(node, sctp(4001, 80, 1), family, "b") == left(sctp(4001, 80, 1), family)
    assert node.drops() == {"no port": 1}


@pytest.mark.both_families
@families
def test_excepted_destinations_see_the_pods_address(node: NodeUnderTest, family: int) -> None:
    """Destinations that the load names, and pods and nodes, which it need not name."""
    net = f"{OTHER.ip4}/32" if family == 4 else f"{OTHER.ip6}/128"
    loaded(node, excepted=(net,))
    for to in (OTHER, C, NODE):
        given = sent(tcp(4000, 80, SYN), family, to=to)
        assert node.goes_out(given) == given
    assert port_of(node.goes_out(sent(tcp(4000, 80, SYN), family)), family) != 4000
    loaded(node)
    given = sent(tcp(4001, 80, SYN), family, to=OTHER)
    assert node.goes_out(given) != given, "the next load says it again"


@pytest.mark.both_families
@families
def test_an_exception_of_a_later_load_ends_translated_connections(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    assert out(node, udp(LOW, 53), family) == left(udp(LOW, 53), family)
    loaded(node, excepted=("0.0.0.0/0", "::/0"))
    assert node.comes_in(answer(udp(53, LOW), family)) == answer(udp(53, LOW), family)
    assert out(node, udp(LOW, 53), family) == sent(udp(LOW, 53), family)


@pytest.mark.both_families
@families
def test_without_the_option_the_address_stays_the_pods(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "world", ANY)
    node.load(policy, uplinks=[UPLINK])
    assert out(node, tcp(4000, 80, SYN), family) == sent(tcp(4000, 80, SYN), family)
    loaded(node, policy)
    assert out(node, tcp(4000, 80, SYN), family) != sent(tcp(4000, 80, SYN), family)
    node.load(policy, uplinks=[UPLINK])
    assert out(node, tcp(4000, 80, SYN), family) == sent(tcp(4000, 80, SYN), family)
    assert node.drops() == {}


@families
def test_packets_that_match_no_snat_entry_pass_to_the_stack_unchanged(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    assert out(node, tcp(LOW, 80, SYN), family)
    for given in (
        answer(tcp(80, LOW + 1, SYN | ACK), family),
        answer(tcp(81, LOW, SYN | ACK), family),
        answer(udp(80, LOW), family),
        answer(tcp(80, LOW, SYN | ACK), family, by=OTHER),
        answer(tcp(80, 22, SYN), family),
        answer(echo(family, LOW), family),
        answer(echo_reply(family, LOW), family),
        frame(WORLD, OTHER, tcp(80, LOW, SYN | ACK), family=family),
    ):
        assert node.comes_in(given) == given
    assert node.drops() == {}


@families
def test_a_reply_forged_by_a_pod_is_dropped(node: NodeUnderTest, family: int) -> None:
    """Pod b sends with the address of pod a's server."""
    loaded(node)
    assert out(node, udp(LOW, 53), family)
    lie = frame(B, NODE, udp(53, LOW), family=family, saddr=WORLD.address(family))
    assert not node.sent_by("b", lie)
    assert node.drops() == {"spoofed ip": 1}


def half(node: NodeUnderTest, is_out: bool) -> bytes:
    """The key of one of the two SNAT entries of the only connection."""
    (key,) = (key for key in ends(node) if key[38] == is_out)
    return key


@pytest.mark.both_families
@families
@pytest.mark.parametrize("how", ["expired", "gone"])
@pytest.mark.parametrize("which", ["the pod's", "the other side's"])
def test_one_snat_entry_without_its_pair_translates_nothing(
    node: NodeUnderTest, family: int, how: str, which: str
) -> None:
    """A reply passes unchanged. The pod's next packet gets the same port again."""
    loaded(node)
    first = out(node, udp(4000, 53), family)
    port = port_of(first, family)
    key = half(node, which != "the pod's")
    if how == "expired":
        expire(node, key)
    else:
        with node.shared_map("pc_snat_entries") as fd:
            bpf_syscall.map_delete(fd, key)
    given = answer(udp(53, port), family)
    assert node.comes_in(given) == given
    assert out(node, udp(4000, 53), family) == first
    assert node.comes_in(given) == answered(udp(53, 4000), family)
    assert len(ends(node)) == 2


@families
def test_an_expired_connection_gets_a_new_port(node: NodeUnderTest, family: int) -> None:
    """Another connection may have its port by then."""
    loaded(node)
    assert out(node, udp(LOW, 53), family) == left(udp(LOW, 53), family)
    expire(node)
    assert node.comes_in(answer(udp(53, LOW), family)) == answer(udp(53, LOW), family)
    assert out(node, udp(LOW, 53), family, "b") == left(udp(LOW, 53), family)
    assert node.comes_in(answer(udp(53, LOW), family)) == answered(udp(53, LOW), family, B)
    assert port_of(out(node, udp(LOW, 53), family), family) != LOW


def seconds(node: NodeUnderTest) -> set[int]:
    """The remaining lifetime of each SNAT entry, as last written."""
    with node.shared_map("pc_clock") as fd:
        rate = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")[0]
    left = {struct.unpack("=Q", each["expires"])[0] & 0xFFFFFFFF for each in ends(node).values()}
    return {-(-(each - ticks() & 0xFFFFFFFF) // rate) for each in left}


@pytest.mark.both_families
@families
def test_a_tcp_port_is_reserved_until_both_ends_have_closed(
    node: NodeUnderTest, family: int
) -> None:
    """Both SNAT entries hold the same state. FINs have the sequence number 1, so that 2
    acknowledges them.
    """
    loaded(node)
    port = port_of(out(node, tcp(4000, 80, SYN), family), family)

    def there(flags: int, ack: int = 1) -> set[int]:
        left = out(node, tcp(4000, 80, flags, ack=ack), family)
        assert port_of(left, family) == port
        return seconds(node)

    def back(flags: int, data: bytes = b"", seq: int = 1) -> set[int]:
        given = answer(tcp(80, port, flags, data, seq=seq), family)
        arrived = answered(tcp(80, 4000, flags, data, seq=seq), family)
        assert node.comes_in(given) == arrived
        assert node.sent_to("a", arrived)
        return seconds(node)

    day = {8 * 3600}
    assert seconds(node) == {60}
    assert back(RST | ACK) == {60}, "a refused one rests as long as one that is not answered"
    assert there(SYN) == back(SYN | ACK) == {60}
    assert there(ACK) == day
    assert back(RST) == there(RST) == there(ACK) == day
    assert back(FIN | ACK) == there(ACK, ack=2) == day, "the pod has not closed"
    assert there(FIN | ACK, ack=2) == {120}
    assert there(ACK, ack=3) == day, "more than the FIN is acknowledged, so that was none"
    assert back(FIN | ACK, b"123", seq=3) == there(ACK, ack=4) == day
    assert there(ACK, ack=7) == {120}
    assert there(SYN) == {120}, "another connection shortens nothing"
    assert back(RST | ACK) == {120}


@families
@pytest.mark.parametrize("ack", [0xFFFFFFFF, 0, 1])
def test_a_later_fin_of_the_external_host_replaces_the_recorded_sequence_number(
    node: NodeUnderTest, family: int, ack: int
) -> None:
    """Also where sequence numbers wrap around."""
    loaded(node)
    for flags in (SYN, FIN | ACK):
        port = port_of(out(node, tcp(4000, 80, flags), family), family)
        came = node.comes_in(answer(tcp(80, port, SYN | ACK), family))
        assert came is not None and node.sent_to("a", came)
    for seq in (5, (ack - 1) & 0xFFFFFFFF):
        assert node.comes_in(answer(tcp(80, port, FIN | ACK, seq=seq), family))
    assert out(node, tcp(4000, 80, ACK, ack=(ack - 2) & 0xFFFFFFFF), family)
    assert seconds(node) == {8 * 3600}
    assert out(node, tcp(4000, 80, ACK, ack=ack), family)
    assert seconds(node) == {120}


@families
def test_packets_without_ports_are_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    assert node.goes_out(sent(raw(GRE, bytes(20)), family)) is None
    assert node.goes_out(sent(echo_reply(family, 5), family)) is None
    assert node.drops() == {"not masqueraded": 2}
    loaded(node, excepted=("0.0.0.0/0", "::/0"))
    given = sent(raw(GRE, bytes(20)), family)
    assert node.goes_out(given) == given


@pytest.mark.both_families
@families
def test_replies_to_external_clients_keep_the_pods_address(
    node: NodeUnderTest, family: int
) -> None:
    """Replies to clients of the pod's own address and of a Service."""
    policy = node.policy().allow_ingress("world", "a", ANY)
    external = service(externalIPs=[EXTERNAL.ip4, EXTERNAL.ip6])
    node.load(
        policy, uplinks=[UPLINK], masquerade=Masquerade(range(LOW, HIGH)),
        services=[external, *slices([A])],
    )  # fmt: skip
    direct = frame(WORLD, A, tcp(LOW, 80, SYN), family=family)
    assert node.comes_in(direct) == direct and node.sent_to("a", direct)
    said = sent(tcp(80, LOW, SYN | ACK), family)
    assert out(node, tcp(80, LOW, SYN | ACK), family) == said
    ping = frame(WORLD, A, echo(family, LOW), family=family)
    assert node.comes_in(ping) == ping and node.sent_to("a", ping)
    assert out(node, echo_reply(family, LOW), family) == sent(echo_reply(family, LOW), family)
    came = node.comes_in(frame(WORLD, EXTERNAL, tcp(4001, PORT, SYN), family=family))
    assert came is not None and node.sent_to("a", came)
    assert out(node, tcp(TARGET, 4001, SYN | ACK), family) == frame(
        NODE, WORLD, tcp(PORT, 4001, SYN | ACK), family=family, saddr=EXTERNAL.address(family)
    )
    assert node.drops() == {} and not ends(node)


@pytest.mark.both_families
@families
def test_a_service_with_an_external_endpoint_is_translated_by_both_hooks(
    node: NodeUnderTest, family: int
) -> None:
    """The pod's hook translates the Service's address, the uplink's hook the pod's. Replies reverse
    both.
    """
    node.load(
        node.policy().allow("a", "world", ANY), uplinks=[UPLINK], services=web(WORLD),
        masquerade=Masquerade(range(LOW, HIGH)),
    )  # fmt: skip
    for flags in (SYN, ACK):
        went = node.leaves("a", frame(A, VIP, tcp(LOW, PORT, flags), family=family))
        assert went is not None
        assert node.goes_out(went)[14:] == left(tcp(LOW, TARGET, flags), family)[14:]
        came = node.comes_in(answer(tcp(TARGET, LOW, flags | ACK), family))
        assert came == answered(tcp(TARGET, LOW, flags | ACK), family)
        assert node.arrives("a", came) == frame(
            WORLD, NODE, tcp(PORT, LOW, flags | ACK), family=family,
            saddr=VIP.address(family), daddr=A.address(family),
        )  # fmt: skip
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_connections_of_the_node_are_not_translated(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    for given in (left(tcp(33000, 80, SYN), family), left(echo(family, 9), family),
                  left(raw(GRE, bytes(20)), family)):  # fmt: skip
        assert node.goes_out(given, pod=None) == given
    assert not ends(node)
    own = left(tcp(LOW, 80, SYN), family)
    assert node.goes_out(own, pod=None) == own
    assert port_of(out(node, tcp(LOW, 80, SYN), family), family) != LOW, "no pod gets the same"
    back = answer(tcp(80, LOW, SYN | ACK), family)
    assert node.comes_in(back) == back
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_an_echo_id_of_the_node_that_a_pod_uses_is_translated(
    node: NodeUnderTest, family: int
) -> None:
    """Ids are no ports and cannot be reserved, so the node's echo gets another id on the wire."""
    loaded(node)
    assert out(node, echo(family, LOW), family) == left(echo(family, LOW), family)
    other = port_of(node.goes_out(left(echo(family, LOW), family), pod=None), family)
    assert other != LOW
    assert node.comes_in(answer(echo_reply(family, other), family)) == answer(
        echo_reply(family, LOW), family
    )
    assert node.comes_in(answer(echo_reply(family, LOW), family)) == answered(
        echo_reply(family, LOW), family
    )


@pytest.mark.both_families
@families
def test_another_pod_that_gets_the_address_receives_no_replies(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    assert out(node, udp(LOW, 53), family)
    moved = [endpoint("a", A, "pcb"), endpoint("c", C, None)]
    node.load(
        node.policy().allow("a", "world", ANY), uplinks=[UPLINK], entries=moved,
        masquerade=Masquerade(range(LOW, HIGH)),
    )  # fmt: skip
    given = answer(udp(53, LOW), family)
    assert node.comes_in(given) == given
    again = sent(udp(LOW, 53), family)
    assert node.goes_out(again, "b") != left(udp(LOW, 53), family), "the port is the former pod's"
    assert node.comes_in(given) == given


@pytest.mark.both_families
@families
def test_a_connection_that_moves_to_another_uplink_is_translated_anew(
    node: NodeUnderTest, family: int
) -> None:
    """It leaves under the node's address there."""
    second = Host(NODE.mac, "192.0.2.7", "2001:db8:7::7")
    ip("link", "add", "pcup2", "type", "veth", "peer", "name", "pcup2.p")
    Path("/proc/sys/net/ipv6/conf/pcup2/disable_ipv6").write_text("0")
    ip("link", "set", "pcup2", "up")
    ip("addr", "add", f"{second.ip4}/24", "dev", "pcup2")
    ip("addr", "add", f"{second.ip6}/64", "dev", "pcup2", "nodad")
    node.ifindex["pcup2"] = socket.if_nametoindex("pcup2")
    node.load(
        node.policy().allow("a", "world", ANY), uplinks=[UPLINK, "pcup2"],
        masquerade=Masquerade(range(LOW, HIGH)),
    )  # fmt: skip
    assert out(node, udp(LOW, 53), family) == left(udp(LOW, 53), family)
    expected = frame(NODE, WORLD, udp(LOW, 53), family=family, saddr=second.address(family))
    for _ in range(2):
        assert node.goes_out(sent(udp(LOW, 53), family), uplink="pcup2") == expected
    back = frame(WORLD, NODE, udp(53, LOW), family=family, daddr=second.address(family))
    assert node.comes_in(back) == answered(udp(53, LOW), family)
    late = answer(udp(53, LOW), family)
    assert node.comes_in(late) == late, "the address before is no longer the connection's"
    found = node.status()
    assert found and found.masquerade
    assert found.masquerade.addresses == {
        UPLINK: (NODE.ip4, NODE.ip6), "pcup2": (second.ip4, second.ip6),
    }  # fmt: skip
