# SPDX-License-Identifier: Apache-2.0
"""The rows of datapath/service_map.h: the endpoints of each frontend, and their places.

`Rows` assigns each endpoint of the frontends its present place, or a free one. It writes nothing.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from policyc.runtime.bundle.address_value import packed
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.errors import InputError
from policyc.runtime.services.maglev import Tables
from policyc.runtime.services.services import (
    PROTOCOLS,
    Backend,
    Frontend,
)
from policyc.runtime.services.source_ranges import (
    RANGES,
    Lists,
)

PLACES = 65536
CHOICES = 65536
"""Per buffer, including its mark."""
MARK_SIZE = 8
"""Bytes at the end of a buffer's choices that identify the writer: no packet is sent there."""
ROOM = CHOICES - MARK_SIZE // 4
"""Choices that a buffer has room for."""
FRONTENDS = 32768
"""Per buffer."""
CLOSED = 1
"""PC_ROW_CLOSED."""
WAYS: Mapping[ReturnPath | None, int] = {None: 0, "tunnel": 2, "dsr": 4}
"""PC_ROW_TUNNEL, PC_ROW_DSR: the return path in a row's state."""
LOCAL, ELSEWHERE, NODE_PORT = 1, 2, 4
"""PC_FRONTEND_*."""
FRONTEND = struct.Struct("=11I")
"""struct pc_frontend."""
ROW = struct.Struct("=II16s16s2s2sBBBxH14x")
"""struct pc_row."""
STATE_AT = 46
_NODE_AT = 48
_USES = 0x7FFF  # of a place, before its ids repeat; the bit above is PC_FRAG_REPLY

_NO_NODES: Mapping[str, int] = {}

Identity = bytes
"""The content of a row, without its id and its state."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted contents of the tables. `rows` has place -> row; new ones are not written yet."""

    rows: dict[int, bytes]
    new: tuple[int, ...]
    frontends: dict[Frontend, bytes]
    """Frontend -> struct pc_frontend."""
    choices: tuple[int, ...]
    lists: Lists
    tables: Tables


def wanted(
    frontends: Iterable[Frontend], there: bytes, nodes: Mapping[str, int] = _NO_NODES
) -> Wanted:
    """Compute the wanted contents.

    `there` are the present rows, by place; `nodes` are numbers by name (load/cluster_nodes.py).

    Raises `InputError` if there is no room.
    """
    places = {identity(row): place for place, row in used_rows(there)}
    lasts = _column(there, 1)
    unused = _unused(_column(there, 0), lasts)
    rows: dict[int, bytes] = {}
    new: list[int] = []
    choices: list[int] = []
    parts: dict[Frontend, bytes] = {}
    lists, tables = Lists(), Tables()
    for frontend in frontends:
        first, local = len(choices), list[int]()
        for backend in frontend.backends:
            row = row_of(frontend, backend, nodes)
            place = places.get(identity(row), -1)
            if place < 0 and not (backend.takes_new or backend.takes_local):
                continue  # no packet was or will be sent there
            if place < 0:
                place = next(unused, -1)
                if place < 0:
                    raise _too_many("endpoints of Services", PLACES)
                new.append(place)
                rows[place] = with_next_id(row, place, lasts[place])
            else:
                rows[place] = row
            if backend.takes_new:
                choices.append(place)
            if backend.takes_local:
                local.append(place)
        slots = frontend.maglev_slots
        parts[frontend] = frontend_value(
            frontend,
            (first, len(choices) - first, len(local)),
            lists.of(frontend.ranges),
            tables.of((b.name for b in frontend.backends if b.takes_new), slots),
            tables.of((b.name for b in frontend.backends if b.takes_local), slots),
        )
        choices += local
    if len(parts) > FRONTENDS:
        raise _too_many("addresses and ports of Services", FRONTENDS)
    if len(choices) > ROOM:
        raise _too_many("endpoints of Services", ROOM)
    if lists.n_ranges > RANGES:
        raise _too_many("source ranges of load balancers", RANGES)
    return Wanted(rows, tuple(new), parts, tuple(choices), lists, tables)


