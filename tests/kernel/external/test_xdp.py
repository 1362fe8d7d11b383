# SPDX-License-Identifier: Apache-2.0
"""The XDP program, frame by frame: it sends exactly the frames that tc and the VXLAN device would
send. All other frames pass to tc.
"""

import socket
import struct
from functools import partial
from itertools import pairwise
from random import Random

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.eventually import eventually
from tests.kernel.support.external_wire import (
    NODE_PORT,
    REQUESTS,
    TCP,
    UDP,
)
from tests.kernel.support.two_nodes import (
    UPLINK,
    address,
)
from tests.kernel.support.xdp_talks import (
    CONNECTIONS,
    HOSTS,
    IP6,
    PASS,
    SERVICES,
    TX,
    Edit,
    Talks,
    bundle,
    checked_at,
    is_right,
    ones_sum,
    outer,
    pseudo,
    talks,
    transport_at,
    without_choice,
)

__all__ = ["bundle", "outer", "talks"]
pytestmark = pytest.mark.kernel


def test_a_request_leaves_as_tc_and_the_vxlan_device_would_send_it(
    talks: Talks, outer: int
) -> None:
    uplink, seen = talks
    for key, each in seen.items():
        verdict, found = uplink.run(each.request)
        assert verdict == TX, key
        assert without_choice(found) == without_choice(each.handed_over), key
        at = transport_at(found)
        inside = found[at + 16 :]
        assert is_right(inside)
        if outer == 4:
            assert found[at + 6 : at + 8] == bytes(2) and ones_sum(found[14:at]) == 0xFFFF
        else:
            assert is_right(found)


def test_a_reply_leaves_as_tc_would_send_it(talks: Talks) -> None:
    uplink, seen = talks
    for key, each in seen.items():
        assert uplink.run(each.handed_back) == (TX, each.answer), key
        assert is_right(each.answer)


def test_a_flow_has_one_outer_port_and_ip_ids_that_follow_one_another(
    talks: Talks, outer: int, one_cpu: None
) -> None:
    uplink, seen = talks
    ports = set()

    def batch(request: bytes) -> list[bytes]:
        sent = [uplink.run(request)[1] for _ in range(20)]
        at = transport_at(sent[0])
        (port,) = {frame[at : at + 2] for frame in sent}
        assert 0x8000 <= int.from_bytes(port, "big") < 0xC000, "none of those that pods leave by"
        ports.add(port)
        return sent

    def follow_one_another(request: bytes) -> bool:
        numbers = [int.from_bytes(frame[18:20], "big") for frame in batch(request)]
        return all((b - a) % 65536 == 1 for a, b in pairwise(numbers))

    for each in seen.values():
        if outer == 4:  # other connections of the lab may take numbers of this CPU meanwhile
            eventually(partial(follow_one_another, each.request), "ids that follow one another")
        else:
            batch(each.request)
    assert len(ports) > 1


def summed(frame: bytearray) -> bytes:
    """With the checksums that it should have."""
    at = transport_at(frame)
    if frame[12:14] != IP6:
        frame[24:26] = bytes(2)
        frame[24:26] = (0xFFFF ^ ones_sum(bytes(frame[14:34]))).to_bytes(2, "big")
    where = checked_at(bytes(frame))
    frame[where : where + 2] = bytes(2)
    check = 0xFFFF ^ ones_sum(pseudo(bytes(frame)) + bytes(frame[at:]))
    frame[where : where + 2] = (check or 0xFFFF).to_bytes(2, "big")
    return bytes(frame)


def flags(*values: int) -> list[Edit]:
    def edit(value: int) -> Edit:
        return lambda frame, at: frame.__setitem__(at + 13, value)

    return [edit(each) for each in values]


def put(at4: int, at6: int, value: bytes) -> Edit:
    """At one place of IPv4, another of IPv6; -1: of this family nothing."""

    def edit(frame: bytearray, _at: int) -> None:
        start = at6 if frame[12:14] == IP6 else at4
        if start >= 0:
            frame[start : start + len(value)] = value

    return edit


