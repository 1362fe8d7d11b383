# SPDX-License-Identifier: Apache-2.0
"""SCTP fragments that hide an INIT from policy: cut before the INIT, or laid over another chunk."""

import socket
import struct
import time

import pytest

from tests.kernel.support.fragment_wire import (
    Sender,
    _captured,
)
from tests.kernel.support.fragments import (
    cut,
    piece,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    NodeUnderTest,
)
from tests.kernel.support.packets import SCTP
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import sctp_port

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
PORT = 7
HIDDEN, SHOWN = b"hide", b"show"
DEADLINE = 5.0


def init(mark: bytes) -> bytes:
    """An INIT whose every piece of eight bytes or more holds the mark."""
    return struct.pack("!HH4sI", 5000, PORT, mark, 0) + b"\x01\x00\x00\x44" + mark * 16


def arrived(seen: socket.socket, mark: bytes, n_pieces: int) -> list[bytes]:
    """All frames until so many with the mark have come."""
    found: list[bytes] = []
    end = time.monotonic() + DEADLINE
    while sum(mark in frame for frame in found) < n_pieces:
        seen.settimeout(max(end - time.monotonic(), 0.01))
        found.append(seen.recv(65536))
    return found


def require_hidden_is_dropped(
    node: NodeUnderTest, wire: ServiceWire, sender: Sender, frames: list[bytes]
) -> None:
    """Of the frames that `a` sends, `b` gets the two that are marked as shown, and no other."""
    node.load(node.policy().allow("a", "b", sctp_port(PORT)))
    hidden = [each for each in frames if HIDDEN in each]
    assert hidden and len(frames) == len(hidden) + 2
    with _captured(wire, "b") as seen:
        sender.send(frames)
        came = arrived(seen, SHOWN, n_pieces=2)
    assert not [each for each in came if HIDDEN in each]
    assert node.drops()["malformed"] == len(hidden)


@pytest.mark.parametrize("family", [4, 6])
def test_a_first_fragment_without_its_chunk_header_is_dropped(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The control is the same packet, cut behind the chunk header: both fragments arrive."""
    sender = Sender(wire, "a", HOSTS["b"], family)
    frames = [
        each
        for ident, (mark, size) in enumerate([(HIDDEN, 8), (SHOWN, 16)], 20)
        for each in cut(sender.me, sender.to, init(mark), (size,), family, ident=ident, proto=SCTP)
    ]
    require_hidden_is_dropped(node, wire, sender, frames)


@pytest.mark.parametrize("family", [4, 6])
def test_a_later_fragment_over_the_chunk_header_is_dropped(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The first fragment passed, with another chunk. The control follows that fragment."""
    sender = Sender(wire, "a", HOSTS["b"], family)
    first, rest = cut(sender.me, sender.to, init(SHOWN), (16,), family, ident=30, proto=SCTP)
    over = piece(sender.me, sender.to, init(HIDDEN)[8:], 8, False, family, ident=30, proto=SCTP)
    require_hidden_is_dropped(node, wire, sender, [first, over, rest])
