# SPDX-License-Identifier: Apache-2.0
"""Lists that change while the kernel sends them, and answers that it refuses."""

import errno
import socket
import struct
from typing import cast

import pytest

from policyc.runtime.kernel.netlink import dumped

_HEAD = struct.Struct("=IHHII")
LINK, DONE, ERROR = 16, 3, 2
MULTI, INTERRUPTED = 0x2, 0x10


def message(kind: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(_HEAD.size + len(body), kind, flags, 0, 0) + body


class Kernel:
    """Answers each request with the next list."""

    def __init__(self, *lists: bytes) -> None:
        self.lists, self.asked = list(lists), 0

    def send(self, _: bytes) -> None:
        self.asked += 1

    def recv(self, _: int) -> bytes:
        return self.lists.pop(0)


def whole(body: bytes, flags: int = 0) -> bytes:
    return message(LINK, MULTI | flags, body) + message(DONE, MULTI | flags, bytes(4))


def read(kernel: Kernel) -> list[bytes]:
    return dumped(cast("socket.socket", kernel), 18, b"")


def test_a_list_that_changed_meanwhile_is_read_again() -> None:
    kernel = Kernel(whole(b"half", INTERRUPTED), whole(b"full"))
    assert read(kernel) == [b"full"]
    assert kernel.asked == 2


def test_a_list_that_never_stops_changing_is_an_error() -> None:
    with pytest.raises(OSError, match="the list keeps changing") as caught:
        read(Kernel(*[whole(b"half", INTERRUPTED)] * 16))
    assert caught.value.errno == errno.EAGAIN


def test_a_refusal_is_its_error() -> None:
    with pytest.raises(OSError) as caught:
        read(Kernel(message(ERROR, 0, struct.pack("=i", -errno.EOPNOTSUPP) + bytes(16))))
    assert caught.value.errno == errno.EOPNOTSUPP