def put_l4(behind: int, value: bytes) -> Edit:
    return lambda frame, at: frame.__setitem__(slice(at + behind, at + behind + len(value)), value)


OTHERS: dict[str, Edit] = {
    "another MAC": put(0, 0, b"\x02\0\0\0\0\x77"),
    "a group of MACs": put(0, 0, b"\xff" * 6),
    "another protocol": put(12, 12, b"\x88\xcc"),
    "a tag": put(12, 12, b"\x81\0"),
    "another version": put(14, 14, b"\x55"),
    "no hop left": put(22, 21, b"\1"),
    "SCTP": put(23, 20, b"\x84"),
    "another sender": put(26, 22, b"\x0b"),
    "another destination": put(30, 38, b"\x0b"),
    "another port of the client": put_l4(0, b"\1\1"),
    "another port of the Service": put_l4(2, b"\1\1"),
}
CUT_OFF: dict[str, Edit] = {
    "longer than the frame": put(16, 18, b"\4\4"),
    "cut": lambda frame, at: frame.__delitem__(slice(at + 8, None)),
    "cut in the header": lambda frame, at: frame.__delitem__(slice(at - 4, None)),
}
OF_IP4: dict[str, Edit] = {
    "options": put(14, -1, b"\x46"),
    "a first fragment": put(20, -1, b"\x20\0"),
    "a later fragment": put(20, -1, b"\0\1"),
}
OF_IP6: dict[str, Edit] = {
    f"extension header {number}": put(-1, 20, bytes([number])) for number in (0, 43, 44, 60, 51)
}
OF_TCP: dict[str, Edit] = {
    "a header too short": put_l4(12, b"\x40"),
    "a header longer than the packet": lambda frame, at: (
        frame.__setitem__(at + 12, 0xF0), frame.__delitem__(slice(at + 50, None))
    )[0],
    **{f"flags {value:#x}": edit for value in (0x02, 0x12, 0x04, 0x14, 0x01, 0x11, 0x00, 0x08)
       for edit in flags(value)},
}  # fmt: skip
OF_UDP: dict[str, Edit] = {"another length": put_l4(4, b"\0\x0a")}


def edited(frame: bytes, edit: Edit) -> bytes:
    found = bytearray(frame)
    edit(found, transport_at(frame))
    return bytes(found)


def test_an_unusual_request_passes_to_tc_unchanged(talks: Talks) -> None:
    uplink, seen = talks
    for (family, kind), each in seen.items():
        edits = OTHERS | CUT_OFF | (OF_IP4 if family == 4 else OF_IP6)
        edits |= OF_TCP if kind == TCP else OF_UDP
        for why, edit in edits.items():
            frame = edited(each.request, edit)
            assert uplink.run(frame) == (PASS, frame), (family, kind, why)
        assert uplink.run(each.request)[0] == TX


def test_an_unusual_reply_passes_to_tc_unchanged(talks: Talks, outer: int) -> None:
    """The outer or the inner headers are unusual."""
    uplink, seen = talks
    outside = OTHERS | CUT_OFF | (OF_IP4 if outer == 4 else OF_IP6) | OF_UDP
    outside |= {
        "of requests": put_l4(12, REQUESTS),
        "another flag of VXLAN": put_l4(8, b"\0"),
        "more of VXLAN": put_l4(15, b"\1"),
        "congestion": put(15, 15, b"\x03" if outer == 4 else b"\x30"),
    }
    del outside["another port of the client"]  # whatever the other node sends from
    for (family, kind), each in seen.items():
        for why, edit in outside.items():
            frame = edited(each.handed_back, edit)
            if why == "no hop left":  # that of the outer header is not for this node
                assert uplink.run(frame)[0] == TX
                continue
            assert uplink.run(frame) == (PASS, frame), (family, kind, why)
        start = transport_at(each.handed_back) + 16
        inside = OTHERS | (OF_IP4 if family == 4 else OF_IP6)
        inside |= OF_TCP if kind == TCP else OF_UDP
        for why, edit in inside.items():
            if "MAC" in why:  # which is the other node's business
                continue
            frame = each.handed_back[:start] + edited(each.handed_back[start:], edit)
            assert uplink.run(frame) == (PASS, frame), (family, kind, why)


