# SPDX-License-Identifier: Apache-2.0
"""Changes the active tables of Services, one frontend at a time.

    live = Live(pins, filled, nodes)        after tables.fill() and finish()
    live.apply(world.changes())

One store of a frontend's value changes it. The value names the frontend's range of pc_choices: the new
range is written before, and the old one is free afterwards. A range is reused only after all packets
that might read it have passed. A removed backend loses its id when no new packet is sent to it.
`tables.fill` writes everything at once; both leave the same tables behind.
"""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.services import Backends, Choices, Frontends
from policyc.runtime.services import tables
from policyc.runtime.services.claims import (
    Changes,
    Site,
)
from policyc.runtime.services.services import Frontend
from policyc.runtime.services.tables import Filled

GRACE = 0.2
"""Seconds until free entries are reused: longer than a packet takes.

A hook that reads a reused entry even later drops its packet: `pc_backend_is_at()` does not hold then.
"""


class StaleError(Exception):
    """The tables are not as this object left them: another command has replaced them."""


class RefillError(Exception):
    """All tables must be filled anew: no free range is large enough, or the change is no single one."""


@dataclass(slots=True)
class _Held:
    """The entries of a frontend in the tables."""

    key: bytes
    value: bytes
    pools: tuple[int, int]
    """The first index and the size of its two pools, which follow each other."""
    places: dict[bytes, int]
    """The places of its backends, by identity."""


class Live:
    """The tables as one `Filled` has left them, open until `close`."""

    def __init__(self, pins: Pins, filled: Filled, nodes: Mapping[str, int]) -> None:
        self.word = filled.word
        self._pins, self._mark = pins, filled.mark
        self._plan = tables.planner(pins, nodes)
        self._closing = ExitStack()
        self._backends = self._closing.enter_context(Backends(pins))
        self._choices = self._closing.enter_context(Choices(pins))
        self._frontends = self._closing.enter_context(Frontends(pins))
        self._held: dict[Site, _Held] = {}
        by_identity = {self._identity(e): place for place, e in filled.wanted.backends.items()}
        for frontend, value in filled.wanted.frontends.items():
            self._hold(frontend, value, by_identity)
        used = set(filled.wanted.backends)
        n_places = self._plan.capacities.backends
        self._free_places = deque(place for place in range(n_places) if place not in used)
        self._unused = len(filled.wanted.choices)
        self._free_ranges: dict[int, list[int]] = {}
        self._resting: deque[tuple[float, tuple[int, int] | int]] = deque()

    def close(self) -> None:
        """Release the tables; they stay as they are."""
        self._closing.close()

    @property
    def nodes(self) -> Mapping[str, int]:
        """The numbers of the cluster's nodes, by name."""
        return self._plan.nodes

    def _identity(self, entry: bytes) -> bytes:
        return self._plan.backend.identity(entry)

    def _hold(self, frontend: Frontend, value: bytes, by_identity: Mapping[bytes, int]) -> None:
        entries = (self._plan.entry_of(frontend, each) for each in frontend.backends)
        found = map(self._identity, entries)
        places = {ident: by_identity[ident] for ident in found if ident in by_identity}
        key = self._plan.key_of(frontend, self.word.buffer)
        self._held[_site(frontend)] = _Held(key, value, self._plan.frontend.pool_of(value), places)

    def apply(self, changes: Changes) -> None:
        """Activate the changes, one after the other; all are active on return.

        On `RefillError` or `StaleError` some of them may not be active, and everything must be filled
        anew.
        """
        if tables.mark_in_force(self._pins, self.word.buffer) != self._mark:
            raise StaleError
        self._recycle()
        for old, new in changes.values():
            for each in (old, new):
                if each and (each.ranges is not None or each.maglev_slots):
                    raise RefillError
        for site, (_, new) in changes.items():
            self._replace(site, new)

    def _replace(self, site: Site, new: Frontend | None) -> None:
        held = self._held.get(site)
        places = held.places if held else {}
        if new is None:
            if held:
                self._frontends.delete(held.key)
                del self._held[site]
                self._let_go(held, {})
            return
        if not held and len(self._held) >= self._plan.capacities.frontends:
            raise RefillError
        after, states, choices = self._backends_of(new, places)
        pools = self._take_range(len(choices[0]) + len(choices[1]))
        ids = [self._backends.id_at(place) for place in (*choices[0], *choices[1])]
        self._choices.write(self.word.buffer, pools[0], ids)
        value = self._plan.value_of(new, (pools[0], len(choices[0]), len(choices[1])))
        key = self._plan.key_of(new, self.word.buffer)
        self._frontends.put(key, value)
        self._held[site] = _Held(key, value, pools, after)
        for place, state in states.items():
            self._backends.set_state(place, state)
        if held:
            self._let_go(held, after)

    def _backends_of(
        self, frontend: Frontend, before: Mapping[bytes, int]
    ) -> tuple[dict[bytes, int], dict[int, int], tuple[list[int], list[int]]]:
        """Places by identity, with new entries written; states to set; places to choose from."""
        after: dict[bytes, int] = {}
        states: dict[int, int] = {}
        choices: tuple[list[int], list[int]] = [], []
        for each in frontend.backends:
            entry = self._plan.entry_of(frontend, each)
            ident = self._identity(entry)
            place = before.get(ident, -1)
            if place < 0 and not (each.takes_new or each.takes_local):
                continue
            if place < 0:
                place = self._take_place(entry)
            else:
                states[place] = self._plan.backend.state_of(entry)
            after[ident] = place
            if each.takes_new:
                choices[0].append(place)
            if each.takes_local:
                choices[1].append(place)
        return after, states, choices

    def _let_go(self, held: _Held, after: Mapping[bytes, int]) -> None:
        """Stop using backends that only `held` has: their connections end."""
        now = time.monotonic()
        for ident, place in held.places.items():
            if ident not in after:
                self._backends.set_id(place, 0)
                self._resting.append((now, place))
        self._resting.append((now, held.pools))

    def _recycle(self) -> None:
        """Free what has been unused for long enough."""
        until = time.monotonic() - GRACE
        while self._resting and self._resting[0][0] < until:
            _, what = self._resting.popleft()
            if isinstance(what, int):
                self._free_places.append(what)
            elif what[1]:
                self._free_ranges.setdefault(what[1], []).append(what[0])

    def _take_place(self, entry: bytes) -> int:
        if not self._free_places:
            raise RefillError
        place = self._free_places.popleft()
        last = self._backends.last_id_at(place)
        self._backends.write(place, self._plan.backend.with_next_id(entry, place, last))
        return place

    def _take_range(self, size: int) -> tuple[int, int]:
        """A free range of this size, never-used entries, or the end of a larger free range."""
        if not size:
            return 0, 0
        if self._free_ranges.get(size):
            return self._free_ranges[size].pop(), size
        if self._unused + size <= self._plan.capacities.choices:
            self._unused += size
            return self._unused - size, size
        larger = min((n for n, free in self._free_ranges.items() if n > size and free), default=0)
        if not larger:
            raise RefillError
        first = self._free_ranges[larger].pop()
        self._free_ranges.setdefault(larger - size, []).append(first)
        return first + larger - size, size


def _site(frontend: Frontend) -> Site:
    return frontend.address, frontend.protocol, frontend.port
