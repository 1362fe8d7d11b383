# SPDX-License-Identifier: Apache-2.0
"""Answers the health checks by which load balancers ask a node for endpoints of a Service.

    checks = HealthChecks(is_healthy, warn)
    checks.set({(4, 32000): Health("shop", "web", 2)})     whenever something changes
    checks.close()

A Service with `externalTrafficPolicy: Local` has a port for that (`healthCheckNodePort`). The answer is
kube-proxy's: 200 if an endpoint of the node is ready, otherwise 503, for any path (KEP-1669). One thread
serves all ports. It serves no client for longer than a few seconds.
"""

import errno
import json
import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import descriptors
from policyc.runtime.state import Warn

_MOST = 256  # concurrent clients; the next client replaces the oldest
_PAUSE = 0.1  # seconds, if there are no descriptors for new clients
_PATIENCE = 5.0  # seconds for a request
_LONGEST = 8192  # bytes of a request
_END = b"\r\n\r\n"
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Place = tuple[int, int]
"""A family (4 or 6), and a port at each address of the node."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a Service, as the answers report it."""

    namespace: str
    name: str
    n_local: int
    """Ready endpoints of this node."""


@dataclass(slots=True)
class _Client:
    """A connection, and the bytes that it has sent so far."""

    place: Place
    until: float
    received: bytes = b""


@dataclass(frozen=True, slots=True)
class _Change:
    """The new answers, and new listeners. Without any: the end."""

    answers: Mapping[Place, Health]
    opened: Mapping[Place, socket.socket]
    is_last: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class HealthChecks:
    """Ports that are answered until `close`; none before the first `set`."""

    def __init__(self, is_healthy: Callable[[], bool], warn: Warn) -> None:
        """`is_healthy`: whether the node translates at all. `warn` is told of ports that are in use."""
        self._is_healthy, self._warn = is_healthy, warn
        self._places: set[Place] = set()
        self._taken: set[Place] = set()
        self._server: _Server | None = None
        self._is_without_room = False

    def set(self, wanted: Mapping[Place, Health]) -> None:
        """Give these answers from now on, and none at other ports.

        A port that is in use is tried again at the next call.
        """
        if not wanted and self._server is None:
            return
        try:
            self._server = self._server or _Server(self._is_healthy)
        except OSError as error:
            self._warn(f"health checks are not answered: {os.strerror(error.errno or 0)}")
            return
        self._places &= wanted.keys()
        self._taken &= wanted.keys()
        opened = {}
        for place in self._with_room(sorted(wanted.keys() - self._places)):
            if found := self._listener(place, wanted[place]):
                opened[place] = found
        self._places |= opened.keys()
        self._server.change(_Change(dict(wanted), opened))

    def close(self) -> None:
        """Stop answering."""
        if self._server:
            self._server.change(_Change({}, {}, is_last=True))
        self._server = None
        self._places.clear()

    def _with_room(self, new: Sequence[Place]) -> Sequence[Place]:
        """The new ports, or none of them if there are no descriptors for them and their clients."""
        if not new:
            return new
        try:
            descriptors.make_room(len(new) + _MOST, "health checks")
        except HostError as error:
            if not self._is_without_room:
                self._warn(f"new ports are not answered: {error}")
            self._is_without_room = True
            return ()
        self._is_without_room = False
        return new

    def _listener(self, place: Place, what: Health) -> socket.socket | None:
        family, port = place
        try:
            if family == 4:
                found = socket.create_server(("0.0.0.0", port), backlog=_MOST)
            else:
                found = socket.create_server(("::", port), family=socket.AF_INET6, backlog=_MOST)
        except OSError as error:
            if place not in self._taken:
                self._warn(
                    f"{what.namespace}/{what.name}: health checks at port {port} of IPv{family} are "
                    f"not answered: {os.strerror(error.errno or 0)}"
                )
            self._taken.add(place)
            return None
        self._taken.discard(place)
        found.setblocking(False)
        return found


