# SPDX-License-Identifier: Apache-2.0
"""The endpoints that new connections to a Service get, thousands at a time (picks.bpf.c)."""

import ctypes
import ipaddress
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.packets import (
    TCP,
    packed,
)

POD, OUTSIDE, HANDED = 0, 1, 2
"""enum pc_client."""
_QUERY = struct.Struct("=16s16s2s2sBBBBII")
_ANSWER = struct.Struct("=II16s")


@dataclass(frozen=True)
class Asked:
    """A new connection."""

    client: str
    service: str
    port: int
    source_port: int = 4000
    kind: int = POD
    proto: int = TCP

    def query(self) -> bytes:
        ends = (packed(each).ljust(16, b"\0") for each in (self.client, self.service))
        ports = (struct.pack("!H", each) for each in (self.source_port, self.port))
        family = 4 if len(packed(self.client)) == 4 else 6
        return _QUERY.pack(*ends, *ports, family, self.proto, 0, 0, self.kind, 0)


@dataclass
class Picks:
    """The tests' program over the maps of a loaded node."""

    program: Object

    def reasons(self, asked: Sequence[Asked]) -> list[tuple[int, str]]:
        """Of each connection why it is dropped, or 0, and where its packets go."""
        queries = b"".join(each.query() for each in asked)
        with self._memory("k_queries", len(queries)) as memory:
            memory[: len(queries)] = queries
        with self._memory("k_at", 8) as memory:
            memory[:8] = bytes(8)
        data = ctypes.create_string_buffer(64)
        attr = bytearray(80)
        where = self.program.program_fd("k_pick"), 0, 64, 0, ctypes.addressof(data), 0
        struct.pack_into("=IIIIQQII", attr, 0, *where, len(asked), 0)
        bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
        size = _ANSWER.size * len(asked)
        with self._memory("k_answers", size) as memory:
            answers = memory[:size]
        return [
            (reason, _shown(each, raw))
            for each, (reason, _, raw) in zip(asked, _ANSWER.iter_unpack(answers), strict=True)
        ]

    def ends(self, asked: Sequence[Asked]) -> list[str]:
        """Where each connection goes; none may be dropped."""
        found = self.reasons(asked)
        assert not any(reason for reason, _ in found), found[:8]
        return [end for _, end in found]

    def _memory(self, name: str, size: int) -> mmap.mmap:
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return mmap.mmap(self.program.map_fd(name), pages)


def _shown(asked: Asked, raw: bytes) -> str:
    return _written(raw[: len(packed(asked.client))])


@cache
def _written(address: bytes) -> str:
    return str(ipaddress.ip_address(address))


@contextmanager
def picking(program: Path, node: NodeUnderTest) -> Iterator[Picks]:
    """The program, loaded beside what the node has loaded."""
    with Object(program, node.pins.maps) as loaded:
        loaded.load()
        yield Picks(loaded)
