# SPDX-License-Identifier: Apache-2.0
"""Lays out the addresses in pc_ep4 and pc_ep6: the twin of datapath/endpoints.h.

`laid_out` takes the owner of each address and gives one buffer of the tables. `who4` and `who6` look an
address up as the hooks do; `held4` and `held6` give the input back. A buffer is laid out as a whole, as
no reader sees it before it is complete. Addresses are numbers.
"""

import random
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

CAPACITY = 65536
"""Addresses per family; the sizes of the maps follow from it."""
NETWORKS = 65536
"""Bits that say whether any endpoint is in a network."""
LINE = 64
ID_MASK, NODE, LOCAL, MORE = 0x3FFFF, 0x40000, 0x80000, 0x100000
WHO_MASK = ID_MASK | NODE | LOCAL
SALT_SHIFT = 20
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15
STIR = 0xC2B2AE3D27D4EB4F
_PLAIN: tuple[int, ...] = (63, *range(0, 30, 3))
SALTS = tuple(window | plain << 6 for plain in _PLAIN for window in range(62))
"""The first salt is for consecutive addresses: it uses only the last three bits."""
MAX_MOVES = 500
SLOTS4, SLOTS6 = 8, 3
FULLNESS4, FULLNESS6 = 5, 2
"""The maximum average of addresses per line, unless the table has its maximum size."""

Who = Mapping[int, int]
"""Address -> id, or number of the record, with NODE or LOCAL; never 0 for the address 0."""


class TableFullError(Exception):
    """The addresses do not fit into a buffer."""


