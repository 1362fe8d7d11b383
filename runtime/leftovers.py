# SPDX-License-Identifier: Apache-2.0
"""Hooks that earlier loads left on devices, and which of them stay.

A device outlives its pod's entry in the endpoints file: until it is gone its hooks stay, and drop
for want of an endpoint. What is taken off is the other kind of attaching, and what is left of gone
devices. They are on record from before the switch: a load that dies behind it loses none.
"""

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from policyc.runtime import attach, clsact, rtnetlink, tcx
from policyc.runtime.pins import Pins
from policyc.runtime.state import Attachment, Generation

Attachments = tuple[Attachment, ...]


def is_all_on_record(pins: Pins, before: Generation | None) -> bool:
    """Whether no load died before its switch, and the record of the one in force is there."""
    epochs = pins.generations().keys()
    return not pins.is_there() or (before is not None and epochs <= {before.epoch})


def others(
    pins: Pins, before: Generation | None, now: Iterable[Attachment], on_record: bool
) -> Attachments:
    """What is attached to devices besides `now`, by whatever load."""
    known = {_place(each) for each in now}
    found = {_place(each): each for each in _candidates(pins, before, on_record)}
    return tuple(
        each for place, each in found.items() if place not in known and is_attached(pins, each)
    )


def kept(former: Attachments, now: Attachments) -> Attachments:
    """Those that go on running: of pods' devices that have no hooks of another kind or role.

    An uplink that is none any more is left alone, as if it had never been one.
    """
    hooked = {each.ifindex for each in now}
    return tuple(each for each in former if each.role == "pod" and each.ifindex not in hooked)


def sweep(pins: Pins, former: Attachments, now: Attachments) -> None:
    """Take off what is not kept, and the pins of links whose device is gone."""
    staying = {_place(each) for each in kept(former, now)}
    for each in former:
        if _place(each) not in staying:
            attach.detach(pins, each)
    drop_links(pins, keep=(*kept(former, now), *now))


def drop_links(pins: Pins, keep: Iterable[Attachment]) -> None:
    """Detach tcx links of devices that are not to be kept, dead ones among them."""
    kept_pins = {
        pins.link(each.ifindex, hook.program)
        for each in keep
        if each.kind == tcx.KIND
        for hook in attach.hooks_at(each)
    }
    for pin in _links(pins):
        if pin not in kept_pins:
            tcx.detach(pin)


def is_attached(pins: Pins, at: Attachment) -> bool:
    """Whether any hook of ours runs there."""
    return any(attach.attached_program(pins, at, hook) is not None for hook in attach.hooks_at(at))


def _candidates(pins: Pins, before: Generation | None, on_record: bool) -> Iterator[Attachment]:
    """Where hooks may be: at pinned links, on record, and when that is not all, at any device."""
    linked = {int(pin.name.partition("-")[0]) for pin in _links(pins)}
    for ifindex in linked:
        yield from _in_any_role(_name(ifindex), ifindex, tcx.KIND)
    if before:
        yield from (*before.former, *before.attachments)
    if not on_record and rtnetlink.is_usable():
        for ifindex, name in socket.if_nameindex():
            yield from _in_any_role(name, ifindex, clsact.KIND)


def _in_any_role(name: str, ifindex: int, kind: str) -> Iterator[Attachment]:
    yield from (Attachment(name, ifindex, kind, role) for role in attach.BY_ROLE)


def _links(pins: Pins) -> list[Path]:
    return list(pins.links.iterdir()) if pins.links.is_dir() else []


def _place(at: Attachment) -> tuple[int, str, str]:
    """What makes it the same attachment: a device may be renamed."""
    return at.ifindex, at.kind, at.role


def _name(ifindex: int) -> str:
    try:
        return socket.if_indextoname(ifindex)
    except OSError:  # it is gone
        return ""
