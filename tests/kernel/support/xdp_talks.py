# SPDX-License-Identifier: Apache-2.0
"""Conversations of external clients with a pod of the other node, and the frames that an uplink's
XDP program and tc make of them.
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

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.layout import Field
from policyc.runtime.kernel.pins import Pins
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
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
from tests.kernel.support.node_under_test import run_through
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)

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
        at = self.layouts.struct("pc_ct").fields["expires"].offset
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
        """Every entry of a map gets these bytes; gives what was there."""
        with bpf_syscall.obj_get(self.pins.map(name)) as fd:
            info = bpf_syscall.map_info(fd)
            keys = list(bpf_syscall.map_keys(fd, info.key_size))
            was = {key: bpf_syscall.map_lookup(fd, key, info.value_size) or b"" for key in keys}
            for key, old in was.items():
                bpf_syscall.map_update(fd, key, old[:at] + value + old[at + len(value) :])
        return was

    @contextmanager
    def rows(self, ident: Field, at: int, value: bytes) -> Iterator[None]:
        """As `patched`, of rows that are somebody's: those of nobody stay, as there are many."""
        with self.silence(), bpf_syscall.obj_get(self.pins.map("pc_backends")) as fd:
            was: dict[bytes, bytes] = {}
            for place in range(64):
                key = struct.pack("=I", place)
                row = bpf_syscall.map_lookup(fd, key, 64) or b""
                if any(row[ident.offset : ident.end]):
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
        """Every entry of these maps with other bytes, for a moment."""
        with self.silence():
            was = {name: self.patch(name, at, value) for name in names}
            try:
                yield
            finally:
                for name, entries in was.items():
                    with bpf_syscall.obj_get(self.pins.map(name)) as fd:
                        for key, old in entries.items():
                            bpf_syscall.map_update(fd, key, old)


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
    tmp_path_factory: pytest.TempPathFactory, bundle: Path, outer: int, loads_of_module: None
) -> Iterator[tuple[Uplink, Conversations]]:
    """Established connections, and what tc made of their packets, as the router saw it."""
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
        end.settimeout(WAITS)
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
