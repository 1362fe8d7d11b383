# SPDX-License-Identifier: Apache-2.0
"""Keeps a node's Services up to date from watches of the API server, until the watches end.

A watch begins with all existing objects. They are activated in one step, as soon as each watch has begun
and no event has come for a while. Later changes are applied one by one (live.py).
"""

import os
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.bundle.json_stream import JsonStream
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import BusyError, InputError
from policyc.runtime.kernel.pins import DEFAULT_ROOT
from policyc.runtime.services.health_checks import (
    Health,
    HealthChecks,
    Place,
)
from policyc.runtime.services.live import (
    Live,
    RefillError,
    StaleError,
)
from policyc.runtime.services.update import (
    LoadedNode,
    LoadMark,
    is_loaded,
    load_mark,
    loaded,
)
from policyc.runtime.services.watched_objects import (
    WatchedServices,
    WatchError,
)
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import Warn, unheard

SETTLED = 1.0
"""Seconds of silence after which the first events count as complete."""
_QUIET, _LONGEST = (
    0.002,
    0.05,
)  # of a change: seconds until it is done, in silence and at the latest
_OVER_CHECK = 0.2  # seconds between two checks of `is_over`
_UNSETTLED = 30  # so many times SETTLED without silence: then the events count as complete
_NODE_CHECK = 1.0  # seconds between two checks of the node's addresses and sockets
_BUSY = 0.05  # seconds between tries while another command has the lock
_READ_SIZE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Applied:
    """The activated changes; the caller is told after all of them are active."""

    events: int
    changed: int
    """The number of addresses and ports of Services."""
    whole: bool
    """Whether everything was written anew."""
    seconds: float
    """The time from the last event until now."""


def follow(
    streams: Sequence[Path],
    *,
    told: Callable[[Applied], None],
    is_over: Callable[[], bool] = lambda: False,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    settled: float = SETTLED,
    warn: Warn = unheard,
    note: Warn = unheard,
) -> None:
    """Read watch events (or objects) from files and pipes until all have ended, or `is_over`.

    Raises `InputError` if a stream is no JSON, or says that the watch failed. `warn` is told of a
    malformed object, whose previous state stays. `note` is told about a wait for another command. The
    active Services stay when this ends.
    """
    with ExitStack() as held:
        reading = _Reading(streams, held)
        with loaded_when_free(bpffs, state_root, is_over, note) as node:
            world = WatchedServices(node.own, warn, node.external)
        following = _Following(world, bpffs, state_root, is_over, warn, note)
        held.callback(following.close)
        wait = settled, _UNSETTLED * settled
        while not is_over():
            n_events = _take(reading, world, wait, lambda: is_over() or following.is_moved(), warn)
            if is_over() and not following.live:
                return  # perhaps more events were to come
            if n_events or following.is_moved():
                applied = following.catch_up(n_events)
                if applied.events or applied.changed or applied.whole:
                    told(applied)
            if not reading.is_open:
                return
            wait = _QUIET, _LONGEST


def _take(
    reading: "_Reading",
    world: WatchedServices,
    wait: tuple[float, float],
    is_over: Callable[[], bool],
    warn: Warn,
) -> int:
    """Read events until silence or a time limit; returns their number.

    Silence counts only after every stream has begun. Otherwise Services without their endpoints would
    become active, and end all their connections.
    """
    quiet, longest = wait
    n, began = 0, 0.0
    while reading.is_open and not is_over():
        events = reading.events(quiet if n and not reading.silent else _OVER_CHECK)
        now = time.monotonic()
        for event in events:
            _apply_event(world, event, warn)
        n += len(events)
        if not n or reading.silent:
            continue
        began = began or now
        if not events or now - began > longest:
            return n
    return n


def _apply_event(world: WatchedServices, event: JsonValue, warn: Warn) -> None:
    try:
        world.take(event)
    except WatchError:
        raise
    except InputError as error:
        warn(f"left as it was: {error}")


@contextmanager
def loaded_when_free(
    bpffs: Path, state_root: Path, is_over: Callable[[], bool], note: Warn
) -> Iterator[LoadedNode]:
    """Like `loaded`, but waits for another command that changes the node, unless `is_over`.

    `note` is told once what this waits for.
    """
    is_said = False
    with ExitStack() as held:
        while True:
            try:
                node = held.enter_context(loaded(bpffs, state_root))
                break
            except BusyError as error:
                if is_over():
                    raise
                if not is_said:
                    note(f"{error.doing}; waiting until it ends")
                    is_said = True
                time.sleep(_BUSY)
        yield node


