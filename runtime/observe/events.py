# SPDX-License-Identifier: Apache-2.0
"""The events of a node as they come: the packets that log rules report, and how many events were lost.

Each generation has its own ring, whose records use that generation's ids. After a switch, the previous
ring is read to its end first.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime import switch
from policyc.runtime.attach import network
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    bpf_syscall,
    host,
)
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import (
    DEFAULT_ROOT,
    Pins,
)
from policyc.runtime.kernel.ring_buffer import RingBuffer
from policyc.runtime.observe.event_records import (
    RECORD,
    SCHEMA,
    Event,
    Reader,
)
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import StateDir, Warn, unheard

RING, COUNT = "pc_events", "pc_event_count"
_WAIT_MS = 200
_PORTION = 1024


@dataclass(frozen=True, slots=True)
class Lost:
    """Events that were lost since the last report."""

    withheld: int  # above the rate limit of a CPU
    full: int  # the ring was full of unread events

    def to_json(self) -> dict[str, object]:
        """The loss as plain values, with the name of its schema."""
        return {
            "schema": SCHEMA,
            "kind": "lost",
            "withheld": self.withheld,
            "full": self.full,
        }


def read_events(
    *,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    count: int | None = None,
    seconds: float | None = None,
    is_over: Callable[[], bool] = lambda: False,
    warn: Warn = unheard,
) -> Iterator[Event | Lost]:
    """The waiting events, and new ones, until `count` events, `seconds`, `is_over`, or an unload.

    Raises `HostError` if nothing is loaded, or another process reads the events.
    """
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    network.require_here(where, state)
    until = None if seconds is None else time.monotonic() + seconds
    left = count
    with _alone(where), ExitStack() as held:
        at = _opened(where, state, held)
        if at.counts is None:
            warn("no loaded rule logs or audits; waiting for the next load")
        while True:
            is_last = is_over() or (until is not None and time.monotonic() >= until)
            wait = 0 if is_last else _wait(until)
            is_replaced = switch.read(where.map("pc_state")).epoch != at.epoch
            most = _PORTION if left is None else min(left, _PORTION)
            found = at.poll(wait, most)
            yield from found
            left = None if left is None else left - len(found)
            if left != 0 and len(found) == most:
                continue  # more may wait
            lost = at.newly_lost()
            if lost is not None:
                yield lost
            if is_last or left == 0 or not where.is_there():
                return
            if is_replaced:
                held.close()
                at = _opened(where, state, held)


def _wait(until: float | None) -> int:
    """The timeout in milliseconds."""
    if until is None:
        return _WAIT_MS
    return max(0, min(_WAIT_MS, int((until - time.monotonic()) * 1000) + 1))


class _NoRing:
    """The ring of a generation that makes no events."""

    def poll(self, timeout_ms: int, _most: int) -> list[bytes]:
        time.sleep(timeout_ms / 1000)
        return []


@dataclass
class _Reading:
    """The ring of one generation."""

    epoch: int
    ring: RingBuffer | _NoRing
    reader: Reader | None  # None: no events
    counts: Path | None
    said: Lost = Lost(0, 0)

    def poll(self, timeout_ms: int, most: int) -> list[Event]:
        """At most `most` events; waits for the first."""
        records = self.ring.poll(timeout_ms, most)
        return [self.reader.event(record) for record in records] if self.reader else []

    def newly_lost(self) -> Lost | None:
        """The events lost since the last call."""
        try:
            all_lost = _lost(self.counts) if self.counts else self.said
        except FileNotFoundError:  # the generation is gone, and its last losses are unknown
            return None
        before, self.said = self.said, all_lost
        new = Lost(all_lost.withheld - before.withheld, all_lost.full - before.full)
        return new if new.withheld or new.full else None


def _lost(pin: Path) -> Lost:
    ((_due, _written, withheld, full),) = per_cpu_sums(pin)
    return Lost(withheld, full)


def _opened(where: Pins, state: StateDir, held: ExitStack) -> _Reading:
    """The active ring; its reader first reports the losses since the load."""
    while True:
        epoch = switch.read(where.map("pc_state")).epoch
        generation = state.read(epoch) if epoch else None
        if epoch == 0 or generation is None:
            raise HostError("nothing is loaded here", "policyc node load")
        folder = where.generation(epoch)
        try:
            with bpf_syscall.obj_get(folder / RING) as fd:
                ring = held.enter_context(RingBuffer(fd))
            with bpf_syscall.obj_get(folder / COUNT) as fd:
                reader = Reader(generation, Btf.of_map(fd).struct(RECORD))
            return _Reading(epoch, ring, reader, folder / COUNT)
        except FileNotFoundError:
            if switch.read(where.map("pc_state")).epoch == epoch:
                return _Reading(epoch, _NoRing(), None, None)


@contextmanager
def _alone(where: Pins) -> Iterator[None]:
    """Lock out other readers: each event is read once, so two readers would split the events."""
    if not where.is_there():
        raise HostError("nothing is loaded here", "policyc node load")
    folder = os.open(where.maps, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise HostError(
            "another `policyc node events` is reading here", "each event is read once"
        ) from error
    finally:
        os.close(folder)
