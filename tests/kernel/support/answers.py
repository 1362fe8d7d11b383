# SPDX-License-Identifier: Apache-2.0
"""A hook's verdict on one frame and the frame after it, and the expected form of an answer."""

import ctypes
import struct
from dataclasses import dataclass

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.packets import checksum

NEXT, DROP, REDIRECT = -1, 2, 7
ROOM = 4096
CTX_SIZE, MARK, INGRESS_IFINDEX, IFINDEX = 192, 8, 36, 40  # of struct __sk_buff


@dataclass(frozen=True)
class Outcome:
    """The hook's verdict, the frame as it left it, and the mark on it."""

    verdict: int
    frame: bytes
    mark: int


def run_frame(fd: int, frame: bytes, ifindex: int, came_in: int, mark: int = 0) -> Outcome:
    """One frame through a hook, with what is made of it."""
    data = ctypes.create_string_buffer(frame, len(frame))
    out = ctypes.create_string_buffer(ROOM)
    ctx = ctypes.create_string_buffer(CTX_SIZE)
    struct.pack_into("=I", ctx, MARK, mark)
    struct.pack_into("=II", ctx, INGRESS_IFINDEX, came_in, ifindex)
    attr = bytearray(80)
    struct.pack_into(
        "=IIIIQQ", attr, 0, fd, 0, len(frame), ROOM, ctypes.addressof(data), ctypes.addressof(out)
    )
    address = ctypes.addressof(ctx)
    struct.pack_into("=IIIIQQ", attr, 32, 1, 0, CTX_SIZE, CTX_SIZE, address, address)
    bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
    verdict, _, size = struct.unpack_from("=iII", attr, 4)
    (marked,) = struct.unpack_from("=I", ctx, MARK)
    return Outcome(verdict, out.raw[:size], marked)


@dataclass(frozen=True)
class Answer:
    """An IP packet taken apart, every checksum of it found right."""

    macs: tuple[bytes, bytes]  # to, from
    addresses: tuple[bytes, bytes]  # from, to
    proto: int
    body: bytes  # from the transport header on


def answer_of(frame: bytes) -> Answer:
    """Take an answer apart; AssertionError where a length or a checksum is wrong."""
    packet = frame[14:]
    if frame[12:14] == b"\x08\x00":
        total = struct.unpack_from("!H", packet, 2)[0]
        assert packet[0] == 0x45 and total == len(packet) and packet[8] == 64
        assert checksum(packet[:20]) == 0
        proto, src, dst, body = packet[9], packet[12:16], packet[16:20], packet[20:]
        pseudo = b"" if proto == 1 else src + dst + struct.pack("!HH", proto, len(body))
    else:
        assert frame[12:14] == b"\x86\xdd" and packet[0] == 0x60 and packet[7] == 64
        proto, src, dst, body = packet[6], packet[8:24], packet[24:40], packet[40:]
        assert struct.unpack_from("!H", packet, 4)[0] == len(body)
        pseudo = src + dst + struct.pack("!II", len(body), proto)
    assert checksum(pseudo + body) == 0
    return Answer((frame[:6], frame[6:12]), (src, dst), proto, body)
