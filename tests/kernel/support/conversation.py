# SPDX-License-Identifier: Apache-2.0
"""Two ends that exchange pseudo-random data over one connection, and compare every byte of it."""

import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

HEADER = struct.Struct("!II")
LARGEST = 300_000
WAIT_SECONDS = 20.0


class WrongDataError(AssertionError):
    """Bytes that were not sent, or not at this place."""


class Stream:
    """The data of one direction: both ends make the same from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.length = 0

    def next(self, size: int) -> bytes:
        """The next bytes."""
        self.length += size
        return self._random.randbytes(size)


def size_of(chance: random.Random) -> int:
    """A size between one byte and `LARGEST`; each order of magnitude is as likely."""
    return min(LARGEST, int(10 ** chance.uniform(0, 5.5)))


def send_split(to: socket.socket, data: bytes, chance: random.Random) -> None:
    """Send by one to four calls."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        to.sendall(data[begin:end])


def read(taken: socket.socket, size: int, polls: bool) -> bytes:
    """Exactly that many bytes, or those before the end. `polls`: wait in poll(), not in recv()."""
    found = bytearray()
    while len(found) < size:
        if polls and not select.select([taken], (), (), WAIT_SECONDS)[0]:
            raise TimeoutError(f"{len(found)} of {size} bytes came")
        part = taken.recv(size - len(found))
        if not part:
            break
        found += part
    return bytes(found)


def compare(found: bytes, stream: Stream, size: int, what: str) -> None:
    """Raise unless these are the next bytes of the stream."""
    at = stream.length
    if found != stream.next(size):
        raise WrongDataError(f"{what}: {len(found)} of {size} bytes from {at} on, or other ones")


@dataclass
class Conversation:
    """Requests and answers of random sizes, until `stop`; then the client closes its direction."""

    client: socket.socket
    server: socket.socket
    seed: str
    polls: bool
    stop: threading.Event = field(default_factory=threading.Event)
    exchanges: int = 0
    errors: list[BaseException] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin, in two threads."""
        for work in (self._ask, self._answer):
            thread = threading.Thread(target=self._guarded, args=(work,))
            thread.start()
            self._threads.append(thread)

    def finish(self) -> None:
        """End, and raise what an end found."""
        self.stop.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()
            for each in (self.client, self.server):
                each.close()

    def _ask(self) -> None:
        chance = random.Random(f"{self.seed} client")
        requests, answers = Stream(f"{self.seed} requests"), Stream(f"{self.seed} answers")
        while not self.stop.is_set():
            asked, wanted = size_of(chance), size_of(chance)
            data = HEADER.pack(asked, wanted) + requests.next(asked)
            send_split(self.client, data, chance)
            compare(read(self.client, wanted, self.polls), answers, wanted, "an answer")
            self.exchanges += 1
            if chance.random() < 0.1:
                time.sleep(chance.random() / 50)
        self.client.shutdown(socket.SHUT_WR)
        last = read(self.client, LARGEST, self.polls)
        compare(last, answers, len(last), "the last answer")
        if not last:
            raise WrongDataError("no answer after the client's end")

    def _answer(self) -> None:
        chance = random.Random(f"{self.seed} server")
        requests, answers = Stream(f"{self.seed} requests"), Stream(f"{self.seed} answers")
        while header := read(self.server, HEADER.size, self.polls):
            asked, wanted = HEADER.unpack(header)
            compare(read(self.server, asked, self.polls), requests, asked, "a request")
            send_split(self.server, answers.next(wanted), chance)
        send_split(self.server, answers.next(size_of(chance)), chance)
        self.server.shutdown(socket.SHUT_WR)
