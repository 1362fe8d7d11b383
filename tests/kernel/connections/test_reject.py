# SPDX-License-Identifier: Apache-2.0
"""Answers to packets that `reject` drops: on the wire and byte by byte, both hooks, both families."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address

import pytest

from policyc.runtime.lab.probes import Family, Outcome, Probe, Protocol
from policyc.runtime.lab.topology import Lab
from policyc.runtime.lab.traffic import send
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest
from tests.kernel.support import (
    answers,
    packets,
)
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    REDIRECT,
    Answer,
    answer_of,
)
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    Host,
    Payload,
)
from tests.kernel.support.rejecting import (
    FAMILIES,
    OUTSIDE,
    PODS,
    POLICY,
    Rejecting,
)

pytestmark = pytest.mark.kernel

MARK = 0x70635221


@pytest.fixture(
    scope="module", params=[("c", "auto"), ("llvm", "clsact")], ids=lambda p: "-".join(p)
)
def rejecting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rejecting]:
    folder = tmp_path_factory.mktemp("reject")
    backend, mode = request.param
    with Lab(tuple(PODS.values())) as lab:
        compiled(folder, POLICY, "--backend", backend)
        records = {
            pod.key: {"namespace": "shop", "name": pod.name, "labels": {"app": pod.name}}
            for pod in PODS.values()
        }
        lab.node.write_endpoints(folder / "endpoints.json", records)

        def enforce() -> None:
            bundle, endpoints = folder / "bundle", folder / "endpoints.json"
            load(
                LoadRequest(
                    bundle=bundle,
                    endpoints=endpoints,
                    bpffs=lab.node.bpffs,
                    mode=mode,
                    state_root=folder / "state",
                )
            )

        lab.node.run_in(enforce)
        yield Rejecting(lab)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_sees_refused_for_reject_and_silence_for_deny(
    rejecting: Rejecting, family: Family
) -> None:
    tcp, udp, icmp = Protocol
    web, cart = "shop/web", "shop/cart"
    ways = [  # from a pod to a pod, into a pod from outside, out of a pod
        (cart, web, {(tcp, 22), (udp, 53), (icmp, 0)}, {(tcp, 23)}, {(tcp, 80), (udp, 80)}),
        ("external", web, {(tcp, 22), (udp, 53), (icmp, 0)}, {(tcp, 23)}, {(tcp, 80), (udp, 80)}),
        (web, cart, {(tcp, 25), (udp, 25), (icmp, 0)}, {(tcp, 26)}, {(tcp, 22), (udp, 80)}),
        (web, "external", {(tcp, 25), (udp, 25), (icmp, 0)}, {(tcp, 26)}, {(tcp, 22), (udp, 80)}),
    ]
    expected = {
        Probe(source, destination, family, protocol, port): outcome
        for source, destination, *services in ways
        for outcome, group in zip(
            (Outcome.REFUSED, Outcome.DENIED, Outcome.ALLOWED), services, strict=True
        )
        for protocol, port in group
    }
    seen = send(rejecting.lab.ends, expected)
    differing = {str(p): str(seen[p]) for p in expected if seen[p].outcome is not expected[p]}
    assert differing == {}


def both_ways() -> list[tuple[str, str, Callable[[Rejecting], tuple[Host, Host]], int]]:
    """(hook, pod, from and to, port that is rejected) for each hook."""
    return [
        ("pc_from_pod", "web", lambda r: (r.host("web"), OUTSIDE), 25),
        ("pc_to_pod", "web", lambda r: (OUTSIDE, r.host("web")), 22),
    ]


WAYS = [pytest.param(family, at, id=f"{at}-ip{family}") for family in FAMILIES for at in (0, 1)]


def refused(rejecting: Rejecting, family: int, at: int, payload: Callable[[int], Payload]) -> (
    tuple[bytes, answers.Outcome]
):  # fmt: skip
    hook, pod, ends, port = both_ways()[at]
    frame = packets.frame(*ends(rejecting), payload(port), family=family)
    (outcome,) = rejecting.pass_by(hook, pod, [frame])
    return frame, outcome


def answered(rejecting: Rejecting, family: int, at: int, payload: Callable[[int], Payload]) -> (
    tuple[bytes, Answer]
):  # fmt: skip
    """The frame and its answer, in the opposite direction."""
    frame, outcome = refused(rejecting, family, at, payload)
    assert outcome.verdict == REDIRECT
    assert outcome.mark == (MARK if at else 0)
    src, dst = both_ways()[at][2](rejecting)
    answer = answer_of(outcome.frame)
    assert answer.macs == (frame[6:12], rejecting.answer_mac() if at else frame[:6])
    packed = ip_address(dst.address(family)).packed, ip_address(src.address(family)).packed
    assert answer.addresses == packed
    return frame, answer


def segment(port: int, flags: int, seq: int, ack: int, data: bytes, options: int = 0) -> Payload:
    doff = 5 + options
    fields = (40000, port, seq, ack, doff << 4, flags, 8192, 0, 0)
    head = struct.pack("!HHIIBBHHH", *fields)
    return packets._summed(packets.TCP, 16, head + b"\x01" * (4 * options) + data)


@pytest.mark.parametrize(("family", "at"), WAYS)
@pytest.mark.parametrize(
    ("flags", "seq", "ack", "data", "expected"),
    [
        (SYN, 1000, 0, b"", (0, 1001, RST | ACK)),
        (SYN, 0xFFFFFFFF, 0, b"", (0, 0, RST | ACK)),
        (SYN, 7, 0, b"fast open", (0, 17, RST | ACK)),
        (FIN, 7, 0, b"abc", (0, 11, RST | ACK)),
        (0, 7, 0, b"x" * 1200, (0, 1207, RST | ACK)),
        (ACK, 5, 77, b"", (77, 0, RST)),
        (ACK | PSH, 5, 0x80000001, b"data", (0x80000001, 0, RST)),
        (SYN | ACK, 5, 99, b"", (99, 0, RST)),
        (FIN | ACK, 5, 99, b"", (99, 0, RST)),
    ],
)
def test_a_reset_has_the_sequence_numbers_of_rfc_9293(
    rejecting: Rejecting, family: int, at: int, flags: int, seq: int, ack: int, data: bytes,
    expected: tuple[int, int, int],
) -> None:  # fmt: skip
    _, answer = answered(rejecting, family, at, lambda port: segment(port, flags, seq, ack, data))
    assert answer.proto == packets.TCP and len(answer.body) == 20
    sport, dport, seq_out, ack_out, doff, out = struct.unpack_from("!HHIIBB", answer.body)
    assert (sport, dport) == (both_ways()[at][3], 40000)
    assert (seq_out, ack_out, out, doff) == (*expected, 0x50)


@pytest.mark.both_families
@pytest.mark.parametrize(("family", "at"), WAYS)
def test_tcp_options_do_not_count_towards_the_acknowledged_length(
    rejecting: Rejecting, family: int, at: int
) -> None:
    _, answer = answered(
        rejecting, family, at, lambda port: segment(port, SYN, 1, 0, b"abc", options=5)
    )
    assert struct.unpack_from("!I", answer.body, 8)[0] == 5


@pytest.mark.parametrize(("family", "at"), WAYS)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 460, 484, 485, 900, 1180, 1400])
def test_other_protocols_get_an_icmp_error_that_quotes_the_packet(
    rejecting: Rejecting, family: int, at: int, size: int
) -> None:
    data = bytes(n * 7 & 0xFF for n in range(size))
    udp_port = 25 if at == 0 else 53
    for payload in (packets.udp(4000, udp_port, data), packets.echo(family)):
        frame, answer = answered(rejecting, family, at, partial(_given, payload))
        kind = (packets.ICMP, 3, 13, 576) if family == 4 else (packets.ICMP6, 1, 1, 1280)
        assert (answer.proto, *answer.body[:2]) == kind[:3]
        assert answer.body[4:8] == bytes(4)
        head = 28 if family == 4 else 48
        assert answer.body[8:] == frame[14 : 14 + kind[3] - head]


def _given(payload: Payload, _port: int) -> Payload:
    return payload


@pytest.mark.both_families
@pytest.mark.parametrize(("family", "at"), WAYS)
def test_sctp_is_answered_by_icmp(rejecting: Rejecting, family: int, at: int) -> None:
    _, answer = answered(rejecting, family, at, lambda _: packets.sctp(1, 2, 1))
    assert answer.proto == (packets.ICMP if family == 4 else packets.ICMP6)


@pytest.mark.both_families
@pytest.mark.parametrize(("family", "at"), WAYS)
def test_a_padded_frame_is_answered_without_the_padding(
    rejecting: Rejecting, family: int, at: int
) -> None:
    hook, pod, ends, port = both_ways()[at]
    frame = packets.frame(*ends(rejecting), segment(port, SYN, 10, 0, b""), family=family)
    (outcome,) = rejecting.pass_by(hook, pod, [frame + bytes(40)])
    body = answer_of(outcome.frame).body
    assert len(body) == 20 and struct.unpack_from("!I", body, 8)[0] == 11


@pytest.mark.both_families
@pytest.mark.parametrize(("family", "at"), WAYS)
def test_resets_errors_and_multicast_are_dropped_without_an_answer(
    rejecting: Rejecting, family: int, at: int
) -> None:
    hook, pod, ends, port = both_ways()[at]
    src, dst = ends(rejecting)
    quoted = packets.inner(packets.frame(dst, src, packets.udp(9, 9), family=family))
    syn = segment(port, SYN, 1, 0, b"")
    unanswered = [
        packets.frame(src, dst, segment(port, RST, 1, 0, b""), family=family),
        packets.frame(src, dst, segment(port, RST | ACK, 1, 9, b""), family=family),
        packets.frame(src, dst, packets.unreachable(family, quoted), family=family),
    ]
    if family == 4:
        unanswered += [
            packets.frame(src, dst, packets.icmp(kind, 0, 0, 0, quoted[:28]))
            for kind in (4, 5, 11, 12)
        ]
        unanswered.append(packets.frame(src, dst, syn, fragment=packets.MORE))
    else:
        unanswered += [
            packets.frame(src, dst, packets.icmp6(kind, 0, 0, 0, quoted), family=6)
            for kind in (2, 3, 4, 100, 127)
        ]
    group = "ff:ff:ff:ff:ff:ff"
    unanswered.append(packets.mac_bytes(group) + packets.frame(src, dst, syn, family=family)[6:])
    if at == 0:
        many = "224.1.2.3" if family == 4 else "ff0e::5"
        unanswered.append(packets.frame(src, dst, packets.udp(1, 25), family=family, daddr=many))
    for frame in unanswered:
        (outcome,) = rejecting.pass_by(hook, pod, [frame])
        assert (outcome.verdict, outcome.frame) == (DROP, frame)


@pytest.mark.both_families
@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_passes_the_pods_hook_by_its_mark_and_mac(
    rejecting: Rejecting, family: int
) -> None:
    """A reset leaves the pod to a port that the pod may not reach."""
    web, mac = rejecting.host("web"), rejecting.answer_mac()
    own = packets.frame(web, OUTSIDE, segment(25, RST | ACK, 0, 9, b""), family=family)
    answer = own[:6] + mac + own[12:]
    (out,) = rejecting.pass_by("pc_from_pod", "web", [answer], mark=MARK)
    assert (out.verdict, out.frame, out.mark) == (NEXT, own, 0)
    for frame, mark in ((own, MARK), (answer, MARK ^ 1), (answer, 0)):
        (other,) = rejecting.pass_by("pc_from_pod", "web", [frame], mark=mark)
        assert other.verdict == DROP
    into = packets.frame(OUTSIDE, web, segment(23, SYN, 0, 9, b""), family=family)
    (into_pod,) = rejecting.pass_by("pc_to_pod", "web", [into[:6] + mac + into[12:]], mark=MARK)
    assert into_pod.verdict == DROP


def test_a_refused_syn_ends_no_connection_of_the_opposite_direction(rejecting: Rejecting) -> None:
    """RFC 9293, 3.10.7.4 sends no reset here: the client would apply it to that connection."""
    web = rejecting.host("web")
    opened = [
        ("pc_from_pod", packets.frame(web, OUTSIDE, packets.tcp(22, 41000, SYN))),
        ("pc_to_pod", packets.frame(OUTSIDE, web, packets.tcp(41000, 22, SYN | ACK))),
    ]
    for hook, frame in opened:
        (outcome,) = rejecting.pass_by(hook, "web", [frame])
        assert outcome.verdict == NEXT
    syns = [packets.frame(OUTSIDE, web, packets.tcp(sport, 22, SYN)) for sport in (41000, 41001)]
    found = [each.verdict for each in rejecting.pass_by("pc_to_pod", "web", syns)]
    assert found == [DROP, REDIRECT]


def test_packets_that_are_never_answered_take_no_token_of_the_answer_rate(
    rejecting: Rejecting,
) -> None:
    web = rejecting.host("web")
    resets = [
        packets.frame(OUTSIDE, web, segment(22, RST, number, 0, b"")) for number in range(1500)
    ]
    syn = packets.frame(OUTSIDE, web, segment(22, SYN, 1, 0, b""))
    found = [each.verdict for each in rejecting.pass_by("pc_to_pod", "web", [*resets, *[syn] * 20])]
    assert set(found[:1500]) == {DROP} and set(found[1500:]) == {REDIRECT}


def test_a_flood_is_answered_at_a_bounded_rate(rejecting: Rejecting) -> None:
    web = rejecting.host("web")
    frames = [
        packets.frame(OUTSIDE, web, segment(22, SYN, number, 0, b"")) for number in range(3000)
    ]
    found = [each.verdict for each in rejecting.pass_by("pc_to_pod", "web", frames)]
    assert set(found) == {DROP, REDIRECT}
    assert found.count(REDIRECT) < 2500
