# SPDX-License-Identifier: Apache-2.0
"""The program of both sides of pods' netkit devices (Linux 6.7).

The hooks of such a device are attached by tcx, as those of a veth. This program passes all: a device
with the policy "blackhole" is closed until each side has a program. Links are pinned below ROOT/netkit.
"""

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from policyc.runtime.attach import tcx
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.undo import Undo

PROGRAM = "pc_netkit"
SIDES: Mapping[str, int] = {
    "primary": bpf_syscall.ATTACH_NETKIT_PRIMARY,
    "peer": bpf_syscall.ATTACH_NETKIT_PEER,
}
"""The types of attachment."""
_GONE = (errno.ENODEV, errno.ENOLINK)


def attach(
    pins: Pins, devices: Mapping[str, int], program: int, before: int | None, undo: Undo
) -> None:
    """Attach to these devices, or replace the program there. `before` ran until now, for the undo.

    A device that goes meanwhile is left out.
    """
    if devices:
        pins.netkit.mkdir(exist_ok=True)
    for name, ifindex in devices.items():
        for side, kind in SIDES.items():
            pin = _pin(pins, ifindex, side)
            if tcx.find(pin) is None or before is None:
                undo.by(tcx.detach, pin)
            else:
                undo.by(tcx.attach, before, ifindex, kind, pin)
            try:
                tcx.attach(program, ifindex, kind, pin)
            except OSError as error:
                if error.errno not in _GONE:
                    raise HostError(f"cannot attach to {name}: {error.strerror}") from error


def keep_only(pins: Pins, devices: Iterable[int]) -> None:
    """Detach the program from all other devices."""
    kept = set(devices)
    for pin in _links(pins):
        if _of(pin)[0] not in kept:
            tcx.detach(pin)


def attached(pins: Pins) -> Iterator[tuple[str, str, int]]:
    """Device, side and id of each program that runs. The kernel's link names the device of its side."""
    for pin in sorted(_links(pins)):
        ifindex, side = _of(pin)
        with suppress(OSError):  # the device is gone
            link = tcx.find(pin)
            if link and link.attach_type == SIDES.get(side):
                yield socket.if_indextoname(ifindex), side, link.prog_id


def _pin(pins: Pins, ifindex: int, side: str) -> Path:
    return pins.netkit / f"{ifindex}-{side}"


def _of(pin: Path) -> tuple[int, str]:
    ifindex, _, side = pin.name.partition("-")
    return int(ifindex), side


def _links(pins: Pins) -> list[Path]:
    return list(pins.netkit.iterdir()) if pins.netkit.is_dir() else []
