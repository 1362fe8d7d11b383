# SPDX-License-Identifier: Apache-2.0
"""Devices, filters and qdiscs that appear, change or vanish, as rtnetlink multicasts it."""

import select
import socket
import struct
from collections.abc import Iterator

from policyc.runtime.errors import HostError

_GROUPS = 0x1 | 0x8  # RTMGRP_LINK, RTMGRP_TC
_LINKS, _TRAFFIC = (16, 17), (36, 37, 44, 45)  # RTM_NEWLINK, RTM_DELLINK; of qdiscs and filters
_HEAD = struct.Struct("=IH")  # nlmsghdr: length and type
_INDEX, _INDEX_AT = struct.Struct("=i"), 20  # ifinfomsg and tcmsg, behind nlmsghdr
_BUFFER, _PIECE = 1 << 20, 1 << 16


class LinkEvents:
    """A socket in this network namespace. Events between two calls wait in it."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        try:
            self._socket = socket.socket(socket.AF_NETLINK, kind, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.bind((0, _GROUPS))
        except OSError as error:
            raise HostError(f"rtnetlink cannot read device events: {error.strerror}") from error

    def wait(self, seconds: float, also: int) -> None:
        """Wait until there is an event, the descriptor is readable, or so many seconds have passed."""
        select.select([self._socket.fileno(), also], [], [], seconds)

    def touched(self) -> set[int] | None:
        """The ifindexes of all waiting events; None if events were lost."""
        found: set[int] = set()
        while True:
            try:
                data, (sender, _) = self._socket.recvfrom(_PIECE)
            except BlockingIOError:
                return found
            except OSError:  # ENOBUFS: more events came than the buffer holds
                return None
            if sender == 0:  # the kernel
                found.update(_indexes(data))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _indexes(data: bytes) -> Iterator[int]:
    while len(data) >= _HEAD.size:
        size, kind = _HEAD.unpack_from(data)
        if kind in (*_LINKS, *_TRAFFIC) and size >= _INDEX_AT + _INDEX.size:
            yield _INDEX.unpack_from(data, _INDEX_AT)[0]
        if size < _HEAD.size:
            return
        data = data[(size + 3) & ~3 :]