class NoRoomError(InputError):
    """The tables cannot hold everything, with the entries that must stay until the change is done."""


def standing(
    frontends: Iterable[Frontend], there: bytes, nodes: Mapping[str, int] = _NO_NODES
) -> Iterator[Frontend]:
    """The frontends, with only those endpoints that already have a row in `there`."""
    known = {identity(row) for _, row in used_rows(there)}
    for each in frontends:
        backends = tuple(b for b in each.backends if identity(row_of(each, b, nodes)) in known)
        yield replace(each, backends=backends)


def _too_many(what: str, room: int) -> InputError:
    return NoRoomError(
        f"the limit of {room} {what} is exceeded",
        "removed endpoints count until the next update is complete: first apply the change without "
        "the new ones",
    )


def frontend_value(
    frontend: Frontend, part: tuple[int, int, int], ranges: int = 0, table: int = 0, local: int = 0
) -> bytes:
    """A struct pc_frontend.

    `part` has the start of its choices, their number, and the number of choices on this node. The other
    arguments are numbers of a list and of Maglev tables.
    """
    first, count, n_local = part
    flags = LOCAL * frontend.is_local | ELSEWHERE * frontend.is_elsewhere
    flags |= NODE_PORT * frontend.is_node_port
    return FRONTEND.pack(
        *(first, count, first + count, n_local),
        *(flags, frontend.affinity, frontend.number, ranges),
        *(frontend.maglev_slots, table, local),
    )


def with_next_id(row: bytes, place: int, last: int) -> bytes:
    """The row, with the id that follows the place's last one."""
    ident = ((last >> 16) % _USES + 1) << 16 | place
    return struct.pack("=II", ident, ident) + row[8:]


def row_of(frontend: Frontend, backend: Backend, nodes: Mapping[str, int]) -> bytes:
    """A struct pc_row without an id."""
    goes_on = backend.takes_new or backend.takes_local or backend.drains
    return ROW.pack(
        0,
        0,
        packed(backend.address),
        packed(frontend.address),
        struct.pack("!H", backend.port),
        struct.pack("!H", frontend.port),
        PROTOCOLS[frontend.protocol],
        frontend.address.version,
        (0 if goes_on else CLOSED) | WAYS[frontend.return_path],
        nodes.get(backend.node, 0),
    )


def identity(row: bytes) -> Identity:
    """The fields that stay the same while the endpoint is listed."""
    return row[8:STATE_AT] + row[_NODE_AT : _NODE_AT + 2]


def way_of(row: bytes) -> ReturnPath | None:
    """The return path that the Service of a row sets."""
    return next((way for way, bits in WAYS.items() if bits and row[STATE_AT] & bits), None)


def site_of(row: bytes) -> bytes:
    """The Service's address, port and protocol."""
    return row[24:40] + row[42:46]


def frontend_key(frontend: Frontend, half: int) -> bytes:
    """A struct pc_frontend_key."""
    return struct.pack(
        "=16s2sBB",
        packed(frontend.address),
        struct.pack("!H", frontend.port),
        PROTOCOLS[frontend.protocol],
        half | frontend.address.version << 1,
    )


def key_half(key: bytes) -> int:
    """The buffer that a key of pc_frontends belongs to."""
    return key[19] & 1


def used_rows(there: bytes) -> Iterator[tuple[int, bytes]]:
    """The places with a row, and the row."""
    for place, ident in enumerate(_column(there, 0)):
        if ident:
            yield place, there[place * ROW.size : (place + 1) * ROW.size]


def _column(there: bytes, number: int) -> Sequence[int]:
    """One 32-bit word of every row, all at once: one row at a time takes fifty milliseconds."""
    return array("I", there)[number :: ROW.size // 4]


def _unused(ids: Sequence[int], lasts: Sequence[int]) -> Iterator[int]:
    """The free places, oldest last id first; sorted when the first one is requested.

    The upper half of an id counts the uses, and the lower half is the place.
    """
    yield from sorted(
        (place for place, ident in enumerate(ids) if not ident), key=lasts.__getitem__
    )
