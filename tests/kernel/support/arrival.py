# SPDX-License-Identifier: Apache-2.0
"""Waits for expected packets as long as a slow machine needs, and only briefly for silence."""

import select
import socket
import time
from typing import Any

WAITS = 20.0
"""Seconds in which what is sent has to arrive: far above what a busy machine needs."""
SILENCE = 0.4
"""Seconds until silence counts as a drop. An arrival here takes well below a millisecond."""
_FIRST_TIMEOUT = 1.0
"""Seconds until a stack sends a SYN again that got no answer; after a wrong one it does at once."""
_RETRANSMITTED = 100  # tcpi_total_retrans of struct tcp_info


def arrived(end: socket.socket, size: int = 100) -> bytes:
    """The next data of a socket. TimeoutError where none comes."""
    return arrived_from(end, size)[0]


def arrived_from(end: socket.socket, size: int = 100) -> tuple[bytes, Any]:
    """The next data, and its sender."""
    before = end.gettimeout()
    end.settimeout(WAITS)
    try:
        return end.recvfrom(size)
    finally:
        end.settimeout(before)


def accepted(listening: socket.socket) -> socket.socket:
    """The next connection to a server."""
    before = listening.gettimeout()
    listening.settimeout(WAITS)
    try:
        return listening.accept()[0]
    finally:
        listening.settimeout(before)


def is_silent(end: socket.socket, seconds: float = SILENCE) -> bool:
    """Whether nothing arrives for so long: no data, no connection, no error, no end."""
    return not select.select([end], [], [], seconds)[0]


def connects(made: socket.socket, to: tuple[str, int], patience: float = WAITS) -> bool:
    """Whether a socket connects, by its first packet: its stack sends it again where it is lost."""
    before, began = made.gettimeout(), time.monotonic()
    made.settimeout(patience)
    try:
        made.connect(to)
    except TimeoutError:
        return False
    finally:
        made.settimeout(before)
    if made.type == socket.SOCK_STREAM and time.monotonic() - began >= _FIRST_TIMEOUT:
        info = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RETRANSMITTED + 4)
        assert not any(info[_RETRANSMITTED:]), "the first SYN got no answer"
    return True
