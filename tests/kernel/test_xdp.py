# SPDX-License-Identifier: Apache-2.0
"""The XDP program, frame by frame: what it sends on is, byte for byte, what tc and the VXLAN device make
of the same frame; what it does not surely know it leaves to them.
"""

import ctypes
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from policyc.runtime import bpf_syscall
from policyc.runtime.btf import Btf
from policyc.runtime.pins import Pins
from tests.kernel import connection_tables
from tests.kernel.bundles import compiled
from tests.kernel.node_under_test import run_through
from tests.kernel.test_outside_wire import (
    ANSWERS,
    NODE_PORT,
    POLICY,
    PORT_OF_TUNNEL,
    REQUESTS,
    TARGET,
    TCP,
    UDP,
    frames_of,
    services,
)
from tests.kernel.two_nodes import UPLINK, TwoNodes, address

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
PASS, TX = 2, 3  # enum xdp_action
HOSTS, SERVICES = 0x100000, 0x10000  # PC_STATE_*
CONNECTIONS = ("pc_ct4", "pc_ct4_new", "pc_ct6", "pc_ct6_new")
IP6 = b"\x86\xdd"
Edit = Callable[[bytearray, int], None]
"""Changes a frame, of which it is told where its transport header is."""


def ones_sum(data: bytes) -> int:
    """Of RFC 1071: 0xffff where a checksum among it is right."""
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def transport_at(frame: bytes) -> int:
    return 14 + (40 if frame[12:14] == IP6 else 20)


def pseudo(frame: bytes) -> bytes:
    """The pseudo header of TCP or UDP."""
    at, is6 = transport_at(frame), frame[12:14] == IP6
    addresses = frame[22:54] if is6 else frame[26:34]
    length = struct.unpack("!H", frame[18:20] if is6 else frame[16:18])[0] - (0 if is6 else 20)
    assert at + length <= len(frame)
    return addresses + struct.pack("!HH", frame[20] if is6 else frame[23], length)


def is_right(frame: bytes) -> bool:
    """Whether IPv4's checksum and that of the transport are."""
    at = transport_at(frame)
    if frame[12:14] != IP6 and ones_sum(frame[14:at]) != 0xFFFF:
        return False
    return ones_sum(pseudo(frame) + frame[at:]) == 0xFFFF


def checked_at(frame: bytes) -> int:
    """Where the transport's checksum is."""
    return transport_at(frame) + (16 if frame[20 if frame[12:14] == IP6 else 23] == 6 else 6)


def network_of(frame: bytes) -> bytes:
    """The VXLAN network of a frame between nodes; empty: it is none."""
    at = transport_at(frame)
    is_udp = frame[20 if frame[12:14] == IP6 else 23] == 17
    return frame[at + 12 : at + 15] if is_udp and frame[at + 2 : at + 4] == PORT_OF_TUNNEL else b""


def without_choice(frame: bytes) -> bytes:
    """An outer packet, but for what each sender chooses: its number and port, and their checksums."""
    at, found = transport_at(frame), bytearray(frame)
    if frame[12:14] != IP6:
        found[18:20] = found[24:26] = bytes(2)
    found[at : at + 2] = found[at + 6 : at + 8] = bytes(2)
    return bytes(found)