def test_a_packet_with_an_offloaded_checksum_passes_to_tc(talks: Talks) -> None:
    """A veth passes such packets. XDP cannot see that the checksum is incomplete."""
    uplink, seen = talks
    for key, each in seen.items():
        at = checked_at(each.request)
        partial = ones_sum(pseudo(each.request)).to_bytes(2, "big")
        frame = each.request[:at] + partial + each.request[at + 2 :]
        assert uplink.run(frame) == (PASS, frame), key
        start = transport_at(each.handed_back) + 16
        at = checked_at(each.handed_back[start:]) + start
        partial = ones_sum(pseudo(each.handed_back[start:])).to_bytes(2, "big")
        frame = each.handed_back[:at] + partial + each.handed_back[at + 2 :]
        assert uplink.run(frame) == (PASS, frame), key


def test_a_wrong_checksum_stays_wrong(talks: Talks, outer: int) -> None:
    """The inner checksum, and the outer one where the packet has one."""
    uplink, seen = talks
    for key, each in seen.items():
        frame = bytearray(each.request)
        frame[-1] ^= 1
        verdict, found = uplink.run(bytes(frame))
        assert verdict == TX, key
        assert not is_right(found[transport_at(found) + 16 :])
        assert outer == 4 or not is_right(found)


def test_udp_without_a_checksum(talks: Talks, outer: int) -> None:
    """Between IPv6 nodes the outer checksum is derived from the inner one."""
    uplink, seen = talks
    for (family, kind), each in seen.items():
        if kind == UDP:
            frame = edited(each.request, put_l4(6, b"\0\0"))
            assert uplink.run(frame)[0] == (TX if family == outer == 4 else PASS)


def test_padding_behind_the_datagram_is_forwarded(talks: Talks, outer: int) -> None:
    """Ethernet pads small frames. Padded IPv6 frames pass to tc."""
    uplink, seen = talks
    for key, each in seen.items():
        verdict, found = uplink.run(each.request + b"\xaa" * 6)
        assert verdict == (TX if outer == 4 else PASS), key
        if outer == 4:
            assert without_choice(found)[50:] == each.handed_over[50:] + b"\xaa" * 6


@pytest.mark.parametrize("inside", [0, 1, 2, 3])
def test_ecn_marks_are_copied_as_rfc_6040_requires(talks: Talks, outer: int, inside: int) -> None:
    uplink, seen = talks
    for (family, _), each in seen.items():
        frame = bytearray(each.request)
        frame[15] = 0xB8 & 0xFC | inside if family == 4 else frame[15] & 0x0F | inside << 4
        verdict, found = uplink.run(summed(frame))
        assert verdict == TX
        outside = found[15] if outer == 4 else (found[14] & 15) << 4 | found[15] >> 4
        assert outside == (2 if inside == 3 else inside), "and nothing else of the field"


STATES = {  # enum pc_ct_state
    "not answered": 512 | 1024 | 2048,
    "one end has ended it": 1 | 2 | 512 | 1024 | 2048,
    "the other has": 1 | 4 | 512 | 1024 | 2048,
    "reset": 1 | 8 | 512 | 1024 | 2048,
    "denied": 1 | 32 | 512 | 1024 | 2048,
    "of an endpoint of this node": 1 | 512 | 1024,
    "of no Service": 1,
}


def test_a_packet_that_needs_an_update_of_its_entry_passes_to_tc(talks: Talks) -> None:
    uplink, seen = talks
    fields = uplink.layouts.struct("pc_ct").fields
    for why, state in STATES.items():
        with uplink.patched(fields["state"].offset, struct.pack("=I", state), *CONNECTIONS):
            for (family, kind), each in seen.items():
                assert uplink.run(each.request)[0] == PASS, (family, kind, why)
                assert uplink.run(each.handed_back)[0] == PASS, (family, kind, why)
    for field, value in (
        ("expires", struct.pack("=Q", 1)),  # long ago
        ("expires", struct.pack("=Q", 1 << 60)),  # of a state that lasts longer
        ("epoch", struct.pack("=I", 77)),
    ):
        with uplink.patched(fields[field].offset, value, *CONNECTIONS):
            for each in seen.values():
                assert uplink.run(each.request) == (PASS, each.request), field
                assert uplink.run(each.handed_back) == (PASS, each.handed_back), field
    for each in seen.values():
        assert uplink.run(each.request)[0] == uplink.run(each.handed_back)[0] == TX


