# SPDX-License-Identifier: Apache-2.0
"""Changes the active tables of Services, one frontend at a time.

    live = Live(pins, filled, nodes)        after service_maps.fill() and finish()
    live.apply(world.changes())

One store of a frontend's value changes it. The value names the frontend's part of pc_choices: the new
part is written before, and the old one is free afterwards. A part is reused only after all packets that
might read it have passed. When no new packet is sent to the endpoints of a removed row, the row loses
its id. `service_maps.fill` writes everything at once; both leave the same tables behind.
"""

import struct
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.services import maps as service_maps
from policyc.runtime.services.claims import (
    Changes,
    Site,
)
from policyc.runtime.services.maps import Filled
from policyc.runtime.services.rows import (
    CHOICES,
    FRONTEND,
    FRONTENDS,
    PLACES,
    ROOM,
    ROW,
    STATE_AT,
    frontend_key,
    frontend_value,
    identity,
    row_of,
    with_next_id,
)
from policyc.runtime.services.services import Frontend

GRACE = 0.2
"""Seconds until free entries are reused: longer than any packet takes."""


class StaleError(Exception):
    """The tables are not as this object left them: another command has replaced them."""


class FullError(Exception):
    """There is no contiguous room left, or this kind of change cannot be applied alone."""


@dataclass(slots=True)
class _Held:
    """The entries of a frontend in the tables."""

    key: bytes
    value: bytes
    part: tuple[int, int]
    """The start and the counts of its choices, of either kind."""
    places: dict[bytes, int]
    """The places of its rows, by identity."""