@dataclass
class Uplink:
    """Node a's: frames are thrown at its XDP program."""

    lab: TwoNodes
    ends: tuple[tuple[socket.socket, socket.socket], ...]
    layouts: Btf
    renewed: float = 0

    @property
    def pins(self) -> Pins:
        return Pins(self.lab.bpffs("a"))

    def run(self, frame: bytes, device: str = UPLINK) -> tuple[int, bytes]:
        """What becomes of a frame that comes in, while no second has passed for the connections."""
        if time.monotonic() > self.renewed + 0.3:
            self.renew()
        return self.lab.at["a"].within(lambda: self._run(frame, socket.if_nametoindex(device)))

    def _run(self, frame: bytes, ifindex: int) -> tuple[int, bytes]:
        (pin,) = self.pins.xdp.iterdir()
        with bpf_syscall.obj_get(pin) as link:
            ident = bpf_syscall.link_info(link).prog_id
        given = ctypes.create_string_buffer(frame, len(frame))
        out = ctypes.create_string_buffer(4096)
        ctx = ctypes.create_string_buffer(struct.pack("=6I", 0, len(frame), 0, ifindex, 0, 0), 24)
        attr = bytearray(80)
        with bpf_syscall.prog_by_id(ident) as fd:
            addresses = ctypes.addressof(given), ctypes.addressof(out)
            struct.pack_into("=IIIIQQ", attr, 0, fd, 0, len(frame), len(out), *addresses)
            struct.pack_into("=IIIIQQ", attr, 32, 1, 0, 24, 0, ctypes.addressof(ctx), 0)
            bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
        verdict, _, size = struct.unpack_from("=III", attr, 4)
        return verdict, out.raw[:size]

    def by_tc(self, frame: bytes) -> tuple[int, bytes]:
        """What the hook of tc makes of it."""

        def there() -> tuple[int, bytes]:
            ifindex = socket.if_nametoindex(UPLINK)
            with bpf_syscall.obj_get(self.pins.hook("pc_from_uplink")) as fd:
                return run_through(fd, frame, ifindex, ifindex)

        return self.lab.at["a"].within(there)

    def renew(self) -> None:
        """Make tc write that packets came just now: by a time that cannot be, and what both ends say."""
        at, _ = self.layouts.struct("pc_ct").fields["expires"]
        for name in CONNECTIONS:
            self.patch(name, at, struct.pack("=Q", 1 << 60))
        for client, server in self.ends:
            _exchange(client, server)
        self.renewed = time.monotonic()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Just after both ends spoke, nothing more comes: tc would act on what is not true."""
        self.renew()
        self._let_through("DROP")
        self.renewed = math.inf
        try:
            yield
        finally:
            self.renewed = 0
            self._let_through("ACCEPT")

    def _let_through(self, verdict: str) -> None:
        for program in ("iptables", "ip6tables"):
            self.lab.run("router", program, "-P", "FORWARD", verdict)

    def patch(self, name: str, at: int, value: bytes) -> dict[bytes, bytes]:
        """Every entry of a table of connections gets these bytes; gives what was there."""
        was = connection_tables.entries(self.pins.map(name))
        end = at + len(value)
        changed = {key: old[:at] + value + old[end:] for key, old in was.items()}
        connection_tables.change(self.pins.map(name), changed)
        return was

    @contextmanager
    def rows(self, ident: tuple[int, int], at: int, value: bytes) -> Iterator[None]:
        """As `patched`, of rows that are somebody's: those of nobody stay, as there are many."""
        with self.silence(), bpf_syscall.obj_get(self.pins.map("pc_rows")) as fd:
            was: dict[bytes, bytes] = {}
            for place in range(64):
                key = struct.pack("=I", place)
                row = bpf_syscall.map_lookup(fd, key, 64) or b""
                if any(row[ident[0] : ident[0] + ident[1]]):
                    was[key] = row
                    bpf_syscall.map_update(fd, key, row[:at] + value + row[at + len(value) :])
            assert was
            try:
                yield
            finally:
                for key, row in was.items():
                    bpf_syscall.map_update(fd, key, row)

    @contextmanager
    def patched(self, at: int, value: bytes, *names: str) -> Iterator[None]:
        """Every entry of these tables with other bytes, for a moment."""
        with self.silence():
            was = {name: self.patch(name, at, value) for name in names}
            try:
                yield
            finally:
                for name, entries in was.items():
                    connection_tables.change(self.pins.map(name), entries)


@dataclass(frozen=True)
class Conversation:
    """Frames of one connection, as they came to node a and left it by tc."""

    request: bytes
    handed_over: bytes
    handed_back: bytes
    answer: bytes


Conversations = dict[tuple[int, int], Conversation]
"""By family of the client and kind of socket."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("xdp"), POLICY)


@pytest.fixture(scope="module", params=[4, 6], ids=["outer4", "outer6"])
def outer(request: pytest.FixtureRequest) -> int:
    """The family of the nodes' addresses to each other."""
    return int(request.param)


@pytest.fixture(scope="module")
def talks(
    tmp_path_factory: pytest.TempPathFactory, bundle: Path, outer: int
) -> Iterator[tuple[Uplink, Conversations]]:
    """Connections that go on, and what tc made of their packets, as the router saw it."""
    with ExitStack() as owned:
        lab = TwoNodes(tmp_path_factory.mktemp("nodes"), owned)
        lab.offload(tx=False, segments=False)
        nodes = (4, 6) if outer == 4 else (6,)
        for node in ("b", "a"):
            lab.load(node, bundle, services("pod-b"), families=nodes)
        ends = {
            (family, kind): _opened(lab, family, kind)
            for family in (4, 6)
            for kind in (TCP, UDP)
            if family in nodes
        }
        wire = lab.capture("router", "to-a")
        seen = {}
        for key, (client, server) in ends.items():
            frames_of(wire)
            said = _exchange(client, server)
            seen[key] = _conversation(frames_of(wire), *said)
        lab.load("a", bundle, services("pod-b"), families=nodes, xdp_mode="generic")
        layouts = Btf.of_object(bundle / "xdp.bpf.o")
        yield Uplink(lab, tuple(ends.values()), layouts), seen


