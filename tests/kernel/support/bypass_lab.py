# SPDX-License-Identifier: Apache-2.0
"""Connections between processes of two pods, for tests of the bypass."""

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from policyc.runtime.lab.children import enter
from policyc.runtime.maps.bypass import BypassTotals, totals
from tests.eventually import eventually
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.socket_lab import Socketed, address, host_of, made

PORT = 9000
T = TypeVar("T")


def inside(node: Socketed, pod: str, work: Callable[[], T]) -> T:
    """What a thread in the pod's network namespace finds."""
    found: list[T | BaseException] = []

    def run() -> None:
        with pathlib.Path(node.lab.ends[f"shop/{pod}"].namespace).open("rb") as namespace:
            enter(namespace.fileno())
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def listening(node: Socketed, pod: str, port: int = PORT) -> socket.socket:
    """A listening socket of the pod."""

    def listen() -> socket.socket:
        opened = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(("::", port))
        opened.listen(1024)
        opened.settimeout(WAITS)
        return opened

    return inside(node, pod, listen)


@dataclass
class Connection:
    """The two sockets of a connection between pods."""

    client: socket.socket
    server: socket.socket

    def exchange(self, request: bytes = b"request", answer: bytes = b"answer") -> None:
        """One request and its answer, which both arrive whole."""
        deliver(self.client, self.server, request)
        deliver(self.server, self.client, answer)


def deliver(sender: socket.socket, receiver: socket.socket, data: bytes) -> None:
    """Send, receive and compare."""
    sender.sendall(data)
    found = received(receiver, len(data))
    assert found == data, f"{len(found)} of {len(data)} bytes, or other ones"


def received(taken: socket.socket, size: int) -> bytes:
    """Exactly that many bytes, or those before the end."""
    found = bytearray()
    while len(found) < size:
        data = taken.recv(min(65536, size - len(found)))
        if not data:
            break
        found += data
    return bytes(found)


@contextlib.contextmanager
def connection(
    node: Socketed, ends: tuple[str, str] = ("client", "web"), way: str = "IPv4", port: int = PORT
) -> Iterator[Connection]:
    """A connection from the first pod to the second."""

    def connect() -> socket.socket:
        opened = made(way, "TCP")
        opened.connect((address(way, host_of(ends[1])), port))
        return opened

    with (
        listening(node, ends[1], port) as accepting,
        inside(node, ends[0], connect) as client,
        accepting.accept()[0] as server,
    ):
        server.settimeout(WAITS)
        yield Connection(client, server)


def counted(node: Socketed) -> BypassTotals:
    """The counters of the bypass."""
    return totals(node.pins)


def exchanged(node: Socketed, talking: Connection) -> None:
    """Exchange until a request and its answer are bypassed."""

    def both() -> bool:
        before = counted(node).messages
        talking.exchange()
        time.sleep(0.01)
        return counted(node).messages == before + 2

    eventually(both, "a request and its answer are bypassed")


def exchanged_for(talking: Connection, seconds: float) -> None:
    """Exchange for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        talking.exchange()
        time.sleep(0.01)