class _Server:
    """The thread, and the state that only it uses."""

    def __init__(self, is_healthy: Callable[[], bool]) -> None:
        self._is_healthy = is_healthy
        self._answers: Mapping[Place, Health] = {}
        self._listeners: dict[Place, socket.socket] = {}
        self._asking: dict[socket.socket, _Client] = {}
        self._selector = selectors.DefaultSelector()
        self._changes: queue.SimpleQueue[_Change] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def change(self, what: _Change) -> None:
        """Return when the change is active. For other threads."""
        self._changes.put(what)
        self._wake.send(b"!")
        while not what.done.wait(1):
            if not self._thread.is_alive():
                raise HostError("health checks are no longer answered", "start `node follow` again")
        if what.is_last:
            self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            patience = min((each.until for each in self._asking.values()), default=None)
            timeout = None if patience is None else max(0.0, patience - time.monotonic())
            for key, _ in self._selector.select(timeout):
                if key.fileobj is self._woken:
                    is_over = self._change()
                elif isinstance(key.fileobj, socket.socket):
                    self._serve(key.fileobj, key.data)
            now = time.monotonic()
            for link in [link for link, each in self._asking.items() if each.until <= now]:
                self._let_go(link)
        for link in list(self._asking):
            self._let_go(link)
        for each in (self._woken, self._wake, self._selector):
            each.close()

    def _change(self) -> bool:
        """Apply the waiting change; True for the last one."""
        self._woken.recv(1)
        what = self._changes.get()
        self._answers = what.answers
        for place in self._listeners.keys() - what.answers.keys():
            gone = self._listeners.pop(place)
            self._selector.unregister(gone)
            gone.close()
        for place, listener in what.opened.items():
            self._listeners[place] = listener
            self._selector.register(listener, selectors.EVENT_READ, place)
        what.done.set()
        return what.is_last

    def _serve(self, ready: socket.socket, place: Place) -> None:
        if ready in self._asking:
            self._read(ready, self._asking[ready])
        elif self._listeners.get(place) is ready:
            try:
                self._take(ready.accept()[0], place)
            except OSError as error:
                if error.errno in _NO_ROOM:  # the client stays in the queue, and is reported again
                    time.sleep(_PAUSE)

    def _take(self, link: socket.socket, place: Place) -> None:
        if len(self._asking) >= _MOST:  # a new client is served before many idle ones
            self._let_go(next(iter(self._asking)))
        link.setblocking(False)
        self._asking[link] = _Client(place, time.monotonic() + _PATIENCE)
        self._selector.register(link, selectors.EVENT_READ, place)

    def _read(self, link: socket.socket, asking: _Client) -> None:
        try:
            more = link.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        asking.received += more
        if _END in asking.received:
            with suppress(OSError):  # fits any buffer; the unsent rest would be lost
                link.send(self._answer(asking.received, asking.place))
        elif more and len(asking.received) < _LONGEST:
            return
        self._let_go(link)

    def _let_go(self, link: socket.socket) -> None:
        del self._asking[link]
        self._selector.unregister(link)
        link.close()

    def _answer(self, request: bytes, place: Place) -> bytes:
        words = request.split(b"\r\n", 1)[0].split()
        what = self._answers.get(place)
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, b"")
        if what is None:  # the port vanished while this was read
            return _response(HTTPStatus.SERVICE_UNAVAILABLE, b"")
        healthy = self._is_healthy()
        body = {
            "service": {"namespace": what.namespace, "name": what.name},
            "localEndpoints": what.n_local,
            "serviceProxyHealthy": healthy,
        }
        status = HTTPStatus.OK if what.n_local and healthy else HTTPStatus.SERVICE_UNAVAILABLE
        text = json.dumps(body).encode() + b"\n"
        return _response(status, text, words[0] != b"HEAD", what.n_local)


def _response(status: HTTPStatus, body: bytes, with_body: bool = True, weight: int = 0) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"X-Load-Balancing-Endpoint-Weight: {weight}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