def test_a_packet_of_a_changed_endpoint_or_setting_passes_to_tc(talks: Talks) -> None:
    uplink, seen = talks

    def at(struct_name: str, field: str) -> int:
        return uplink.layouts.struct(struct_name).fields[field].offset

    with bpf_syscall.obj_get(uplink.pins.map("pc_state")) as fd:
        (word,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")
    both, requests, answers = (True, True), (True, False), (False, True)
    for name, where, value, (asked, told) in (
        ("pc_state", 0, struct.pack("=Q", word | HOSTS), both),
        ("pc_state", 0, struct.pack("=Q", word & ~SERVICES), both),
        ("pc_state", 0, bytes(8), both),
        ("pc_vteps", 0, bytes(40), both),
        ("pc_node_nums", 0, struct.pack("=I", 99), answers),
        ("pc_external", at("pc_external", "tunnel"), bytes(4), requests),
        ("pc_xdp_uplinks", at("pc_xdp_uplink", "mac"), bytes(6), both),
        ("pc_xdp_uplinks", at("pc_xdp_uplink", "own4"), bytes(32), requests),
    ):
        with uplink.patched(where, value, name):
            for key, each in seen.items():
                for frame, is_left in ((each.request, asked), (each.handed_back, told)):
                    verdict, found = uplink.run(frame)
                    assert verdict == (PASS if is_left else TX), (name, where, key)
                    assert found == frame or not is_left
    for each in seen.values():
        assert uplink.run(each.request, device="lo") == (PASS, each.request)


def test_a_packet_to_a_snat_port_passes_to_tc(talks: Talks) -> None:
    """PC_STATE_SNAT is set and the range holds the port."""
    uplink, seen = talks
    with bpf_syscall.obj_get(uplink.pins.map("pc_state")) as fd:
        (word,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")
    snat = struct.pack("=Q", word | 0x40000)
    for low, high, verdict in ((NODE_PORT, NODE_PORT, PASS), (NODE_PORT + 1, 65535, TX)):
        ports = struct.pack("=II", low, high)
        with uplink.patched(0, snat, "pc_state"):
            uplink.patch("pc_snat", 0, ports)
            for each in seen.values():
                assert uplink.run(each.request)[0] == verdict
    uplink.patch("pc_snat", 0, bytes(8))


def test_a_packet_to_a_removed_endpoint_passes_to_tc(talks: Talks) -> None:
    """The endpoint is removed, or its table entry holds another endpoint."""
    uplink, seen = talks
    fields = uplink.layouts.struct("pc_backend").fields
    for field, value in (("state", b"\1"), ("id", bytes(4))):
        with uplink.rows(fields["id"], fields[field].offset, value):
            for each in seen.values():
                assert uplink.run(each.request) == (PASS, each.request)
                assert uplink.run(each.handed_back) == (PASS, each.handed_back)


def test_a_packet_above_the_tunnels_mtu_passes_to_tc(talks: Talks, outer: int) -> None:
    """XDP sends the largest packet that fits. For one byte more, tc sends an error or fragments."""
    uplink, seen = talks
    room = 1500 - (50 if outer == 4 else 70)
    for (family, kind), each in seen.items():
        if kind != UDP:
            continue
        head = transport_at(each.request) + 8
        for size, verdict in ((room, TX), (room + 1, PASS)):
            frame = bytearray(each.request[:head] + bytes(14 + size - head))
            at = head - 8
            frame[at + 4 : at + 6] = (len(frame) - at).to_bytes(2, "big")
            start = 16 if family == 4 else 18
            length = len(frame) - (14 if family == 4 else 54)
            frame[start : start + 2] = length.to_bytes(2, "big")
            assert uplink.run(summed(frame))[0] == verdict, (family, size)


def test_a_reply_is_routed_by_its_source_address_too(talks: Talks) -> None:
    """As in tc, routing rules may select the Service's address as source."""
    uplink, seen = talks
    for key, each in seen.items():
        family = f"-{key[0]}"
        rule = ("from", address("a", key[0]), "to", address("client1", key[0]), "unreachable")
        with uplink.silence():
            assert uplink.run(each.handed_back) == (TX, each.answer), key
            uplink.lab.run("a", "ip", family, "rule", "add", *rule)
            try:
                assert uplink.run(each.handed_back) == (PASS, each.handed_back), key
            finally:
                uplink.lab.run("a", "ip", family, "rule", "del", *rule)


def test_a_tunnelled_request_is_routed_as_a_packet_of_the_node(talks: Talks, outer: int) -> None:
    """The VXLAN device does the same: rules about the uplink as input do not apply to the outer
    packet.
    """
    uplink, seen = talks
    (each, *_) = seen.values()
    for device, verdict in ((UPLINK, TX), ("lo", PASS)):
        rule = (f"-{outer}", "rule", "iif", device, "to", address("b", outer), "unreachable")
        with uplink.silence():
            uplink.lab.run("a", "ip", *rule[:2], "add", *rule[2:])
            try:
                assert uplink.run(each.request)[0] == verdict, device
            finally:
                uplink.lab.run("a", "ip", *rule[:2], "del", *rule[2:])


REDIRECT = 4


def test_a_packet_leaves_by_another_uplink_only_if_the_uplink_runs_xdp(talks: Talks) -> None:
    """The other uplink must run the program in the same mode. Not every driver accepts redirected
    frames.
    """
    uplink, seen = talks
    other = uplink.lab.device("pod-a")
    ifindex = uplink.lab.at["a"].within(lambda: socket.if_nametoindex(other))
    is_generic = uplink.layouts.struct("pc_xdp_uplink").fields["is_generic"].offset
    with bpf_syscall.obj_get(uplink.pins.map("pc_xdp_uplinks")) as fd:
        (key,) = bpf_syscall.map_keys(fd, 4)
        about = bpf_syscall.map_lookup(fd, key, 40) or b""
        try:
            for mode, verdict in ((1, REDIRECT), (0, PASS)):
                changed = about[:is_generic] + bytes([mode]) + about[is_generic + 1 :]
                bpf_syscall.map_update(fd, struct.pack("=I", ifindex), changed)
                uplink.renew()
                for each in seen.values():
                    assert uplink.run(each.request, device=other)[0] == verdict
        finally:
            bpf_syscall.map_delete(fd, struct.pack("=I", ifindex))
    for each in seen.values():
        assert uplink.run(each.request, device=other)[0] == PASS


REDIRECTED = 7  # TC_ACT_REDIRECT
ETHERNET = 14


@pytest.mark.parametrize("seed", range(4))
def test_frames_with_random_headers_leave_as_tc_would_send_them(
    talks: Talks, outer: int, seed: int
) -> None:
    """Random bytes in the headers: every frame that XDP sends equals the frame that tc makes."""
    uplink, seen = talks
    chance, taken = Random(seed), 0
    inside_at = 0 if outer == 4 else 70  # by the VXLAN device: its headers are still missing
    for each in seen.values():
        for _ in range(1000):
            frame = bytearray(each.request)
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                at = chance.randrange(transport_at(each.request) + 20)
                frame[at] = chance.choice((0, 1, 255, frame[at] ^ 1 << chance.randrange(8)))
            verdict, found = uplink.run(bytes(frame))
            if verdict != TX:
                assert (verdict, found) == (PASS, bytes(frame))
                continue
            taken += 1
            verdict, sent = uplink.by_tc(bytes(frame))
            assert verdict == REDIRECTED, frame.hex()
            if outer == 4:  # the redirect is what writes the MACs
                sent, found = (without_choice(each)[ETHERNET:] for each in (sent, found))
            assert sent == found[inside_at:], frame.hex()
    assert taken > 400
