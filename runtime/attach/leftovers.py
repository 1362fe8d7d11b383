# SPDX-License-Identifier: Apache-2.0
"""Hooks that earlier loads left on devices, and which of these hooks stay.

A device may outlive its pod's entry in the endpoints file. Its hooks then stay until the device is gone,
and drop packets because it has no endpoint. The hooks of a device that was never a pod's stay while a
pattern denies it. Hooks of the other kind (tcx or clsact) are removed, and so are pins of vanished
devices. All are on record before the switch: a load that dies after the switch loses none.
"""

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from policyc.runtime.attach import (
    attach,
    clsact,
    denied_devices,
    tcx,
)
from policyc.runtime.kernel import rtnetlink
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Attachment, Generation, Warn

Attachments = tuple[Attachment, ...]
_ROLES = {hook.program: role for role, hooks in attach.BY_ROLE.items() for hook in hooks}


def is_all_on_record(pins: Pins, before: Generation | None) -> bool:
    """Whether no load died before its switch, and the active generation's record exists."""
    epochs = pins.generations().keys()
    return not pins.is_there() or (before is not None and epochs <= {before.epoch})


def others(
    pins: Pins, before: Generation | None, now: Iterable[Attachment], on_record: bool, warn: Warn
) -> Attachments:
    """Hooks on devices outside `now`, from any load. `warn` is told which places are not checked."""
    if not on_record and not rtnetlink.is_usable():
        warn(
            "clsact is not searched for unrecorded hooks: that needs the Python package pyroute2; "
            "pip install pyroute2"
        )
    known = {_place(each) for each in now}
    found = {_place(each): each for each in _candidates(pins, before, on_record)}
    return tuple(
        each for place, each in found.items() if place not in known and is_attached(pins, each)
    )


def kept(of: Generation) -> Attachments:
    """The attachments that stay: those of devices without an endpoint.

    Devices that now have hooks of another kind or role are not among them.

    A former uplink is left alone, as if it had never been one. So is a device that no pattern denies any
    more.
    """
    hooked = {each.ifindex for each in of.attachments}
    return tuple(
        each
        for each in of.former
        if each.role == "pod"
        and each.ifindex not in hooked
        and (not each.by_pattern or denied_devices.is_denied(each, of.deny_devices))
    )


def unhooked(of: Generation, kind: str) -> Attachments:
    """Devices to deny that have no hooks on record; they get hooks of that kind."""
    hooked = {each.ifindex for each in (*of.attachments, *kept(of))}
    found = denied_devices.found(of.deny_devices, hooked)
    return tuple(Attachment(name, at, kind, by_pattern=True) for name, at in found.items())


def names_kept(of: Generation) -> tuple[str, ...]:
    """Devices without an endpoint that have hooks, by their present names."""
    return tuple(name for each in kept(of) if (name := denied_devices.name_of(each.ifindex)))


def sweep(pins: Pins, of: Generation) -> None:
    """Remove hooks that do not stay, links of programs that this release lacks, and dead links' pins."""
    staying = kept(of)
    places = {_place(each) for each in staying}
    for each in of.former:
        if _place(each) not in places:
            attach.detach(pins, each)
    there = {ifindex for ifindex, _ in socket.if_nameindex()}
    for pin in _links(pins):
        ifindex, role = _of_link(pin)
        # A link that is alive was attached meanwhile, by device_watch.py.
        if not role or (ifindex not in there and tcx.find(pin) is None):
            tcx.detach(pin)


def drop_links(pins: Pins) -> None:
    """Detach all tcx links, also those of vanished devices."""
    for pin in _links(pins):
        tcx.detach(pin)


def is_attached(pins: Pins, at: Attachment) -> bool:
    """Whether any of our hooks runs there."""
    return any(attach.attached_program(pins, at, hook) is not None for hook in attach.hooks_at(at))


def _candidates(pins: Pins, before: Generation | None, on_record: bool) -> Iterator[Attachment]:
    """Where hooks may be: at pinned links and devices on record; without a complete record, anywhere."""
    for ifindex, role in sorted(_linked(pins)):
        yield Attachment(_name(ifindex), ifindex, tcx.KIND, role)
    if not on_record and rtnetlink.is_usable():
        for ifindex, name in socket.if_nameindex():
            yield from _in_any_role(name, ifindex, clsact.KIND)
    if before:
        yield from (*before.former, *before.attachments)


def _linked(pins: Pins) -> set[tuple[int, str]]:
    """Devices and roles with a pinned link."""
    return {(ifindex, role) for ifindex, role in map(_of_link, _links(pins)) if role}


def _of_link(pin: Path) -> tuple[int, str]:
    """Device and role from the name of the pin; no role if another release pinned it."""
    ifindex, _, program = pin.name.partition("-")
    return int(ifindex), _ROLES.get(program, "")


def _in_any_role(name: str, ifindex: int, kind: str) -> Iterator[Attachment]:
    yield from (Attachment(name, ifindex, kind, role) for role in attach.BY_ROLE)


def _links(pins: Pins) -> list[Path]:
    return list(pins.links.iterdir()) if pins.links.is_dir() else []


def _place(at: Attachment) -> tuple[int, str, str]:
    """The identity of an attachment, without its name: a device may be renamed."""
    return at.ifindex, at.kind, at.role


def _name(ifindex: int) -> str:
    try:
        return socket.if_indextoname(ifindex)
    except OSError:  # it is gone
        return ""
