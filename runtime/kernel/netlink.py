# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of netlink(7), for what pyroute2 lacks, or without pyroute2."""

import errno
import os
import socket
import struct
from collections.abc import Iterator

REQUEST, ACKNOWLEDGE, DUMP = 0x1, 0x4, 0x300  # NLM_F_*
_INTERRUPTED = 0x10
"""NLM_F_DUMP_INTR: the list changed during the dump, and may lack entries that existed all the time."""
_READINGS = 16
"""How often a list that keeps changing is read before the function gives up."""
_ERROR, _DONE = 2, 3  # NLMSG_*
_HEAD, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_NUMBER = struct.Struct("=i")

Attributes = dict[int, bytes]


def asked(netlink: socket.socket, kind: int, body: bytes, flags: int) -> list[bytes]:
    """The body of each message of the kernel's answer; `OSError` with its errno where it refuses.

    Without DUMP and ACKNOWLEDGE the answer is one message.
    """
    return _asked(netlink, kind, body, flags)[0]


def dumped(netlink: socket.socket, kind: int, body: bytes) -> list[bytes]:
    """The body of each message of a list, from one point in time: read again if it changed meanwhile.

    `OSError` (EAGAIN) if it never stops changing.
    """
    for _ in range(_READINGS):
        found, is_interrupted = _asked(netlink, kind, body, DUMP)
        if not is_interrupted:
            return found
    raise OSError(errno.EAGAIN, "the list keeps changing")


def _asked(netlink: socket.socket, kind: int, body: bytes, flags: int) -> tuple[list[bytes], bool]:
    """Also whether the list changed during the dump."""
    netlink.send(_HEAD.pack(_HEAD.size + len(body), kind, REQUEST | flags, 0, 0) + body)
    found: list[bytes] = []
    said = 0
    while True:
        for answer, flagged, message in _messages(netlink.recv(1 << 16)):
            said |= flagged
            # A list that the kernel cannot complete ends with the reason.
            if answer in (_DONE, _ERROR) and (code := -_NUMBER.unpack_from(message)[0]):
                raise OSError(code, os.strerror(code))
            if answer in (_DONE, _ERROR):
                return found, bool(said & _INTERRUPTED)
            found.append(message)
            if not flags:
                return found, False


def packed(attributes: Attributes) -> bytes:
    """Attributes as in a message, each padded to 4 bytes."""
    return b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), name) + value + bytes(-len(value) % 4)
        for name, value in attributes.items()
    )


def unpacked(data: bytes) -> Attributes:
    """The attributes by type, without the flag for nested ones."""
    found: Attributes = {}
    at = 0
    while len(data) - at >= _ATTRIBUTE.size:
        size, name = _ATTRIBUTE.unpack_from(data, at)
        found[name & 0x3FFF] = data[at + _ATTRIBUTE.size : at + size]
        at += (max(size, _ATTRIBUTE.size) + 3) & ~3
    return found


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and body."""
    while data:
        size, kind, flags, *_ = _HEAD.unpack_from(data)
        yield kind, flags, data[_HEAD.size : size]
        data = data[(size + 3) & ~3 :]