@dataclass(frozen=True, slots=True)
class Table:
    """The cache lines in use: a power of two, at least two."""

    lines: bytes = bytes(2 * LINE)

    @property
    def shift(self) -> int:
        """The shift that maps a 64-bit product to a line."""
        return _shift(len(self.lines) // LINE)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Both tables, the bitmap of networks that have endpoints, and the parameters of second lines."""

    table4: Table = Table()
    table6: Table = Table()
    networks: bytes = bytes(NETWORKS // 8)
    seed: int = 0


def laid_out(who4: Who, who6: Who, max4: int, max6: int, seed: int) -> Buffer:
    """A buffer with tables of at most so many lines (powers of two); TableFullError with this seed."""
    words = [0] * (NETWORKS // 64)
    for network in {address >> 8 for address in who4} | {address >> 64 for address in who6}:
        at = _bit(network)
        words[at >> 6] |= 1 << (at & 63)
    networks = struct.pack(f"={len(words)}Q", *words)
    tables = _table(_Places4, who4, max4, seed), _table(_Places6, who6, max6, seed)
    return Buffer(*tables, networks, seed)


def _shift(n_lines: int) -> int:
    return 65 - n_lines.bit_length()


def _bit(network: int) -> int:
    """The bit of an IPv4 /24 or an IPv6 /64, which several networks may share."""
    return (network * SPREAD & MASK64) >> 48


def is_settled(buffer: Buffer, network: int) -> bool:
    """As pc_ep_is_settled(): if no endpoint is there, no table is read."""
    at = _bit(network)
    word: int = struct.unpack_from("=Q", buffer.networks, (at >> 6) * 8)[0]
    return bool(word >> (at & 63) & 1)


# --- IPv4 -------------------------------------------------------------------------------------


def first4(address: int, shift: int) -> int:
    """The first line of an address, which it shares with adjacent addresses."""
    return ((address >> 3) * SPREAD & MASK64) >> shift


def second4(address: int, shift: int, seed: int) -> int:
    """The second line of an address, for an address that does not fit into its first."""
    mixed = address * SPREAD & MASK64 ^ seed
    return ((mixed ^ mixed >> 32) * STIR & MASK64) >> shift


def slot4(address: int, salt: int) -> int:
    """The only entry of its line where an address can be."""
    return (((address * SPREAD & MASK64) >> (salt & 63)) + (address >> (salt >> 6))) & 7


def who4(buffer: Buffer, address: int) -> int:
    """As pc_who(): 0 means that no endpoint has the address."""
    table = buffer.table4
    if not is_settled(buffer, address >> 8):
        return 0
    at = first4(address, table.shift)
    for _ in range(2):
        slots: tuple[int, ...] = struct.unpack_from("=8Q", table.lines, at * LINE)
        slot = slots[slot4(address, (slots[0] & MASK32) >> SALT_SHIFT)]
        if slot >> 32 == address:
            return slot & WHO_MASK
        if not slots[1] & MORE:
            break
        at = second4(address, table.shift, buffer.seed)
    return 0


def held4(table: bytes) -> dict[int, int]:
    """Address -> owner, of the lines of a table or a buffer."""
    slots = memoryview(table).cast("Q").tolist()
    return {slot >> 32: slot & WHO_MASK for slot in slots if slot >> 32}


class _Places4:
    """The possible lines of addresses, in a table of so many lines."""

    def __init__(self, n_lines: int, seed: int) -> None:
        self._shift, self._seed = _shift(n_lines), seed

    def first(self, address: int) -> int:
        return first4(address, self._shift)

    def second(self, address: int) -> int:
        return second4(address, self._shift, self._seed)

    def salt(self, addresses: list[int]) -> int | None:
        """A salt that gives each of the addresses its own entry; None if there is none."""
        if len(addresses) > SLOTS4:
            return None
        mixed = [(address * SPREAD & MASK64, address) for address in addresses]
        for salt in SALTS:
            window, plain = salt & 63, salt >> 6
            taken = 0
            for product, address in mixed:
                bit = 1 << ((product >> window) + (address >> plain) & 7)
                if taken & bit:
                    break
                taken |= bit
            else:
                return salt
        return None

    def write(self, out: bytearray, at: int, line: "_Line", who: Who) -> None:
        slots = [0] * SLOTS4
        for address in line.addresses:
            slots[slot4(address, line.salt)] = address << 32 | who[address]
        slots[0] |= line.salt << SALT_SHIFT
        slots[1] |= MORE if line.more else 0
        struct.pack_into("=8Q", out, at * LINE, *slots)


# --- IPv6 -------------------------------------------------------------------------------------


def lines6(address: int, shift: int, seed: int) -> tuple[int, int]:
    """The two lines of an address; the whole address selects both."""
    high, low = address >> 64, address & MASK64
    mixed = (high ^ seed) * STIR & MASK64
    mixed = (mixed ^ mixed >> 32 ^ low) * SPREAD & MASK64
    return mixed >> shift, ((mixed ^ mixed >> 32) * STIR & MASK64) >> shift


def who6(buffer: Buffer, address: int) -> int:
    """As pc_who(): 0 means that no endpoint has the address."""
    table = buffer.table6
    if not is_settled(buffer, address >> 64):
        return 0
    for at in lines6(address, table.shift, buffer.seed):
        line: tuple[int, ...] = struct.unpack_from("=6Q4I", table.lines, at * LINE)
        for slot in range(SLOTS6):
            if line[slot] << 64 | line[slot + 3] == address and line[slot + 6]:
                return line[slot + 6] & WHO_MASK
        if not line[9]:
            break
    return 0


def held6(table: bytes) -> dict[int, int]:
    """Address -> owner, of the lines of a table or a buffer."""
    lines = struct.iter_unpack("=6Q4I", table)
    return {
        line[slot] << 64 | line[slot + 3]: line[slot + 6]
        for line in lines if any(line[6:9])
        for slot in range(SLOTS6) if line[slot + 6]
    }  # fmt: skip


class _Places6:
    """The same for IPv6."""

    def __init__(self, n_lines: int, seed: int) -> None:
        self._shift, self._seed = _shift(n_lines), seed

    def first(self, address: int) -> int:
        return lines6(address, self._shift, self._seed)[0]

    def second(self, address: int) -> int:
        return lines6(address, self._shift, self._seed)[1]

    def salt(self, addresses: list[int]) -> int | None:
        """None if there are too many; a lookup compares all three entries of a line."""
        return 0 if len(addresses) <= SLOTS6 else None

    def write(self, out: bytearray, at: int, line: "_Line", who: Who) -> None:
        words = [0] * 10
        for slot, address in enumerate(line.addresses):
            words[slot], words[slot + 3] = address >> 64, address & MASK64
            words[slot + 6] = who[address]
        words[9] = MORE if line.more else 0
        struct.pack_into("=6Q4I", out, at * LINE, *words)


# --- both -------------------------------------------------------------------------------------


class _Places(Protocol):
    def __init__(self, n_lines: int, seed: int) -> None: ...
    def first(self, address: int) -> int: ...
    def second(self, address: int) -> int: ...
    def salt(self, addresses: list[int]) -> int | None: ...
    def write(self, out: bytearray, at: int, line: "_Line", who: Who) -> None: ...


@dataclass(slots=True)
class _Line:
    addresses: list[int] = field(default_factory=list)
    salt: int = 0
    more: bool = False


def _table(places: type[_Places], who: Who, max_lines: int, seed: int) -> Table:
    fullness = FULLNESS4 if places is _Places4 else FULLNESS6
    for n_lines in _sizes(len(who), fullness, max_lines):
        filling = _Filling(places(n_lines, seed))
        if filling.take(who):
            return Table(filling.packed(n_lines, who))
    raise TableFullError


def _sizes(count: int, fullness: int, max_lines: int) -> Iterator[int]:
    """Powers of two, from the first one that is not too full; the last one in any case."""
    size = 2
    while size < max_lines:
        if count <= size * fullness:
            yield size
        size *= 2
    yield max_lines


class _Filling:
    """Places addresses in their first lines, and those that do not fit in their second lines."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._lines: dict[int, _Line] = {}
        self._random = random.Random(0)

    def take(self, who: Who) -> bool:
        """Give each address a place; False if some address finds none."""
        homes: dict[int, list[int]] = {}
        for address in sorted(who):
            homes.setdefault(self._places.first(address), []).append(address)
        rest = [each for at, members in homes.items() for each in self._settle(at, members)]
        return all(map(self._insert, rest))

    def _settle(self, at: int, members: list[int]) -> list[int]:
        """Place what fits into first lines, preferably whole groups of eight; returns the rest."""
        line = self._lines[at] = _Line()
        if not self._set(line, members):
            eights = Counter(address >> 3 for address in members)
            members = sorted(members, key=lambda each: (-eights[each >> 3], each))
            keep = min(len(members) - 1, SLOTS4)
            while not self._set(line, members[:keep]):
                keep -= 1
        return members[len(line.addresses) :]

    def _set(self, line: _Line, addresses: list[int]) -> bool:
        salt = self._places.salt(addresses)
        if salt is None:
            return False
        line.addresses, line.salt = addresses, salt
        return True

    def _insert(self, address: int) -> bool:
        """Insert into one of its lines; if both are full, another address moves."""
        left = -1
        for _ in range(MAX_MOVES):
            pair = self._places.first(address), self._places.second(address)
            for at in pair:
                line = self._lines.setdefault(at, _Line())
                if self._set(line, [*line.addresses, address]):
                    return True
            left = pair[1] if pair[0] == left else pair[0]
            moved = self._exchange(self._lines[left], address)
            if moved is None:
                return False
            address = moved
        return False

    def _exchange(self, line: _Line, address: int) -> int | None:
        """Take the place of an address that may also be in another line; returns that address."""
        others = line.addresses.copy()
        self._random.shuffle(others)
        for other in others:
            if self._set(line, [*(each for each in line.addresses if each != other), address]):
                return other
        return None

    def packed(self, n_lines: int, who: Who) -> bytes:
        """The lines; first lines also say whether addresses are in their second lines."""
        for at, line in list(self._lines.items()):
            for address in line.addresses:
                first = self._places.first(address)
                if first != at:
                    self._lines.setdefault(first, _Line()).more = True
        out = bytearray(n_lines * LINE)
        for at, line in self._lines.items():
            self._places.write(out, at, line, who)
        return bytes(out)