def _opened(lab: TwoNodes, family: int, kind: int) -> tuple[socket.socket, socket.socket]:
    server = lab.server("pod-b", family, kind, TARGET)
    if kind == TCP:
        client = lab.connect("client1", family, address("a", family), NODE_PORT)
        assert client
        served = lab.accept(server)
    else:
        client = lab.open_socket("client1", family, kind)
        client.connect((address("a", family), NODE_PORT))
        client.send(b"hello")
        _, peer = server.recvfrom(100)
        server.connect(peer[:2])
        served = server
    for end in (client, served):
        end.settimeout(10)
        if kind == TCP:  # what was sent in a silence is not waited for
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _exchange(client, served)
    return client, served


def _exchange(client: socket.socket, server: socket.socket) -> tuple[bytes, bytes]:
    """There, back and there again; gives what was said first each way."""
    said = []
    for sender, receiver in ((client, server), (server, client), (client, server)):
        said.append(os.urandom(101))
        sender.send(said[-1])
        assert receiver.recv(1000) == said[-1]
    return said[0], said[1]


def _conversation(frames: list[bytes], asked: bytes, told: bytes) -> Conversation:
    """Each of the two packets was seen twice by the router."""
    requests = [each for each in frames if each.endswith(asked)]
    answers = [each for each in frames if each.endswith(told)]
    (request,) = (each for each in requests if not network_of(each))
    (over,) = (each for each in requests if network_of(each) == REQUESTS)
    (back,) = (each for each in answers if network_of(each) == ANSWERS)
    (answer,) = (each for each in answers if not network_of(each))
    return Conversation(request, over, back, answer)


Talks = tuple[Uplink, Conversations]


def test_a_request_leaves_as_tc_and_the_device_send_it(talks: Talks, outer: int) -> None:
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


def test_an_answer_leaves_as_tc_sends_it(talks: Talks) -> None:
    uplink, seen = talks
    for key, each in seen.items():
        assert uplink.run(each.handed_back) == (TX, each.answer), key
        assert is_right(each.answer)


def test_a_flow_has_one_port_and_its_packets_many_numbers(talks: Talks, outer: int) -> None:
    uplink, seen = talks
    ports, numbers = set(), set()
    for each in seen.values():
        sent = [uplink.run(each.request)[1] for _ in range(20)]
        at = transport_at(sent[0])
        (port,) = {frame[at : at + 2] for frame in sent}
        assert 0x8000 <= int.from_bytes(port, "big") < 0xC000, "none of those that pods leave by"
        ports.add(port)
        numbers |= {frame[18:20] for frame in sent}
    assert len(ports) > 1
    if outer == 4:
        assert len(numbers) > 10


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


def test_what_is_not_surely_known_is_left_to_tc_as_it_is(talks: Talks) -> None:
    uplink, seen = talks
    for (family, kind), each in seen.items():
        edits = OTHERS | CUT_OFF | (OF_IP4 if family == 4 else OF_IP6)
        edits |= OF_TCP if kind == TCP else OF_UDP
        for why, edit in edits.items():
            frame = edited(each.request, edit)
            assert uplink.run(frame) == (PASS, frame), (family, kind, why)
        assert uplink.run(each.request)[0] == TX


def test_answers_that_are_not_surely_known_are_left_to_tc(talks: Talks, outer: int) -> None:
    """By their outer headers, and by those inside."""
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


def test_a_checksum_that_is_left_to_a_device_is_left_to_tc(talks: Talks) -> None:
    """As a veth hands it over: XDP cannot see that somebody should finish it."""
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
    """Inside; and where the outer packet has one, that too."""
    uplink, seen = talks
    for key, each in seen.items():
        frame = bytearray(each.request)
        frame[-1] ^= 1
        verdict, found = uplink.run(bytes(frame))
        assert verdict == TX, key
        assert not is_right(found[transport_at(found) + 16 :])
        assert outer == 4 or not is_right(found)


def test_udp_without_a_checksum(talks: Talks, outer: int) -> None:
    """Between IPv6 addresses the outer checksum goes by the inner one."""
    uplink, seen = talks
    for (family, kind), each in seen.items():
        if kind == UDP:
            frame = edited(each.request, put_l4(6, b"\0\0"))
            assert uplink.run(frame)[0] == (TX if family == outer == 4 else PASS)


def test_what_is_behind_the_datagram_goes_with_it(talks: Talks, outer: int) -> None:
    """As Ethernet pads small packets. Behind IPv6 it is left to tc."""
    uplink, seen = talks
    for key, each in seen.items():
        verdict, found = uplink.run(each.request + b"\xaa" * 6)
        assert verdict == (TX if outer == 4 else PASS), key
        if outer == 4:
            assert without_choice(found)[50:] == each.handed_over[50:] + b"\xaa" * 6


@pytest.mark.parametrize("inside", [0, 1, 2, 3])
def test_congestion_is_told_as_of_rfc_6040(talks: Talks, outer: int, inside: int) -> None:
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


