# SPDX-License-Identifier: Apache-2.0
"""The programs of both sides of pods' netkit devices (Linux 6.7; datapath/from_netkit.h).

The hooks at such a device are attached by tcx, as at a veth, and policy holds by them. The program at
the peer's side is a shorter way out for packets of known connections. The one at the primary side passes
all. A device with the policy "blackhole" is closed until each side has a program. Links are pinned below
ROOT/netkit.
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

SIDES: Mapping[str, int] = {
    "pc_to_netkit": bpf_syscall.ATTACH_NETKIT_PRIMARY,
    "pc_from_netkit": bpf_syscall.ATTACH_NETKIT_PEER,
}
"""The program of each side, and its type of attachment."""
_GONE = (errno.ENODEV, errno.ENOLINK)


def attach(
    pins: Pins,
    devices: Mapping[str, int],
    programs: Mapping[str, int],
    before: Mapping[str, int],
    undo: Undo,
) -> None:
    """Attach to these devices, or replace the programs there. `before` ran until now, for the undo.

    A device that goes meanwhile is left out.
    """
    if devices:
        pins.netkit.mkdir(exist_ok=True)
    for name, ifindex in devices.items():
        for program, side in SIDES.items():
            pin = _pin(pins, ifindex, program)
            if tcx.find(pin) is None or program not in before:
                undo.by(tcx.detach, pin)
            else:
                undo.by(tcx.attach, before[program], ifindex, side, pin)
            try:
                tcx.attach(programs[program], ifindex, side, pin)
            except OSError as error:
                if error.errno not in _GONE:
                    raise HostError(f"cannot attach to {name}: {error.strerror}") from error


def keep_only(pins: Pins, devices: Iterable[int]) -> None:
    """Detach the programs from all other devices."""
    kept = set(devices)
    for pin in _links(pins):
        if _of(pin)[0] not in kept:
            tcx.detach(pin)


def attached(pins: Pins) -> Iterator[tuple[str, str, int]]:
    """Device, name and id of each program that runs. The kernel's link names the device of its side."""
    for pin in sorted(_links(pins)):
        ifindex, program = _of(pin)
        with suppress(OSError):  # the device is gone
            link = tcx.find(pin)
            if link and link.attach_type == SIDES.get(program):
                yield socket.if_indextoname(ifindex), program, link.prog_id


def _pin(pins: Pins, ifindex: int, program: str) -> Path:
    return pins.netkit / f"{ifindex}-{program}"


def _of(pin: Path) -> tuple[int, str]:
    ifindex, _, program = pin.name.partition("-")
    return int(ifindex), program


def _links(pins: Pins) -> list[Path]:
    return list(pins.netkit.iterdir()) if pins.netkit.is_dir() else []
