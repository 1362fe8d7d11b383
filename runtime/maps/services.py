# SPDX-License-Identifier: Apache-2.0
"""The tables of Services (datapath/service_map.h, maglev.h), which exist twice: a double buffer.

    frontends   address, protocol and port of a Service -> its pools: ranges of the choices
    choices     ids of the backends that take new connections, pool after pool
    backends    endpoints of Services; shared by both buffers
    Maglev      hash of a client -> the index of a backend in the pool

`FrontendFormat` and `BackendFormat` pack entries without an open map. The other classes are open maps.
"""

import ctypes
import mmap
import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, count

from policyc.runtime.bundle.address_value import Address, packed
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.layout import StructLayout
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.pinned_map import PinnedMap

LOCAL = 1
"""PC_FRONTEND_LOCAL: external clients get endpoints of this node only."""
OTHER_NODES = 2
"""PC_FRONTEND_OTHER_NODES: other nodes have endpoints, so an empty pool drops, and does not reject."""
NODE_PORT = 4
"""PC_FRONTEND_NODE_PORT: the node's own processes also reach the frontend at loopback."""
NO_NEW = 1
"""PC_BACKEND_NO_NEW: the endpoint gets no new connections; established ones of TCP and SCTP go on."""
TUNNEL, DSR = 2, 4
"""PC_BACKEND_*: the return path that the Service asks for; with neither bit the load's default."""
MARK_SIZE = 8
"""Bytes at the end of a buffer's choices that identify the writer: no packet is sent there."""
_ID_BYTES = 4
_USES = 0x7FFF  # of a place, before its ids repeat; the bit above is PC_FRAG_REPLY


@dataclass(frozen=True, slots=True)
class FrontendFormat:
    """Keys and values of `pc_frontends`."""

    key: StructLayout
    value: StructLayout

    @classmethod
    def of(cls, btf: Btf) -> "FrontendFormat":
        """The format of the hooks that have this BTF."""
        return cls(btf.struct("pc_frontend_key"), btf.struct("pc_frontend"))

    def key_of(self, address: Address, protocol: int, port: int, buffer: int) -> bytes:
        """The key of a Service's address, in one of the buffers."""
        return self.key.pack(
            addr=packed(address),
            port=port,
            proto=protocol,
            buffer_family=buffer | address.version << 1,
        )

    def buffer_of(self, key: bytes) -> int:
        """The buffer that a key belongs to."""
        return self.key.number(key, "buffer_family") & 1

    def port_of(self, key: bytes) -> int:
        """The port of a key."""
        return self.key.number(key, "port")

    def value_of(self, **fields: int) -> bytes:
        """A value; fields of struct pc_frontend that are not given are 0."""
        return self.value.pack(**fields)

    def pool_of(self, value: bytes) -> tuple[int, int]:
        """The first index and the size of a frontend's two pools, which follow each other."""
        count = self.value.number(value, "count") + self.value.number(value, "local_count")
        return self.value.number(value, "first"), count

    def is_node_port(self, value: bytes) -> bool:
        """Whether the node's own processes also reach the frontend at loopback."""
        return bool(self.value.number(value, "flags") & NODE_PORT)


