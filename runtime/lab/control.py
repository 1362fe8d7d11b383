# SPDX-License-Identifier: Apache-2.0
"""A control flow: measures how long a probe waits, on a machine that may be slow.

A drop shows only as silence, and a slow machine is silent too. The control flow passes by
construction: one datagram at a time goes over loopback to an echo server of the same event loop.
An echo that was sent after a probe and came back shows that the loop served the probe's sockets
since. Waits are counted in such echoes, so a busy machine makes a wait longer, not a probe denied.
"""

import asyncio
import contextlib
import math
import os
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

from policyc.runtime.lab.children import LabError

T = TypeVar("T")

INTERVAL = 0.02  # seconds from an echo to the next request
_RESENT_AFTER = 1.0  # seconds; a full queue of the kernel may drop even a datagram on loopback
_LOST_AFTER = 30  # tries


class ControlFlow:
    """Echoes over loopback until closed, and ends the waits that have had enough echoes."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        """Take two connected, nonblocking datagram sockets."""
        self._client = client
        self._server = server
        self._n_echoes = 0
        self._due: defaultdict[int, set[asyncio.Timeout]] = defaultdict(set)

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator["ControlFlow"]:
        """A control flow on the loopback device of the calling thread's network namespace."""
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        ):
            for sock in (client, server):
                sock.setblocking(False)
                sock.bind(("127.0.0.1", 0))
            client.connect(server.getsockname())
            server.connect(client.getsockname())
            yield cls(client, server)

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` beside the control flow; its result.

        LabError is raised when the control flow itself gets no answer.
        """
        echoes = asyncio.create_task(self._echo_forever())
        working = asyncio.create_task(work)
        try:
            await asyncio.wait({echoes, working}, return_when=asyncio.FIRST_COMPLETED)
            if echoes.done():
                await echoes  # raises: it returns only with an error
            return await working
        finally:
            for task in (echoes, working):
                task.cancel()
            await asyncio.gather(echoes, working, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError in the body after `seconds`, counted in echoes of the control flow.

        The echo under way may have been sent before the body's packets, so it does not count.
        """
        due = self._n_echoes + 1 + math.ceil(seconds / INTERVAL)
        async with asyncio.timeout(None) as limit:
            self._due[due].add(limit)
            try:
                yield
            finally:
                self._due[due].discard(limit)

    async def _echo_forever(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._server, self._answer)
        try:
            while True:
                await asyncio.sleep(INTERVAL)
                await self._echo()
                self._n_echoes += 1
                for limit in self._due.pop(self._n_echoes, ()):
                    limit.reschedule(loop.time())
        finally:
            loop.remove_reader(self._server)

    async def _echo(self) -> None:
        loop = asyncio.get_running_loop()
        token = os.urandom(16)
        for _ in range(_LOST_AFTER):
            self._client.send(token)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RESENT_AFTER):
                    while await loop.sock_recv(self._client, len(token)) != token:
                        pass
                    return
        raise LabError(f"no echo over loopback in {_LOST_AFTER * _RESENT_AFTER:.0f} s")

    def _answer(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._server.send(self._server.recv(64))
