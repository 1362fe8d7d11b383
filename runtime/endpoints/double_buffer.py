# SPDX-License-Identifier: Apache-2.0
"""The maps by which hooks find pods by address: pc_ep4 and pc_ep6, and pc_ep.

They are a double buffer. The word in pc_ep names the active buffer and its layout
(datapath/endpoints.h). A change is written into the inactive buffer as a whole, and then the word is
stored: no packet sees a partial change. To undo the change, the previous word is stored.
"""

import ctypes
import mmap
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.endpoints.endpoint_tables import (
    LINE,
    NETWORKS,
    Buffer,
    Table,
    held4,
    held6,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall

TABLES = {"pc_ep4": 4, "pc_ep6": 16}
"""Name -> bytes of an address."""
STATE = "pc_ep"
"""The map with the word, the networks, and the records of this node's pods."""
RECORD = 16
"""Bytes of struct pc_endpoint."""
_SIZES = {STATE: RECORD, "pc_ep4": LINE, "pc_ep6": LINE}
_WORD, _NETWORKS = 64, NETWORKS // 8
_BEHIND = {STATE: _WORD + 2 * _NETWORKS}  # the bytes before the first buffer


@dataclass(frozen=True, slots=True)
class Word:
    """A buffer, and the parameters of its tables; zero before the first load, when all are empty."""

    buffer: int = 0
    shift4: int = 0
    shift6: int = 0
    seed: int = 0

    @classmethod
    def of(cls, number: int) -> "Word":
        """The word as the map holds it."""
        return cls(number & 1, number >> 8 & 63, number >> 16 & 63, number >> 32)

    @property
    def number(self) -> int:
        """The map's value."""
        return self.buffer | self.shift4 << 8 | self.shift6 << 16 | self.seed << 32


class DoubleBuffer:
    """The maps that are pinned in a folder, mapped into this process while the block lasts."""

    def __init__(self, maps: Path) -> None:
        self._maps = maps
        self._held = ExitStack()
        self._memory: dict[str, mmap.mmap] = {}
        self._size: dict[str, int] = {}  # bytes of a buffer

    def __enter__(self) -> "DoubleBuffer":
        with ExitStack() as opening:
            for name in _SIZES:
                fd = opening.enter_context(bpf_syscall.obj_get(self._maps / name))
                info = bpf_syscall.map_info(fd)
                if info.max_entries != 1:
                    raise HostError(
                        f"the map {name} that is in use has another layout",
                        "another release of policyc loaded it: run `policyc node unload`, then load "
                        "again",
                    )
                pages = -(-info.value_size // mmap.PAGESIZE)
                memory = mmap.mmap(fd, pages * mmap.PAGESIZE)
                self._memory[name] = opening.enter_context(memory)
                self._size[name] = (info.value_size - _BEHIND.get(name, 0)) // 2
            self._held = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def word(self) -> Word:
        """The active word."""
        return Word.of(int.from_bytes(self._memory[STATE][:8], sys.byteorder))

    def store(self, word: Word) -> None:
        """Activate a word by one aligned store of eight bytes."""
        cell = ctypes.c_uint64.from_buffer(self._memory[STATE])
        cell.value = word.number
        del cell  # the page cannot be unmapped while a pointer to it exists

    def who(self, name: str) -> dict[int, int]:
        """Address -> owner, of an active table."""
        buffer = self.in_force()
        return held4(buffer.table4.lines) if name == "pc_ep4" else held6(buffer.table6.lines)

    def in_force(self) -> Buffer:
        """The buffer that the hooks read."""
        word = self.word
        if word == Word():
            return Buffer()
        table4 = Table(self._read("pc_ep4", 0, LINE << 64 - word.shift4))
        table6 = Table(self._read("pc_ep6", 0, LINE << 64 - word.shift6))
        at = _WORD + word.buffer * _NETWORKS
        return Buffer(table4, table6, self._memory[STATE][at : at + _NETWORKS], word.seed)

    def record(self, number: int) -> bytes:
        """The struct pc_endpoint of a pod of this node."""
        return self._read(STATE, number * RECORD, RECORD)

    def room(self, name: str) -> int:
        """Lines or records of a buffer."""
        return self._size[name] // _SIZES[name]

    def fill(self, laid: Buffer, records: bytes) -> Word:
        """Write the inactive buffer, which no hook reads any more; gives the word for it."""
        buffer = 1 - self.word.buffer
        data = {"pc_ep4": laid.table4.lines, "pc_ep6": laid.table6.lines, STATE: records}
        for name, written in data.items():
            at = self._start(name, buffer)
            self._memory[name][at : at + len(written)] = written
        at = _WORD + buffer * _NETWORKS
        self._memory[STATE][at : at + _NETWORKS] = laid.networks
        return Word(buffer, laid.table4.shift, laid.table6.shift, laid.seed)

    def _read(self, name: str, at: int, size: int) -> bytes:
        at += self._start(name, self.word.buffer)
        return self._memory[name][at : at + size]

    def _start(self, name: str, buffer: int) -> int:
        return _BEHIND.get(name, 0) + buffer * self._size[name]