class BackendFormat:
    """Entries of `pc_backends`: an endpoint behind one address and port of a Service.

    An entry keeps its place while the endpoint exists, for connections refer to it by its id. The upper
    half of an id counts the uses of its place, and the lower half is the place. 0: the place is free.
    """

    def __init__(self, layout: StructLayout) -> None:
        self.layout = layout
        self.size = layout.size
        self._state = layout.field("state").offset
        self._ids = [layout.field(name) for name in ("id", "last")]
        ends = "addr", "port", "frontend", "frontend_port", "proto", "family", "node"
        self._pack = layout.packer(*ends, "state")
        self.identity = layout.cutter(*ends)
        """What stays the same while the endpoint is listed: all but the ids and the state."""
        self.frontend_of = layout.cutter("frontend", "frontend_port", "proto", "family")
        """The address, port and protocol of the Service."""

    @classmethod
    def of(cls, btf: Btf) -> "BackendFormat":
        """The format of the hooks that have this BTF."""
        return cls(btf.struct("pc_backend"))

    def entry(
        self,
        backend: tuple[Address, int],
        frontend: tuple[Address, int],
        protocol: int,
        state: int,
        node: int,
    ) -> bytes:
        """An entry without an id. `node` is the number of another node that has the endpoint, or 0."""
        return self._pack(
            packed(backend[0]),
            backend[1],
            packed(frontend[0]),
            frontend[1],
            protocol,
            frontend[0].version,
            node,
            state,
        )

    def with_next_id(self, entry: bytes, place: int, last: int) -> bytes:
        """The entry, with the id that follows the place's last one."""
        ident = ((last >> 16) % _USES + 1) << 16 | place
        out = bytearray(entry)
        for field in self._ids:
            out[field.offset : field.end] = field.pack(ident)
        return bytes(out)

    def id_of(self, entry: bytes) -> int:
        """The id of an entry."""
        return self.layout.number(entry, "id")

    def state_of(self, entry: bytes) -> int:
        """The state of an entry."""
        return entry[self._state]

    def state_at(self, place: int) -> int:
        """The offset of a place's state, in all entries."""
        return place * self.size + self._state

    def ids(self, entries: bytes) -> Sequence[int]:
        """The ids of many entries."""
        return self._column(entries, "id")

    def last_ids(self, entries: bytes) -> Sequence[int]:
        """The last id of each place."""
        return self._column(entries, "last")

    def _column(self, entries: bytes, name: str) -> Sequence[int]:
        """One 32-bit field of every entry, all at once: one by one takes fifty milliseconds."""
        words = memoryview(entries).cast("I")
        return words[self.layout.field(name).offset // _ID_BYTES :: self.size // _ID_BYTES].tolist()

    def used(self, entries: bytes) -> Iterator[tuple[int, bytes]]:
        """The places that are not free, with their entries."""
        for place in compress(count(), self.ids(entries)):
            yield place, entries[place * self.size : (place + 1) * self.size]


class Frontends(PinnedMap):
    """pc_frontends, of both buffers."""

    NAME = "pc_frontends"

    @cached_property
    def format(self) -> FrontendFormat:
        """How entries are packed."""
        return FrontendFormat(self.key, self.value)

    @property
    def most(self) -> int:
        """Frontends per buffer."""
        return self.max_entries // 2

    def keys_of(self, buffer: int) -> list[bytes]:
        """The keys in a buffer."""
        return [key for key in self.all_keys() if self.format.buffer_of(key) == buffer]

    def empty(self, buffer: int) -> None:
        """Remove everything from a buffer."""
        for key in self.keys_of(buffer):
            self.delete(key)

    def node_ports(self, among: range, buffer: int) -> list[int]:
        """The ports among these that are node ports in the buffer, in order."""
        found = set()
        for key in self.keys_of(buffer):
            port = self.format.port_of(key)
            if port in among and (value := self.get(key)) and self.format.is_node_port(value):
                found.add(port)
        return sorted(found)


class _MappedArray(PinnedMap):
    """An array that is also mapped into this process."""

    def __init__(self, pins: Pins) -> None:
        super().__init__(pins)
        self.memory = mmap.mmap(self.fd, self.max_entries * -(-self.info.value_size // 8) * 8)

    def close(self) -> None:
        """Unmap and release it."""
        self.memory.close()
        super().close()


class Backends(_MappedArray):
    """pc_backends, by place."""

    NAME = "pc_backends"

    @cached_property
    def format(self) -> BackendFormat:
        """How entries are packed."""
        return BackendFormat(self.value)

    def all(self) -> bytes:
        """Every entry, by place."""
        return self.memory[:]

    def used(self) -> Iterator[tuple[int, bytes]]:
        """The places that are not free, with their entries."""
        return self.format.used(self.all())

    def id_at(self, place: int) -> int:
        """The id at a place."""
        at = place * self.format.size
        return int.from_bytes(self.memory[at : at + _ID_BYTES], sys.byteorder)

    def last_id_at(self, place: int) -> int:
        """The last id of a place."""
        at = place * self.format.size
        return self.format.layout.number(self.memory[at : at + self.format.size], "last")

    def write(self, place: int, entry: bytes) -> None:
        """Write an entry, and its id last: hooks read it meanwhile."""
        at = place * self.format.size
        self.memory[at + _ID_BYTES : at + self.format.size] = entry[_ID_BYTES:]
        self.set_id(place, self.format.id_of(entry))

    def set_state(self, place: int, state: int) -> None:
        """Set the state of an entry."""
        self.memory[self.format.state_at(place)] = state

    def set_id(self, place: int, ident: int) -> None:
        """Set the id by one aligned store; 0 frees the place, and ends its connections."""
        cell = ctypes.c_uint32.from_buffer(self.memory, place * self.format.size)
        cell.value = ident
        del cell  # the pages cannot be unmapped while a pointer to them exists


class Choices(_MappedArray):
    """pc_choices: ids of backends, in two buffers, each with its writer's mark at the end."""

    NAME = "pc_choices"

    @property
    def most(self) -> int:
        """Choices that a buffer has room for."""
        return self._buffer_size // _ID_BYTES - MARK_SIZE // _ID_BYTES

    @property
    def _buffer_size(self) -> int:
        return self.info.value_size // 2

    def write(self, buffer: int, first: int, ids: Collection[int]) -> None:
        """Write ids from an index of the buffer on."""
        at = buffer * self._buffer_size + first * _ID_BYTES
        self.memory[at : at + len(ids) * _ID_BYTES] = array("I", ids).tobytes()

    def mark(self, buffer: int) -> bytes:
        """The mark of a buffer's contents."""
        return self.memory[self._mark_at(buffer)]

    def set_mark(self, buffer: int, mark: bytes) -> None:
        """Set the mark."""
        self.memory[self._mark_at(buffer)] = mark

    def _mark_at(self, buffer: int) -> slice:
        end = (buffer + 1) * self._buffer_size
        return slice(end - MARK_SIZE, end)


class MaglevTables(_MappedArray):
    """pc_maglev: the entries of all tables, in two buffers."""

    NAME = "pc_maglev"

    @property
    def most(self) -> int:
        """Entries per buffer."""
        return self.info.value_size // 2 // array("H").itemsize

    def write(self, buffer: int, tables: bytes) -> None:
        """Write all tables of a buffer."""
        at = buffer * self.info.value_size // 2
        self.memory[at : at + len(tables)] = tables


@dataclass(frozen=True, slots=True)
class Capacities:
    """The number of entries that each table can hold, per buffer."""

    frontends: int
    backends: int
    choices: int
    ranges: int
    maglev: int