class Live:
    """The tables as one `Filled` has left them, open until `close`."""

    def __init__(self, pins: Pins, filled: Filled, nodes: Mapping[str, int]) -> None:
        self.word = filled.word
        self.nodes = nodes
        self._pins, self._mark = pins, filled.mark
        self._closing = ExitStack()
        self._rows = self._closing.enter_context(service_maps.mapped(pins, "pc_rows"))
        self._choices = self._closing.enter_context(service_maps.mapped(pins, "pc_choices"))
        frontends = bpf_syscall.obj_get(pins.map(service_maps.FRONTENDS))
        self._frontends = self._closing.enter_context(frontends)
        self._held: dict[Site, _Held] = {}
        by_identity = {identity(row): place for place, row in filled.wanted.rows.items()}
        for frontend, value in filled.wanted.frontends.items():
            self._hold(frontend, value, by_identity)
        used = set(filled.wanted.rows)
        self._free_places = deque(place for place in range(PLACES) if place not in used)
        self._unused = len(filled.wanted.choices)
        self._free_parts: dict[int, list[int]] = {}
        self._resting: deque[tuple[float, tuple[int, int] | int]] = deque()

    def close(self) -> None:
        """Release the tables; they stay as they are."""
        self._closing.close()

    def _hold(self, frontend: Frontend, value: bytes, by_identity: Mapping[bytes, int]) -> None:
        first, count, _, n_local, *_ = FRONTEND.unpack(value)
        rows = (identity(row_of(frontend, each, self.nodes)) for each in frontend.backends)
        places = {ident: by_identity[ident] for ident in rows if ident in by_identity}
        key = frontend_key(frontend, self.word.half)
        self._held[_site(frontend)] = _Held(key, value, (first, count + n_local), places)

    def apply(self, changes: Changes) -> None:
        """Activate the changes, one after the other; all are active on return.

        On `FullError` or `StaleError` some of them may not be active, and everything must be filled
        anew.
        """
        if service_maps.mark_in_force(self._pins, self.word.half) != self._mark:
            raise StaleError
        self._recycle()
        for old, new in changes.values():
            for each in (old, new):
                if each and (each.ranges is not None or each.maglev_slots):
                    raise FullError
        for site, (_, new) in changes.items():
            self._replace(site, new)

    def _replace(self, site: Site, new: Frontend | None) -> None:
        held = self._held.get(site)
        places = held.places if held else {}
        if new is None:
            if held:
                bpf_syscall.map_delete(self._frontends, held.key)
                del self._held[site]
                self._let_go(held, {})
            return
        if not held and len(self._held) >= FRONTENDS:
            raise FullError
        after, closed, choices = self._rows_of(new, places)
        part = self._take_part(len(choices[0]) + len(choices[1]))
        ids = [self._id(place) for place in (*choices[0], *choices[1])]
        at = 4 * (self.word.half * CHOICES + part[0])
        self._choices[at : at + 4 * len(ids)] = struct.pack(f"={len(ids)}I", *ids)
        value = frontend_value(new, (part[0], len(choices[0]), len(choices[1])))
        key = frontend_key(new, self.word.half)
        bpf_syscall.map_update(self._frontends, key, value)
        self._held[site] = _Held(key, value, part, after)
        for place, state in closed.items():
            self._rows[place * ROW.size + STATE_AT] = state
        if held:
            self._let_go(held, after)

    def _rows_of(
        self, frontend: Frontend, before: Mapping[bytes, int]
    ) -> tuple[dict[bytes, int], dict[int, int], tuple[list[int], list[int]]]:
        """Rows by identity, with new ones written; states to set; places to choose from."""
        after: dict[bytes, int] = {}
        states: dict[int, int] = {}
        choices: tuple[list[int], list[int]] = [], []
        for backend in frontend.backends:
            row = row_of(frontend, backend, self.nodes)
            ident = identity(row)
            place = before.get(ident, -1)
            if place < 0 and not (backend.takes_new or backend.takes_local):
                continue
            if place < 0:
                place = self._take_place(row)
            else:
                states[place] = row[STATE_AT]
            after[ident] = place
            if backend.takes_new:
                choices[0].append(place)
            if backend.takes_local:
                choices[1].append(place)
        return after, states, choices

    def _let_go(self, held: _Held, after: Mapping[bytes, int]) -> None:
        """Stop sending new connections to rows that only `held` has: their connections end."""
        now = time.monotonic()
        for ident, place in held.places.items():
            if ident not in after:
                service_maps.set_id(self._rows, place, 0)
                self._resting.append((now, place))
        self._resting.append((now, held.part))

    def _recycle(self) -> None:
        """Free what has been unused for long enough."""
        until = time.monotonic() - GRACE
        while self._resting and self._resting[0][0] < until:
            _, what = self._resting.popleft()
            if isinstance(what, int):
                self._free_places.append(what)
            elif what[1]:
                self._free_parts.setdefault(what[1], []).append(what[0])

    def _take_place(self, row: bytes) -> int:
        if not self._free_places:
            raise FullError
        place = self._free_places.popleft()
        at = place * ROW.size
        (last,) = struct.unpack_from("=I", self._rows, at + 4)
        whole = with_next_id(row, place, last)
        self._rows[at + 4 : at + ROW.size] = whole[4:]
        service_maps.set_id(self._rows, place, struct.unpack_from("=I", whole)[0])
        return place

    def _take_part(self, size: int) -> tuple[int, int]:
        """A free part of this size, or never-used room, or the end of a larger part."""
        if not size:
            return 0, 0
        if self._free_parts.get(size):
            return self._free_parts[size].pop(), size
        if self._unused + size <= ROOM:
            self._unused += size
            return self._unused - size, size
        larger = min((n for n, free in self._free_parts.items() if n > size and free), default=0)
        if not larger:
            raise FullError
        first = self._free_parts[larger].pop()
        self._free_parts.setdefault(larger - size, []).append(first)
        return first + larger - size, size

    def _id(self, place: int) -> int:
        return int(struct.unpack_from("=I", self._rows, place * ROW.size)[0])


def _site(frontend: Frontend) -> Site:
    return frontend.address, frontend.protocol, frontend.port
