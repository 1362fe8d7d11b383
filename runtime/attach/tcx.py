# SPDX-License-Identifier: Apache-2.0
"""Attaches by tcx links (Linux 6.6): pinned, so that they outlive the command, and replaced in place.

An unpinned link would let all packets pass as soon as the loader dies.
"""

import errno
import time
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.bpf_syscall import LinkInfo

KIND = "tcx"
_WAITS, _WAIT = 50, 0.02  # a second, in seconds


def attach(prog: int, ifindex: int, attach_type: int, pin: Path, *, is_first: bool = False) -> None:
    """Attach to a device, behind or before other programs, or replace the program of the pinned link."""
    if pin.exists():
        with bpf_syscall.obj_get(pin) as link:
            try:
                bpf_syscall.link_update(link, prog)
            except OSError as error:
                # ENOLINK: the device is gone; a new device may already have its number.
                if error.errno != errno.ENOLINK:
                    raise
            else:
                return
        pin.unlink()
    with _created(prog, ifindex, attach_type, is_first) as link:
        bpf_syscall.obj_pin(link, pin)


def _created(prog: int, ifindex: int, attach_type: int, is_first: bool) -> bpf_syscall.Fd:
    """Create a link. A link whose pin was just removed may still exist, as the kernel frees it later.

    A program can be attached to a device only once (EEXIST), so this waits. A link that stays belongs to
    another program.
    """
    for _ in range(_WAITS):
        try:
            return bpf_syscall.link_create_tcx(prog, ifindex, attach_type, is_first=is_first)
        except FileExistsError:
            time.sleep(_WAIT)
    return bpf_syscall.link_create_tcx(prog, ifindex, attach_type, is_first=is_first)


def detach(pin: Path) -> None:
    """Detach the link from its device, and remove its pin. Does nothing if there is none."""
    if not pin.exists():
        return
    with bpf_syscall.obj_get(pin) as link:
        try:
            bpf_syscall.link_detach(link)
        except OSError as error:
            if error.errno != errno.ENOLINK:
                raise
    pin.unlink()


def find(pin: Path) -> LinkInfo | None:
    """The link as the kernel reports it; None if there is none, or its device is gone."""
    if not pin.exists():
        return None
    with bpf_syscall.obj_get(pin) as link:
        info = bpf_syscall.link_info(link)
    return info if info.ifindex else None
