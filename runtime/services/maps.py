# SPDX-License-Identifier: Apache-2.0
"""Writes Services into the maps of datapath/service_map.h, in place of the previous ones.

    tables = fill(pins, word, frontends, nodes, undo)   no hook reads it yet
    switch.store(pins.map("pc_state"), tables.word)
    tables.finish(pins)                             removes what only the previous ones needed

Rows are shared. A new row is written before the switch, when no packet uses it. A removed row loses its
id after the switch, and with the id all its connections.
"""

import ctypes
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from policyc.runtime import switch
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.services import (
    maglev,
    source_ranges,
)
from policyc.runtime.services.rows import (
    CHOICES,
    FRONTEND,
    MARK_SIZE,
    NODE_PORT,
    PLACES,
    ROW,
    STATE_AT,
    Wanted,
    frontend_key,
    key_half,
    site_of,
    used_rows,
    wanted,
    way_of,
)
from policyc.runtime.services.rows import FRONTENDS as MOST_FRONTENDS
from policyc.runtime.services.services import Frontend
from policyc.runtime.switch import Word
from policyc.runtime.undo import Undo

FRONTENDS = "pc_frontends"
_KEY = 20
_SIZES = {
    "pc_rows": PLACES * ROW.size,
    "pc_choices": 2 * CHOICES * 4,
    "pc_maglev": 2 * maglev.SLOTS * 2,
}


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
        with mapped(pins, "pc_rows") as rows:
            for place, _ in used_rows(rows[:]):
                if place in self.wanted.rows:
                    rows[place * ROW.size + STATE_AT] = self.wanted.rows[place][STATE_AT]
                else:
                    set_id(rows, place, 0)
        _empty(pins, 1 - self.word.half)
        source_ranges.empty(pins, 1 - self.word.half)


def fill(
    pins: Pins,
    word: Word,
    frontends: Iterable[Frontend],
    nodes: Mapping[str, int],
    undo: Undo,
) -> Filled:
    """Write the inactive buffer, and the new rows; gives the word that activates it.

    `nodes` are the numbers of the cluster's nodes, by name.
    """
    switch.wait_for_readers()  # a command that died may have left the buffer in use
    after = word.with_services
    with mapped(pins, "pc_rows") as rows:
        want = wanted(frontends, rows[:], nodes)
        for place in want.new:
            row = want.rows[place]
            undo.by(_forget, pins, place)
            rows[place * ROW.size + 4 : (place + 1) * ROW.size] = row[4:]
            set_id(rows, place, struct.unpack_from("=I", row)[0])
        ids = [_id(rows, place) for place in want.choices]
    with mapped(pins, "pc_choices") as choices:
        at = after.half * CHOICES * 4
        choices[at : at + 4 * len(ids)] = struct.pack(f"={len(ids)}I", *ids)
        mark = os.urandom(MARK_SIZE)
        choices[mark_of(after.half)] = mark
    with mapped(pins, "pc_maglev") as memory:
        tables = want.tables.memory()
        at = after.half * maglev.SLOTS * 2
        memory[at : at + len(tables)] = tables
    _empty(pins, after.half)
    source_ranges.empty(pins, after.half)
    source_ranges.write(pins, want.lists, after.half)
    keys = b"".join(frontend_key(each, after.half) for each in want.frontends)
    values = b"".join(want.frontends.values())
    with bpf_syscall.obj_get(pins.map(FRONTENDS)) as fd:
        bpf_syscall.map_update_batch(fd, keys, values, len(want.frontends))
    return Filled(after, want, mark)


def mark_of(half: int) -> slice:
    """Where pc_choices holds the mark of a buffer's contents."""
    end = (half + 1) * CHOICES * 4
    return slice(end - MARK_SIZE, end)


def mark_in_force(pins: Pins, half: int) -> bytes:
    """The mark in the presently pinned map."""
    with mapped(pins, "pc_choices") as choices:
        return choices[mark_of(half)]


def usage(pins: Pins) -> dict[str, tuple[int, int]]:
    """How many addresses and ports of Services, and endpoints, are active, and the room for each."""
    half = switch.read(pins.map("pc_state")).half
    with mapped(pins, "pc_rows") as rows:
        n_rows = sum(1 for _ in used_rows(rows[:]))
    n_keys = sum(key_half(key) == half for key in _keys(pins))
    return {FRONTENDS: (n_keys, MOST_FRONTENDS), "pc_rows": (n_rows, PLACES)}


def ways_back(pins: Pins) -> dict[str, int]:
    """How many addresses and ports of Services set their own return path for external clients."""
    with mapped(pins, "pc_rows") as memory:
        used = [row for _, row in used_rows(memory[:])]
    return dict(Counter({site_of(row): way for row in used if (way := way_of(row))}.values()))


def is_unfinished(pins: Pins) -> bool:
    """Whether a change was activated and not finished, or prepared and never activated.

    Then the inactive buffer is not empty, and connections to removed endpoints may continue.
    """
    half = switch.read(pins.map("pc_state")).half
    return any(key_half(key) != half for key in _keys(pins))


def node_ports(pins: Pins, among: range) -> list[int]:
    """The ports among these that are active node ports, in order."""
    half = switch.read(pins.map("pc_state")).half
    found = set()
    with bpf_syscall.obj_get(pins.map(FRONTENDS)) as fd:
        for key in bpf_syscall.map_keys(fd, _KEY):
            port = int.from_bytes(key[16:18], "big")
            if port in among and key_half(key) == half:
                value = bpf_syscall.map_lookup(fd, key, FRONTEND.size)
                if value and FRONTEND.unpack(value)[4] & NODE_PORT:
                    found.add(port)
    return sorted(found)


def _keys(pins: Pins) -> list[bytes]:
    with bpf_syscall.obj_get(pins.map(FRONTENDS)) as fd:
        return list(bpf_syscall.map_keys(fd, _KEY))


def _empty(pins: Pins, half: int) -> None:
    keys = [key for key in _keys(pins) if key_half(key) == half]
    with bpf_syscall.obj_get(pins.map(FRONTENDS)) as fd:
        for key in keys:
            bpf_syscall.map_delete(fd, key)


def _forget(pins: Pins, place: int) -> None:
    with mapped(pins, "pc_rows") as rows:
        set_id(rows, place, 0)


@contextmanager
def mapped(pins: Pins, name: str) -> Iterator[mmap.mmap]:
    """A map, mapped into this process while the block lasts."""
    with bpf_syscall.obj_get(pins.map(name)) as fd:
        info = bpf_syscall.map_info(fd)
        if info.max_entries * info.value_size != _SIZES[name]:
            raise HostError(
                f"the map {name} that is in use has another layout",
                "another release of policyc loaded it: run `policyc node unload`, then load again",
            )
        with mmap.mmap(fd, _SIZES[name]) as memory:
            yield memory


def _id(rows: mmap.mmap, place: int) -> int:
    return int(struct.unpack_from("=I", rows, place * ROW.size)[0])


def set_id(rows: mmap.mmap, place: int, ident: int) -> None:
    """Set the id by one aligned store, as hooks read the row meanwhile."""
    cell = ctypes.c_uint32.from_buffer(rows, place * ROW.size)
    cell.value = ident
    del cell  # the pages cannot be unmapped while a pointer to them exists