class _Following:
    """The active tables, and what of the watched Services they do not have yet."""

    def __init__(
        self,
        world: WatchedServices,
        bpffs: Path,
        state_root: Path,
        is_over: Callable[[], bool],
        warn: Warn,
        note: Warn,
    ) -> None:
        self.live: Live | None = None
        self._health = HealthChecks(lambda: is_loaded(bpffs), warn)
        self._world, self._is_over, self._warn, self._note = world, is_over, warn, note
        self._bpffs, self._state_root = bpffs, state_root
        self._load: LoadMark | None = None
        self._look_at, self._is_moved = 0.0, False

    def close(self) -> None:
        self._health.close()
        self._let_go()

    def _let_go(self) -> None:
        if self.live:
            self.live.close()

    def is_moved(self) -> bool:
        """Whether a load, other Services, or the node's addresses and sockets change a decision.

        This is relative to the last `catch_up`. It checks once in `_NODE_CHECK` seconds.
        """
        now = time.monotonic()
        if self.live and not self._is_moved and now >= self._look_at:
            self._look_at = now + _NODE_CHECK
            load = load_mark(self._bpffs)
            self._is_moved = bool(load) and (load != self._load or self._world.is_moved())
        return self._is_moved

    def catch_up(self, n_events: int) -> Applied:
        began = time.monotonic()
        self._is_moved = False
        with loaded_when_free(self._bpffs, self._state_root, self._is_over, self._note) as node:
            self._world.external = node.external
            self._world.move_to(node.own)
            changes = self._world.changes()
            whole = self._is_replaced(node)
            if not whole and self.live:
                try:
                    self.live.apply(changes)
                except (RefillError, StaleError):
                    whole = True
            if whole:
                self._fill(node)
            if whole or changes:
                node.end_gone_sockets(self._warn)
            if node.state.left_out() != self._world.left_out:
                node.state.set_left_out(self._world.left_out)
            self._load = load_mark(self._bpffs)
        self._health.set(self._asked())
        return Applied(n_events, len(changes), whole, time.monotonic() - began)

    def _asked(self) -> dict[Place, Health]:
        """The ports that load balancers ask, and the answers. The API gives no port to two Services."""
        return {
            (family, port): Health(*name, n_local)
            for name, (port, by_family) in self._world.health.items()
            for family, n_local in by_family.items()
        }

    def _is_replaced(self, node: LoadedNode) -> bool:
        """Whether another command has activated Services or nodes meanwhile; or none has yet."""
        return (
            self.live is None
            or node.word.buffer != self.live.word.buffer
            or node.generation.nodes != self.live.nodes
        )

    def _fill(self, node: LoadedNode) -> None:
        filled = node.replace(self._world.frontends.values())
        self._let_go()
        self.live = Live(node.pins, filled, node.generation.nodes)


class _Reading:
    """Reads several streams, whichever has events."""

    def __init__(self, streams: Sequence[Path], held: ExitStack) -> None:
        self._selector = held.enter_context(selectors.PollSelector())
        self.silent = set(streams)
        """Streams that have not begun."""
        for path in dict.fromkeys(streams):
            fd = self._opened(path, held)
            self._selector.register(fd, selectors.EVENT_READ, JsonStream(path))

    @staticmethod
    def _opened(path: Path, held: ExitStack) -> int:
        if str(path) == "-":
            return 0
        try:  # a pipe without a writer yet is awaited with the others
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        held.callback(os.close, fd)
        return fd

    @property
    def is_open(self) -> bool:
        """Whether more events may come."""
        return bool(self._selector.get_map())

    def events(self, patience: float) -> list[JsonValue]:
        """The events that have come, if any comes within so many seconds."""
        return [event for key, _ in self._selector.select(patience) for event in self._read(key)]

    def _read(self, key: selectors.SelectorKey) -> Iterator[JsonValue]:
        stream: JsonStream = key.data
        try:
            piece = os.read(key.fd, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            raise InputError(f"{stream.file}: cannot be read: {error.strerror}") from error
        for value in stream.values(piece):
            self.silent.discard(stream.file)
            yield value
        if not piece:
            self._selector.unregister(key.fd)
            stream.end()
            if stream.file in self.silent:
                raise InputError(
                    f"{stream.file}: the stream ended without an object",
                    "check whether the command that writes it failed",
                )
