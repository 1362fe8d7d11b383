# SPDX-License-Identifier: Apache-2.0
"""Writes Services into the maps of datapath/service_map.h, in place of the previous ones.

    tables = fill(pins, word, frontends, nodes, undo)   no hook reads it yet
    switch.store(pins.map("pc_state"), tables.word)
    tables.finish(pins)                             removes what only the previous ones needed

Backends are shared by both buffers. A new one is written before the switch, when no packet uses it. A
removed one loses its id after the switch, and with the id all its connections.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policyc.runtime import switch
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.services import (
    MARK_SIZE,
    Backends,
    Capacities,
    Choices,
    Frontends,
    MaglevTables,
)
from policyc.runtime.maps.source_ranges import SourceRanges
from policyc.runtime.services import source_ranges
from policyc.runtime.services.services import Frontend
from policyc.runtime.services.wanted_tables import Planner, Wanted, way_of
from policyc.runtime.switch import Word
from policyc.runtime.undo import Undo


@dataclass(frozen=True, slots=True)
class Filled:
    """Complete tables, and the word that activates them."""

    word: Word
    wanted: Wanted
    mark: bytes
    """Identifies this filling."""

    def finish(self, pins: Pins) -> None:
        """Finish after the word is stored: no new connection uses what this removes."""
        switch.wait_for_readers()
        with Backends(pins) as backends:
            for place, _ in backends.used():
                wanted = self.wanted.backends.get(place)
                if wanted is None:
                    backends.set_id(place, 0)
                else:
                    backends.set_state(place, backends.format.state_of(wanted))
        _empty(pins, 1 - self.word.buffer)


def planner(pins: Pins, nodes: Mapping[str, int]) -> Planner:
    """Plans tables for the maps in use; `nodes` are the numbers of the cluster's nodes, by name."""
    with (
        Frontends(pins) as frontends,
        Backends(pins) as backends,
        Choices(pins) as choices,
        SourceRanges(pins) as ranges,
        MaglevTables(pins) as maglev,
    ):
        most = frontends.most, backends.max_entries, choices.most, ranges.most, maglev.most
        return Planner(frontends.format, backends.format, Capacities(*most), nodes)


def fill(
    pins: Pins,
    word: Word,
    frontends: Iterable[Frontend],
    nodes: Mapping[str, int],
    undo: Undo,
) -> Filled:
    """Write the inactive buffer, and the new backends; gives the word that activates it.

    `nodes` are the numbers of the cluster's nodes, by name.
    """
    switch.wait_for_readers()  # a command that died may have left the buffer in use
    after, plan = word.with_services, planner(pins, nodes)
    with Backends(pins) as backends:
        want = plan.wanted(frontends, backends.all())
        for place in want.new:
            undo.by(_forget, pins, place)
            backends.write(place, want.backends[place])
        ids = [backends.id_at(place) for place in want.choices]
    mark = os.urandom(MARK_SIZE)
    with Choices(pins) as choices:
        choices.write(after.buffer, 0, ids)
        choices.set_mark(after.buffer, mark)
    with MaglevTables(pins) as maglev:
        maglev.write(after.buffer, want.tables.memory())
    _empty(pins, after.buffer)
    source_ranges.write(pins, want.lists, after.buffer)
    with Frontends(pins) as there:
        keys = [plan.key_of(each, after.buffer) for each in want.frontends]
        there.put_all(keys, list(want.frontends.values()))
    return Filled(after, want, mark)


def mark_in_force(pins: Pins, buffer: int) -> bytes:
    """The mark in the presently pinned map."""
    with Choices(pins) as choices:
        return choices.mark(buffer)


def all_backends(pins: Pins) -> bytes:
    """Every entry, by place."""
    with Backends(pins) as backends:
        return backends.all()


def usage(pins: Pins) -> dict[str, tuple[int, int]]:
    """How many addresses and ports of Services, and endpoints, are active, and the room for each."""
    buffer = switch.read(pins.map("pc_state")).buffer
    with Frontends(pins) as frontends, Backends(pins) as backends:
        return {
            frontends.NAME: (len(frontends.keys_of(buffer)), frontends.most),
            backends.NAME: (sum(1 for _ in backends.used()), backends.max_entries),
        }


def ways_back(pins: Pins) -> dict[str, int]:
    """How many addresses and ports of Services set their own return path for external clients."""
    with Backends(pins) as backends:
        found = {
            backends.format.frontend_of(entry): way
            for _, entry in backends.used()
            if (way := way_of(backends.format.state_of(entry)))
        }
    return dict(Counter(found.values()))


def is_unfinished(pins: Pins) -> bool:
    """Whether a change was activated and not finished, or prepared and never activated.

    Then the inactive buffer is not empty, and connections to removed endpoints may continue.
    """
    buffer = switch.read(pins.map("pc_state")).buffer
    with Frontends(pins) as frontends:
        return bool(frontends.keys_of(1 - buffer))


def node_ports(pins: Pins, among: range) -> list[int]:
    """The ports among these that are active node ports, in order."""
    buffer = switch.read(pins.map("pc_state")).buffer
    with Frontends(pins) as frontends:
        return frontends.node_ports(among, buffer)


def _empty(pins: Pins, buffer: int) -> None:
    with Frontends(pins) as frontends:
        frontends.empty(buffer)
    source_ranges.empty(pins, buffer)


def _forget(pins: Pins, place: int) -> None:
    with Backends(pins) as backends:
        backends.set_id(place, 0)
