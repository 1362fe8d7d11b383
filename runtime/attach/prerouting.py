# SPDX-License-Identifier: Apache-2.0
"""The program in netfilter's PREROUTING (datapath/prerouting.bpf.c): the node takes no packet of a pod
that bypassed the hook at the pod's device. Linux 6.4; older kernels do not have it.

There is one link for each IP family, pinned below ROOT/prerouting. The map `pc_hooked` names the devices
with a pod's hooks. A link cannot get another program, so a new one is made before the old one goes.
"""

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.hooked import HookedDevices
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.undo import Undo

PROGRAM = "pc_prerouting"
FAMILIES: Mapping[str, int] = {"IPv4": 2, "IPv6": 10}
"""NFPROTO_* of <linux/netfilter.h>."""
_FIRST = -(1 << 31) + 1
"""The kernel allows no BPF program the very first priority, and no two of them the same one."""
_PRIORITIES = range(_FIRST, _FIRST + 8)


def attach(pins: Pins, program: int, undo: Undo) -> None:
    """Attach to both families, where another program or none of ours runs. The others stay."""
    pins.prerouting.mkdir(exist_ok=True)
    tag = bpf_syscall.prog_info(program).tag
    for name, family in FAMILIES.items():
        if tag not in _tags(pins, name):
            _attach(pins, name, family, program, undo)


def keep_only(pins: Pins, tag: str) -> None:
    """Detach all but the program with this tag; an empty tag is none's."""
    for _, pin, ident in _links(pins):
        with bpf_syscall.prog_by_id(ident) as fd:
            is_kept = bpf_syscall.prog_info(fd).tag == tag
        if not is_kept:
            _detach(pin)


def attached(pins: Pins) -> Iterator[tuple[str, int]]:
    """Each IP family, and the id of a program that runs there."""
    for name, _, ident in _links(pins):
        yield name, ident


def add(pins: Pins, ifindex: int) -> None:
    """The device has a pod's hooks: what comes in there without their stamp is dropped."""
    if HookedDevices.is_there(pins):
        with HookedDevices(pins) as devices:
            try:
                devices.put(devices.number_key(ifindex), PRESENT[: devices.info.value_size])
            except OSError as error:
                if error.errno != errno.E2BIG:
                    raise
                raise HostError(f"more than {devices.max_entries} devices have hooks") from error


def forget(pins: Pins, ifindex: int) -> None:
    """The device has no hooks any more."""
    if HookedDevices.is_there(pins):
        with HookedDevices(pins) as devices:
            devices.delete(devices.number_key(ifindex))


def _attach(pins: Pins, name: str, family: int, program: int, undo: Undo) -> None:
    for priority in _PRIORITIES:
        pin = pins.prerouting / f"{name}-{priority - _FIRST}"
        if pin.exists():
            continue
        try:
            link = bpf_syscall.link_create_netfilter(program, family, priority)
        except OSError as error:
            if error.errno == errno.EBUSY:
                continue
            raise HostError(f"cannot attach to netfilter, {name}: {error.strerror}") from error
        with link as fd:
            undo.by(_detach, pin)
            bpf_syscall.obj_pin(fd, pin)
        return
    raise HostError(f"other BPF programs have the first {len(_PRIORITIES)} places of {name}")


def _detach(pin: Path) -> None:
    """Detach the link, even if other processes hold it, and remove its pin."""
    if pin.exists():
        with bpf_syscall.obj_get(pin) as link:
            bpf_syscall.link_detach(link)
        pin.unlink()


def _tags(pins: Pins, family: str) -> Iterator[str]:
    for name, _, ident in _links(pins):
        if name == family:
            with bpf_syscall.prog_by_id(ident) as fd:
                yield bpf_syscall.prog_info(fd).tag


def _links(pins: Pins) -> Iterator[tuple[str, Path, int]]:
    for pin in sorted(pins.prerouting.iterdir()) if pins.prerouting.is_dir() else ():
        with bpf_syscall.obj_get(pin) as link:
            yield pin.name.partition("-")[0], pin, bpf_syscall.netfilter_link_program(link)
