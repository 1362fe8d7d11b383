# SPDX-License-Identifier: Apache-2.0
"""A thread that entered recv() before its socket was added to the bypass.

It is in the kernel's tcp_recvmsg(), which never looks at the queue of the bypass (`ingress_msg` of
the psock). A message that goes there does not end its wait.
"""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD, TIOCOUTQ

import pytest

from tests.eventually import eventually
from tests.kernel.bypass.test_bypass import OPEN, load
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bypass_lab import (
    Connection,
    connection,
    counted,
    deliver,
    exchanged,
    received,
)
from tests.kernel.support.socket_lab import PODS, Socketed, socket_lab

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

TOO_FEW = 7
"""Exchanges: after one more the connection is added (PC_BYPASS_EXCHANGES)."""
SIZE, FIRST = 100, 25


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("waiting"), tuple(PODS.values())
    with socket_lab(folder, OPEN, "c", pods, options=("--socket-programs",)) as found:
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    load(lab)
    yield lab
    lab.unload()


@dataclass
class Reader:
    """A thread that makes one call: recv(SIZE, MSG_WAITALL)."""

    taken: socket.socket
    found: bytes | None = None
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.taken.settimeout(None)  # with a timeout, Python waits in poll()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        self.found = self.taken.recv(SIZE, socket.MSG_WAITALL)

    def is_in_tcp_recvmsg(self) -> bool:
        """Whether the thread waits there, and not in tcp_bpf_recvmsg()."""
        stack = Path(f"/proc/self/task/{self._thread.native_id}/stack").read_text()
        return " tcp_recvmsg+" in stack and " sk_wait_data+" in stack

    def returned(self) -> bytes:
        """The data, or nothing if the call has not returned in time."""
        self._thread.join(WAITS / 4)
        return self.found or b""

    def join(self) -> None:
        """The caller has closed the other end."""
        self._thread.join()


def is_read(sender: socket.socket, receiver: socket.socket) -> bool:
    """Whether the receiver has acknowledged and read all that the stack brought."""
    queues = (sender, TIOCOUTQ), (receiver, FIONREAD)
    return not any(any(ioctl(each, queue, bytes(4))) for each, queue in queues)


def add(node: Socketed, talking: Connection) -> None:
    """Answer without requests until the hook has added the connection."""

    def is_added() -> bool:
        deliver(talking.server, talking.client, b"more")
        return counted(node).connections == 1

    eventually(is_added, "the connection is added to the bypass")


def outlast_grace(node: Socketed) -> None:
    """A connection that is added later is bypassed: the grace of all others has passed."""
    with connection(node, ("client", "cart"), port=9001) as later:
        exchanged(node, later)


def test_a_message_goes_by_the_stack_while_a_thread_is_in_tcp_recvmsg(node: Socketed) -> None:
    data = bytes(range(SIZE))
    with connection(node) as talking:
        for _ in range(TOO_FEW):
            talking.exchange()
        reader = Reader(talking.server)
        try:
            eventually(reader.is_in_tcp_recvmsg, "the reader waits")
            talking.client.sendall(data[:FIRST])
            eventually(lambda: is_read(talking.client, talking.server), "the first bytes are read")
            add(node, talking)
            outlast_grace(node)
            deliver(talking.server, talking.client, b"all is read")  # pc_bypass_tell()
            assert reader.is_in_tcp_recvmsg() and is_read(talking.client, talking.server)
            before = counted(node).messages
            talking.client.sendall(data[FIRST:])
            assert reader.returned() == data
            assert counted(node).messages == before
        finally:
            talking.client.shutdown(socket.SHUT_WR)
            reader.join()


def test_the_same_message_is_bypassed_once_no_thread_waits(node: Socketed) -> None:
    data = bytes(range(SIZE))
    with connection(node) as talking:
        for _ in range(TOO_FEW + 1):
            talking.exchange()
        add(node, talking)
        outlast_grace(node)
        deliver(talking.server, talking.client, b"all is read")
        before = counted(node).messages
        talking.client.sendall(data)
        assert received(talking.server, SIZE) == data
        assert counted(node).messages == before + 1
