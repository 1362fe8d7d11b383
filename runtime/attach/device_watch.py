# SPDX-License-Identifier: Apache-2.0
"""Denies new devices by default, from a thread of its own, until a load knows them.

    with DeviceWatch(bpffs, state_root, warn) as watch:
        ...                     until `watch.is_broken`, and then `watch.end()` raises

A device gets its hooks as soon as the kernel reports it, even while another command changes the node.
The record is updated when no command does. The watch also restores hooks that another program removed:
rtnetlink reports clsact filters, and tcx links are checked once a second.
"""

import os
import select
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from policyc.runtime import switch
from policyc.runtime.attach import (
    attach,
    denied_devices,
    leftovers,
    tcx,
)
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.devices.link_events import LinkEvents
from policyc.runtime.errors import BusyError, HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Attachment, Generation, StateDir, Warn

_ROUND = 0.2  # seconds between two checks of what is loaded
_LOOK = 1.0  # seconds between two checks of tcx links


class DeviceWatch:
    """Denies the devices that the patterns of the active load name."""

    def __init__(self, bpffs: Path, state_root: Path, warn: Warn) -> None:
        self._pins, self._state, self._warn = Pins(bpffs), StateDir(bpffs, state_root), warn
        self._events = LinkEvents()  # from here on; existing devices are checked later
        self._now: Generation | None = None
        self._own: dict[int, Attachment] = {}
        """Devices with our hooks that are not on record yet."""
        self._is_settled = False
        self._epoch = 0
        self._failed: set[str] = set()
        self._lost: set[Attachment] | None = None  # devices without a hook; None: unknown
        self._look_at = 0.0
        self._error: Exception | None = None
        self._over, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)

    def __enter__(self) -> "DeviceWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        for fd in (self._over, self._end):
            os.close(fd)
        self._events.close()
        if self._error and kind is None:
            raise self._error

    @property
    def is_broken(self) -> bool:
        """Whether the watch has stopped by itself: the end of the context raises the reason."""
        return self._error is not None

    def _run(self) -> None:
        try:
            while not self._is_stopped():
                self._look(self._events.touched())
                self._events.wait(_ROUND, self._over)
        except Exception as error:  # the main thread raises it
            self._error = error

    def _is_stopped(self) -> bool:
        return bool(select.select([self._over], [], [], 0)[0])

    def _look(self, touched: set[int] | None) -> None:
        if touched is None:
            self._lost = None
        if touched is None or self._deny(touched) or self._is_lost(touched):
            self._is_settled = False
        if self._epoch != _epoch(self._pins):
            self._is_settled = False
        if not self._is_settled and self._state.at_work() is None:
            with suppress(BusyError), self._state.lock("follow"):
                self._settle()
                self._is_settled = True

    def _deny(self, touched: Iterable[int]) -> bool:
        """Attach hooks at once, by the load that was read last. True if any device got hooks."""
        now = self._now
        if now is None:
            return bool(touched)
        spared = {each.ifindex for each in now.attachments if each.role != "pod"}
        found = [
            Attachment(name, ifindex, _kind(now), by_pattern=True)
            for ifindex in touched
            if ifindex not in spared
            and (name := denied_devices.name_of(ifindex))
            and denied_devices.is_to_be_denied(name, ifindex, now.deny_devices)
        ]
        return sum(self._attach(each) for each in found) > 0

    def _is_lost(self, touched: set[int]) -> bool:
        """Whether an existing device has lost a hook."""
        if self._now is None or self._lost is None:
            return False
        is_time = time.monotonic() >= self._look_at
        if is_time:
            self._look_at = time.monotonic() + _LOOK
        found = {
            at
            for at in (*self._now.attachments, *leftovers.kept(self._now))
            if (is_time if at.kind == tcx.KIND else at.ifindex in touched) and self._lacks(at)
        }
        self._lost |= found
        return bool(found)

    def _lacks(self, at: Attachment) -> bool:
        return attach.is_there(at) and not attach.is_whole(self._pins, at)

    def _put_back(self, of: Generation) -> None:
        """Restore hooks that the load attached and another program removed."""
        for at in of.attachments:
            if (self._lost is None or at in self._lost) and self._lacks(at) and self._attach(at):
                self._warn(f"{at.interface} had lost a hook; it is attached again")
        self._lost = set()

    def _attach(self, at: Attachment, is_again: bool = False) -> bool:
        """Attach the hooks again, and tell whether some were missing and all are there now.

        It may run again, because a load may have replaced the programs meanwhile.
        """
        try:
            if attach.is_whole(self._pins, at) and not is_again:
                return False
            with ExitStack() as held:
                attach.attach(
                    self._pins,
                    at,
                    {
                        hook.program: held.enter_context(
                            bpf_syscall.obj_get(self._pins.hook(hook.program))
                        )
                        for hook in attach.hooks_at(at)
                    },
                )
        except (attach.GoneError, FileNotFoundError):  # the device or the programs are gone
            return False
        except HostError as error:
            if at.interface not in self._failed:
                self._failed.add(at.interface)
                self._warn(f"the device {at.interface} is not denied: {error}")
            return False
        self._own[at.ifindex] = at
        return True

    def _settle(self) -> None:
        """Handle every existing device, and write the record.

        No other command changes the node meanwhile.
        """
        self._epoch = _epoch(self._pins)
        self._now = self._state.remembered(self._epoch, self._warn)
        if self._now is None:
            for each in self._own.values():
                attach.detach(self._pins, each)  # an unload ran meanwhile
            self._own.clear()
            return
        self._put_back(self._now)
        news = leftovers.unhooked(self._now, _kind(self._now))
        for at in (*leftovers.kept(self._now), *news):
            if attach.is_there(at):
                self._attach(at, at.ifindex in self._own)
        self._own.clear()
        staying = tuple(at for at in self._now.former if not at.by_pattern or attach.is_there(at))
        after = replace(self._now, former=(*staying, *news))
        if after != self._now:
            self._state.write(after)
            self._now = after


def remember(pins: Pins, state: StateDir, generation: Generation, patterns: Patterns) -> None:
    """Replace the load's patterns by these, with the load locked against other commands.

    A device is released if no pattern names it and it never was a pod's.
    """
    after = replace(generation, deny_devices=patterns)
    state.write(after)
    leftovers.sweep(pins, after)


def _epoch(pins: Pins) -> int:
    """The epoch; 0 if nothing is loaded."""
    try:
        return switch.read(pins.map("pc_state")).epoch
    except FileNotFoundError:
        return 0


def _kind(of: Generation) -> str:
    """How the load attached its hooks."""
    hooked = (*of.attachments, *of.former)
    return hooked[0].kind if hooked else attach.kind_for("auto")
