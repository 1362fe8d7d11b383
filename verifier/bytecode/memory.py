# SPDX-License-Identifier: Apache-2.0
"""Regions of bytes with bounds. Bytes that were never written cannot be read.

Numbers and terms are little-endian strings of 8 bits a byte. `Cells` keeps each stored value whole, so
that a pointer or a term is read back unchanged. `Bytes` holds numbers only, and large regions cheaply.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.pointers import Pointer, Value
from policyc.verifier.bytecode.values import Bits, Domain, signed

POINTER_SIZE = 8


class Memory(ABC):
    """The bytes of a region. Offsets are 64 bits wide, in two's complement."""

    @abstractmethod
    def load(self, offset: Bits, size: int) -> Value:
        """`size` bytes as 8 * size bits, or a pointer. FaultError if out of bounds or unwritten."""

    @abstractmethod
    def store(self, offset: Bits, size: int, value: Value) -> None:
        """Write 8 * size bits, or a pointer."""

    @abstractmethod
    def copy(self) -> "Memory":
        """Another region with the same contents."""

    @abstractmethod
    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Replace every stored pointer by the result of `change`."""


def known_offset(offset: Bits) -> int:
    """The signed number of an offset. UnmodelledError for a term."""
    if isinstance(offset, int):
        return signed(offset, 64)
    raise UnmodelledError("an offset that is not known, in memory that needs one")


class Cells(Memory):
    """Stored values by offset: from offset `low` on, up to `high`, exclusive."""

    def __init__(self, domain: Domain, low: int, high: int) -> None:
        self._domain, self.low, self.high = domain, low, high
        self._cells: dict[int, tuple[int, Value]] = {}  # size and value, by their first byte
        self._owner: dict[int, int] = {}  # of each written byte, the first byte of its cell

    def _within(self, offset: Bits, size: int) -> int:
        at = known_offset(offset)
        if at < self.low or at + size > self.high:
            raise FaultError(f"{size} bytes at {at}, of {self.low} to {self.high}")
        return at

    def load(self, offset: Bits, size: int) -> Value:
        """Load, also across several cells and parts of cells; never a part of a pointer."""
        at = self._within(offset, size)
        found = self._cells.get(at)
        if found is not None and found[0] == size:
            return found[1]
        parts: list[tuple[Bits, int]] = []
        end = at + size
        while at < end:
            bits, taken = self._part(at, end)
            parts.append((bits, 8 * taken))
            at += taken
        return self._domain.concat(parts)

    def _part(self, at: int, end: int) -> tuple[Bits, int]:
        """The part of one cell from byte `at` on, and its size."""
        start = self._owner.get(at)
        if start is None:
            raise FaultError(f"byte {at} was never written")
        size, value = self._cells[start]
        if isinstance(value, Pointer):
            raise FaultError(f"bytes of a pointer at {start} are read")
        taken = min(end, start + size) - at
        return self._domain.extract(value, 8 * (at - start), 8 * taken, 8 * size), taken

    def store(self, offset: Bits, size: int, value: Value) -> None:
        """Store. A pointer has eight bytes, at an aligned offset."""
        at = self._within(offset, size)
        if isinstance(value, Pointer) and (size != POINTER_SIZE or at % POINTER_SIZE):
            raise FaultError(f"a pointer is stored into {size} bytes at {at}")
        found = self._cells.get(at)
        if found is None or found[0] != size:
            self._clear(at, at + size)
            for byte in range(at, at + size):
                self._owner[byte] = at
        self._cells[at] = size, value

    def _clear(self, at: int, end: int) -> None:
        """Forget these bytes; the rest of a partly covered cell is kept as smaller cells."""
        for start in {self._owner[byte] for byte in range(at, end) if byte in self._owner}:
            size, value = self._cells.pop(start)
            for byte in range(start, start + size):
                del self._owner[byte]
            if isinstance(value, Pointer):
                continue  # the rest of a pointer is not a number
            for low, high in ((start, at), (end, start + size)):
                if low < high and start <= low and high <= start + size:
                    bits = self._domain.extract(
                        value, 8 * (low - start), 8 * (high - low), 8 * size
                    )
                    self._cells[low] = high - low, bits
                    self._owner.update(dict.fromkeys(range(low, high), low))

    def copy(self) -> "Cells":
        """The cells are immutable values, so the copy shares them."""
        other = Cells(self._domain, self.low, self.high)
        other._cells, other._owner = dict(self._cells), dict(self._owner)
        return other

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Rewrite every cell that holds a pointer."""
        for at, (size, value) in self._cells.items():
            if isinstance(value, Pointer):
                self._cells[at] = size, change(value)

    @property
    def cells(self) -> dict[int, tuple[int, Value]]:
        """Size and value of everything that was written, by offset; read-only for the caller."""
        return self._cells


class Bytes(Memory):
    """Memory that holds numbers: the value of a map, a packet."""

    def __init__(self, data: bytes | bytearray, *, is_read_only: bool = False) -> None:
        self.data = bytearray(data)
        self._is_read_only = is_read_only

    def _within(self, offset: Bits, size: int) -> int:
        at = known_offset(offset)
        if at < 0 or at + size > len(self.data):
            raise FaultError(f"{size} bytes at {at}, of {len(self.data)}")
        return at

    def load(self, offset: Bits, size: int) -> Value:
        """Load: every byte counts as written."""
        at = self._within(offset, size)
        return int.from_bytes(self.data[at : at + size], "little")

    def store(self, offset: Bits, size: int, value: Value) -> None:
        """Store a number."""
        at = self._within(offset, size)
        if self._is_read_only:
            raise FaultError("this memory can only be read")
        if not isinstance(value, int):
            raise UnmodelledError("a pointer or a term is stored where numbers are")
        self.data[at : at + size] = value.to_bytes(size, "little")

    def copy(self) -> "Bytes":
        """A copy of the bytes."""
        return Bytes(self.data, is_read_only=self._is_read_only)

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Nothing to do: there are no pointers."""
