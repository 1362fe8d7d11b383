# SPDX-License-Identifier: Apache-2.0
"""The hooks at a device, whichever way they are attached."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from policyc.runtime import bpf_syscall, clsact, features, tcx
from policyc.runtime.errors import HostError
from policyc.runtime.pins import Pins
from policyc.runtime.state import Attachment

Mode = Literal["auto", "tcx", "clsact"]


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook program, and the side of a device where it runs (the kernel's words, not policy's)."""

    program: str
    direction: str
    tcx_type: int


HOOKS = (
    Hook("pc_from_pod", "ingress", bpf_syscall.ATTACH_TCX_INGRESS),
    Hook("pc_to_pod", "egress", bpf_syscall.ATTACH_TCX_EGRESS),
)


def kind_for(mode: Mode) -> str:
    """How this kernel is to be attached to."""
    if mode == "tcx":
        features.TCX.require()
    if mode == "auto":
        return tcx.KIND if features.TCX.is_there() else clsact.KIND
    return mode


def attach(pins: Pins, at: Attachment, programs: Mapping[str, int]) -> None:
    """Attach both hooks, or replace those that are attached the same way."""
    try:
        for hook in HOOKS:
            prog = programs[hook.program]
            if at.kind == tcx.KIND:
                tcx.attach(prog, at.ifindex, hook.tcx_type, pins.link(at.ifindex, hook.program))
            else:
                clsact.attach(prog, at.ifindex, hook.direction, hook.program)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENOLINK):
            raise HostError(
                f"the device {at.interface} vanished while it was attached to"
            ) from error
        raise HostError(f"cannot attach to {at.interface}: {error.strerror}") from error


def detach(pins: Pins, at: Attachment) -> None:
    """Take both hooks off; nothing happens where the device is gone."""
    for hook in HOOKS:
        if at.kind == tcx.KIND:
            tcx.detach(pins.link(at.ifindex, hook.program))
        else:
            clsact.detach(at.ifindex, hook.direction, hook.program)


def attached_program(pins: Pins, at: Attachment, hook: Hook) -> int | None:
    """The id of the program that runs there, or None when none of ours does."""
    if at.kind == tcx.KIND:
        link = tcx.find(pins.link(at.ifindex, hook.program))
        return link.prog_id if link else None
    found = clsact.find(at.ifindex, hook.direction)
    return found.prog_id if found and found.name == hook.program else None