def test_what_tc_would_have_to_write_is_left_to_it(talks: Talks) -> None:
    uplink, seen = talks
    fields = uplink.layouts.struct("pc_ct").fields
    for why, state in STATES.items():
        with uplink.patched(fields["state"][0], struct.pack("=I", state), *CONNECTIONS):
            for (family, kind), each in seen.items():
                assert uplink.run(each.request)[0] == PASS, (family, kind, why)
                assert uplink.run(each.handed_back)[0] == PASS, (family, kind, why)
    for field, value in (
        ("expires", struct.pack("=Q", 1)),  # long ago
        ("expires", struct.pack("=Q", 1 << 60)),  # of a state that lasts longer
        ("epoch", struct.pack("=I", 77)),
    ):
        with uplink.patched(fields[field][0], value, *CONNECTIONS):
            for each in seen.values():
                assert uplink.run(each.request) == (PASS, each.request), field
                assert uplink.run(each.handed_back) == (PASS, each.handed_back), field
    for each in seen.values():
        assert uplink.run(each.request)[0] == uplink.run(each.handed_back)[0] == TX


def test_rows_and_settings_that_changed_are_left_to_tc(talks: Talks) -> None:
    uplink, seen = talks

    def at(struct_name: str, field: str) -> int:
        return uplink.layouts.struct(struct_name).fields[field][0]

    with bpf_syscall.obj_get(uplink.pins.map("pc_state")) as fd:
        (word,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")
    both, requests, answers = (True, True), (True, False), (False, True)
    for name, where, value, (asked, told) in (
        ("pc_state", 0, struct.pack("=Q", word | HOSTS), both),
        ("pc_state", 0, struct.pack("=Q", word & ~SERVICES), both),
        ("pc_state", 0, bytes(8), both),
        ("pc_node_ends", 0, bytes(40), both),
        ("pc_node_nums", 0, struct.pack("=I", 99), answers),
        ("pc_outside", at("pc_outside", "tunnel"), bytes(4), requests),
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


def test_ports_by_which_pods_leave_are_left_to_tc(talks: Talks) -> None:
    """PC_STATE_MASQ, and a range that has the port."""
    uplink, seen = talks
    with bpf_syscall.obj_get(uplink.pins.map("pc_state")) as fd:
        (word,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")
    masq = struct.pack("=Q", word | 0x40000)
    for low, high, verdict in ((NODE_PORT, NODE_PORT, PASS), (NODE_PORT + 1, 65535, TX)):
        ports = struct.pack("=II", low, high)
        with uplink.patched(0, masq, "pc_state"):
            uplink.patch("pc_masq", 0, ports)
            for each in seen.values():
                assert uplink.run(each.request)[0] == verdict
    uplink.patch("pc_masq", 0, bytes(8))


def test_a_row_that_is_closed_is_left_to_tc(talks: Talks) -> None:
    """Its endpoint is gone, or another has its place."""
    uplink, seen = talks
    fields = uplink.layouts.struct("pc_row").fields
    for field, value in (("state", b"\1"), ("id", bytes(4))):
        with uplink.rows(fields["id"], fields[field][0], value):
            for each in seen.values():
                assert uplink.run(each.request) == (PASS, each.request)
                assert uplink.run(each.handed_back) == (PASS, each.handed_back)


def test_too_big_for_the_tunnel_is_left_to_tc(talks: Talks, outer: int) -> None:
    """As large as fits goes on; one byte more is told, or cut, by tc."""
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


def test_an_answer_is_routed_by_its_source_too(talks: Talks) -> None:
    """As tc asks for its way: rules may lead what has the Service's address elsewhere."""
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


def test_a_request_is_routed_as_one_of_the_nodes_own(talks: Talks, outer: int) -> None:
    """As the VXLAN device asks: rules of what comes in by the uplink are not about the outer packet."""
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


def test_out_by_another_uplink(talks: Talks) -> None:
    """Where the same runs the program: what a driver sends, another one need not take."""
    uplink, seen = talks
    other = uplink.lab.device("pod-a")
    ifindex = uplink.lab.at["a"].within(lambda: socket.if_nametoindex(other))
    is_generic = uplink.layouts.struct("pc_xdp_uplink").fields["is_generic"][0]
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


@pytest.mark.parametrize("seed", range(4))
def test_what_it_takes_tc_would_hand_over_just_so(talks: Talks, outer: int, seed: int) -> None:
    """Frames with other bytes in their headers: those that it sends on hold what tc makes of them."""
    uplink, seen = talks
    chance, taken = Random(seed), 0
    inside_at = 50 if outer == 4 else 70
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
            assert uplink.by_tc(bytes(frame)) == (REDIRECTED, found[inside_at:]), frame.hex()
    assert taken > 400
