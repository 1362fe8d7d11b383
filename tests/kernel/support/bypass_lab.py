# SPDX-License-Identifier: Apache-2.0
"""Connections between processes of two pods, for tests of the bypass."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from policyc.runtime.maps.bypass import BypassTotals, totals
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.socket_lab import PODS, Socketed, address, host_of, made

PORT = 9000
S, C = TypeVar("S"), TypeVar("C")
Work = Callable[[socket.socket], S]


def serve_one(work: Callable[[socket.socket], S], port: int = PORT) -> S:
    """Accept one connection in this process, and do the work with it."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("::", port))
        listening.listen()
        listening.settimeout(WAITS)
        with listening.accept()[0] as taken:
            taken.settimeout(WAITS)
            return work(taken)


def connected(way: str, pod: str, port: int = PORT) -> socket.socket:
    """A socket that is connected to a server of the pod, which may not listen yet."""
    until = time.monotonic() + WAITS
    while True:
        made_socket = made(way, "TCP")
        try:
            made_socket.connect((address(way, host_of(pod)), port))
            return made_socket
        except ConnectionRefusedError:
            made_socket.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def talk(
    node: Socketed,
    client: Callable[[socket.socket], C],
    server: Callable[[socket.socket], S],
    way: str = "IPv4",
    ends: tuple[str, str] = ("client", "web"),
    inside: tuple[bool, bool] = (True, True),
) -> tuple[C, S]:
    """One connection from the first pod to the second: what the client found, and the server.

    `inside`: whether their processes are in the cgroup of the test.
    """

    def opens() -> C:
        with connected(way, ends[1]) as opened:
            return client(opened)

    with ThreadPoolExecutor(2) as pool:
        there = pool.submit(
            node.process, lambda: serve_one(server), inside[1], end=f"shop/{ends[1]}"
        )
        here = pool.submit(node.process, opens, inside[0], end=f"shop/{ends[0]}")
        return here.result(), there.result()


def counted(node: Socketed) -> BypassTotals:
    """The counters of the bypass."""
    return totals(node.pins)


def received(taken: socket.socket, size: int) -> bytes:
    """Exactly that many bytes, or those before the end."""
    found = bytearray()
    while len(found) < size:
        data = taken.recv(min(65536, size - len(found)))
        if not data:
            break
        found += data
    return bytes(found)


__all__ = ["PODS", "connected", "counted", "received", "serve_one", "talk"]
