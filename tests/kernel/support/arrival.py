# SPDX-License-Identifier: Apache-2.0
"""Waits for expected packets as long as a slow machine needs, and only briefly for silence."""

import socket
from typing import Any

WAITS = 5.0
"""Seconds in which what is sent has to arrive."""


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
