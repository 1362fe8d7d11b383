# SPDX-License-Identifier: Apache-2.0
"""Attaches the hooks of a device, by tcx or by clsact."""

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from policyc.runtime.attach import (
    clsact,
    netkit,
    prerouting,
    program_slot,
    slaves,
    tcx,
)
from policyc.runtime.endpoints.local_devices import SKIP_HINT
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    bpf_syscall,
    features,
)
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.policy import revoked
from policyc.runtime.state import Attachment

Mode = Literal["auto", "tcx", "clsact"]


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook program, and the direction at a device where it runs (the kernel's words, not policy's)."""

    program: str
    direction: str
    tcx_type: int


class GoneError(HostError):
    """A device vanished while hooks were attached to it."""

    def __init__(self, at: Attachment) -> None:
        hint = SKIP_HINT if at.role == "pod" else ""
        super().__init__(f"the device {at.interface} vanished while it was attached to", hint)


def _both(device: str) -> tuple[Hook, Hook]:
    return (
        Hook(f"pc_from_{device}", "ingress", bpf_syscall.ATTACH_TCX_INGRESS),
        Hook(f"pc_to_{device}", "egress", bpf_syscall.ATTACH_TCX_EGRESS),
    )


BY_ROLE: Mapping[str, tuple[Hook, ...]] = {
    "pod": _both("pod"),
    "uplink": _both("uplink"),
    "tunnel": (Hook("pc_from_tunnel", "ingress", bpf_syscall.ATTACH_TCX_INGRESS),),
    "reassembly": (Hook("pc_from_reasm", "ingress", bpf_syscall.ATTACH_TCX_INGRESS),),
    "route": (Hook("pc_to_route", "egress", bpf_syscall.ATTACH_TCX_EGRESS),),
}
"""The hooks of a device, by its purpose: `Attachment.role`."""
HOOKS = tuple(hook for hooks in BY_ROLE.values() for hook in hooks)
PROGRAMS = (
    *(hook.program for hook in HOOKS),
    netkit.PROGRAM,
    *slaves.HOOKS,
    revoked.PROGRAM,
    program_slot.FIRST_HOOK,
)
"""All programs of the hooks' object; the last two are called by tail call, and not attached."""


def hooks_at(at: Attachment) -> tuple[Hook, ...]:
    """Give the hooks that belong to the device."""
    return BY_ROLE[at.role]


def kind_for(mode: Mode) -> str:
    """Decide how this kernel attaches hooks: "tcx" or "clsact"."""
    if mode == "tcx":
        features.TCX.require()
    if mode == "auto":
        return tcx.KIND if features.TCX.is_there() else clsact.KIND
    return mode


def attach(pins: Pins, at: Attachment, programs: Mapping[str, int]) -> None:
    """Attach the device's hooks, or replace those that are attached in the same way."""
    try:
        for hook in hooks_at(at):
            prog = programs[hook.program]
            if at.kind == tcx.KIND:
                tcx.attach(prog, at.ifindex, hook.tcx_type, pins.link(at.ifindex, hook.program))
            else:
                clsact.attach(prog, at.ifindex, hook.direction, hook.program)
        if at.role == "pod":
            prerouting.add(pins, at.ifindex)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENOLINK) or not is_there(at):
            raise GoneError(at) from error
        raise HostError(f"cannot attach to {at.interface}: {error.strerror}") from error


def is_there(at: Attachment) -> bool:
    """Whether the device still exists."""
    try:
        return bool(socket.if_indextoname(at.ifindex))
    except OSError:
        return False


def is_whole(pins: Pins, at: Attachment) -> bool:
    """Whether each of the device's hooks runs there."""
    return all(attached_program(pins, at, hook) is not None for hook in hooks_at(at))


def detach(pins: Pins, at: Attachment) -> None:
    """Detach the device's hooks; does nothing if the device is gone."""
    if at.role == "pod":
        prerouting.forget(pins, at.ifindex)
    for hook in hooks_at(at):
        if at.kind == tcx.KIND:
            tcx.detach(pins.link(at.ifindex, hook.program))
        else:
            clsact.detach(at.ifindex, hook.direction, hook.program)


def attached_program(pins: Pins, at: Attachment, hook: Hook) -> int | None:
    """The id of the program that runs there, or None if it is not one of ours."""
    if at.kind == tcx.KIND:
        link = tcx.find(pins.link(at.ifindex, hook.program))
        return link.prog_id if link else None
    found = clsact.find(at.ifindex, hook.direction)
    return found.prog_id if found and found.name == hook.program else None


def is_any(pins: Pins, at: Attachment) -> bool:
    """Whether hooks of the role run there, however they are attached."""
    return any(
        attached_program(pins, replace(at, kind=kind), hook) is not None
        for kind in (tcx.KIND, clsact.KIND)
        for hook in hooks_at(at)
    )
