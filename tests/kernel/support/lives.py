# SPDX-License-Identifier: Apache-2.0
"""Connections that are opened, bypassed, closed and followed by others, without end."""

import random
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.kernel.support.bypass_lab import (
    Connection,
    counted,
    deliver,
    inside,
    listening,
    received,
)
from tests.kernel.support.socket_lab import Socketed, address, host_of, made

LONGEST_SECONDS = 60.0
BREAK_SECONDS = 0.03
LARGEST = 4.3
"""The decimal logarithm of the largest message: one thread sends it and then reads it."""


@dataclass
class Life:
    """One connection, until it has had so many bypassed messages."""

    talking: Connection
    wanted: int
    bypassed: int = 0
    end: float = field(default_factory=lambda: time.monotonic() + LONGEST_SECONDS)


@dataclass
class Lives:
    """So many connections at a time from the first pod to the second. No other one may be bypassed."""

    node: Socketed
    ends: tuple[str, str]
    at_once: int
    port: int = 9100
    ended: list[Life] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _errors: list[BaseException] = field(default_factory=list)
    _messages: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(1))
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether no connection has failed yet."""
        return self._thread.is_alive()

    def finish(self) -> list[Life]:
        """Stop; the connections that came to their end. Raise what one of them found."""
        self._stop.set()
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self.ended

    def _guarded(self) -> None:
        try:
            with ExitStack() as held:
                self._run(held.enter_context(listening(self.node, self.ends[1], self.port)), held)
        except BaseException as error:
            self._errors.append(error)

    def _run(self, accepting: socket.socket, held: ExitStack) -> None:
        alive: list[Life] = []
        while not self._stop.is_set():
            while len(alive) < self.at_once:
                alive.append(self._born(accepting, held))
            for life in alive:
                self._exchange(life)
            time.sleep(BREAK_SECONDS)  # what loads beside this needs the interpreter, too
            for life in [each for each in alive if each.bypassed >= each.wanted]:
                alive.remove(life)
                self._close(life)

    def _born(self, accepting: socket.socket, held: ExitStack) -> Life:
        def connect() -> socket.socket:
            opened = made("IPv4", "TCP")
            opened.connect((address("IPv4", host_of(self.ends[1])), self.port))
            return opened

        client = held.enter_context(inside(self.node, self.ends[0], connect))
        server = held.enter_context(accepting.accept()[0])
        server.settimeout(client.gettimeout())
        return Life(Connection(client, server), self._chance.randrange(2, 100))

    def _data(self) -> bytes:
        return self._chance.randbytes(int(10 ** self._chance.uniform(0, LARGEST)))

    def _exchange(self, life: Life) -> None:
        """Every byte is compared."""
        life.talking.exchange(self._data(), self._data())
        before, self._messages = self._messages, counted(self.node).messages
        life.bypassed += self._messages - before
        assert time.monotonic() < life.end, f"{life.bypassed} of {life.wanted} were bypassed"

    def _close(self, life: Life) -> None:
        """Either end closes first; what it has sent before arrives whole."""
        ends = [life.talking.client, life.talking.server]
        self._chance.shuffle(ends)
        first, last = ends
        data = self._data()
        first.sendall(data)
        first.shutdown(socket.SHUT_WR)
        assert received(last, len(data) + 1) == data
        deliver(last, first, self._data())
        last.close()
        assert first.recv(1) == b""
        first.close()
        self._messages = counted(self.node).messages
        self.ended.append(life)
