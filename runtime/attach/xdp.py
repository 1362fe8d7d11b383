# SPDX-License-Identifier: Apache-2.0
"""The XDP program at each uplink (datapath/xdp.bpf.c).

It forwards known packets of external clients to other nodes, before the kernel allocates an skb.

All other packets go on to tc, which does the same. So packets are not lost while the program is
detached. Links are pinned below ROOT/xdp, by device. A program of another owner is never replaced.
"""

import errno
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.bundle.bundle import (
    XDP_OBJECT,
    Bundle,
)
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import (
    bpf_syscall,
    rtnetlink,
)
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.xdp import DescribedUplink, XdpCounts, XdpUplinks
from policyc.runtime.snat import snat
from policyc.runtime.state import Warn
from policyc.runtime.undo import Undo

Mode = Literal["auto", "native", "generic"]
"""Where the program runs: in the device's driver, or in the kernel's generic hook.

auto: in the driver of a hardware device, if it supports that. The peer of a veth may not receive what a
veth driver sends.
"""
PROGRAM = "pc_xdp_from"
_FLAGS: Mapping[bool, int] = {True: 1 << 1, False: 1 << 2}  # is_generic -> XDP_FLAGS_*_MODE
_TAKEN = (errno.EBUSY, errno.EEXIST)
_GONE = (errno.ENODEV, errno.ENOLINK)


@dataclass(frozen=True, slots=True)
class XdpUplink:
    """An uplink where the program runs, and its packet counts since it was attached there."""

    interface: str
    mode: str  # "native" or "generic"
    requests: int  # of clients, to other nodes
    answers: int  # of other nodes, to clients


def require_uplinks(
    mode: Mode | None, uplinks: Collection[str], has_host_policy: bool, note: Warn
) -> None:
    """Raise `InputError` if there is no uplink; give a note if policies leave the program no work."""
    if mode is None:
        return
    if has_host_policy:
        note(
            "--xdp forwards no packets here: this node is under host policy, which only the tc "
            "hooks enforce"
        )
    if not uplinks:
        raise InputError(
            "--xdp needs the device that external clients reach",
            "name it with --uplink; `ip route` shows the device",
        )


def attach(
    pins: Pins,
    bundle: Bundle,
    uplinks: Mapping[str, int],
    own: Sequence[Address],
    mode: Mode | None,
    note: Warn,
    held: ExitStack,
    undo: Undo,
) -> None:
    """Attach to these devices, or replace our programs there; `mode` None: to no device.

    `own` are the node's addresses. `held` keeps the previous programs open, in case they are restored.
    """
    if mode is None:
        return
    if XDP_OBJECT not in bundle.digests:
        raise InputError(
            f"{bundle.path}: the bundle has no {XDP_OBJECT}", "compile it again for --xdp"
        )
    known = {path.name for path in pins.maps.iterdir()}
    undo.by(_remove_new_maps, pins, known)
    with Object(bundle.path / XDP_OBJECT, pins.maps) as loaded:
        loaded.load()
        pins.xdp.mkdir(exist_ok=True)
        for name, ifindex in uplinks.items():
            at = _Device(pins, name, ifindex, loaded.program_fd(PROGRAM))
            is_generic = at.attach(mode, note, held, undo)
            at.describe(snat.listed_addresses(ifindex, own, "--xdp"), is_generic, undo)


def keep_only(pins: Pins, devices: Iterable[int]) -> None:
    """Detach the program from all other devices, and drop their counters."""
    kept = set(devices)
    for pin in _links(pins):
        if int(pin.name) not in kept:
            _take_off(pin)
    if not XdpUplinks.is_there(pins):
        return
    with XdpUplinks(pins) as uplinks:
        for device in uplinks.described():
            if device not in kept:
                uplinks.delete(uplinks.number_key(device))


def attached(pins: Pins) -> dict[str, int]:
    """Device -> the id of the program that runs there."""
    found = {}
    for pin in _links(pins):
        with bpf_syscall.obj_get(pin) as fd:
            info = bpf_syscall.link_info(fd)
        if info.ifindex:
            found[_name(info.ifindex)] = info.prog_id
    return found


def uplinks(pins: Pins, sums: Sequence[tuple[int, ...]]) -> tuple[XdpUplink, ...]:
    """The uplinks where it runs; `sums` are the entries of `XdpCounts`, summed over all CPUs."""
    running = attached(pins)
    found = ((_name(ifindex), each) for ifindex, each in sorted(_described(pins).items()))
    return tuple(
        XdpUplink(name, "generic" if each.is_generic else "native", *sums[each.place])
        for name, each in found
        if name in running
    )


@dataclass(frozen=True, slots=True)
class _Before:
    """The program that ran at a device before this load."""

    program: int
    is_generic: bool


class _Device:
    """One uplink, and the program to run there."""

    def __init__(self, pins: Pins, name: str, ifindex: int, program: int) -> None:
        self._pins, self._name, self._ifindex, self._program = pins, name, ifindex, program
        self._pin = pins.xdp / str(ifindex)
        self._described = _described(pins).get(ifindex)

    def attach(self, mode: Mode, note: Warn, held: ExitStack, undo: Undo) -> bool:
        """Attach, and tell whether it runs in generic mode: as requested, or as the driver allows."""
        is_generic = mode == "generic" or (mode == "auto" and _is_made_by_kernel(self._ifindex))
        before = self._before(held)
        undo.by(self._restore, before)
        if before and before.is_generic == is_generic:
            try:
                with bpf_syscall.obj_get(self._pin) as link:
                    bpf_syscall.link_update(link, self._program)
            except OSError as error:
                raise self._refused(error) from error
            return is_generic
        _take_off(self._pin)
        try:
            self._create(self._program, is_generic)
        except OSError as error:
            if error.errno in (*_TAKEN, *_GONE) or mode != "auto" or is_generic:
                raise self._refused(error) from error
            note(
                f"--xdp: {self._name} uses generic XDP, because its driver cannot run it: "
                f"{error.strerror}"
            )
            return self.attach("generic", note, held, undo)
        return is_generic

    def describe(self, addresses: Mapping[int, Address], is_generic: bool, undo: Undo) -> None:
        """Write what the program needs to know of the device. An existing counter continues."""
        place = self._described.place if self._described else self._free_place()
        with XdpUplinks(self._pins) as uplinks:
            value = uplinks.value_of(addresses, _mac(self._ifindex), is_generic, place)
            uplinks.replace(uplinks.number_key(self._ifindex), value, undo)

    def _free_place(self) -> int:
        taken = {each.place for each in _described(self._pins).values()}
        with XdpCounts(self._pins) as counts:
            place = next((each for each in range(counts.max_entries) if each not in taken), None)
            if place is None:
                raise HostError(
                    f"no free counter for {self._name}: interrupted loads left uplinks",
                    "load without --xdp first",
                )
            counts.reset(place)
        return place

    def _before(self, held: ExitStack) -> _Before | None:
        """The link of the previous load; None also if its device is gone."""
        if not self._pin.exists() or self._described is None:
            return None
        with bpf_syscall.obj_get(self._pin) as link:
            info = bpf_syscall.link_info(link)
        if not info.ifindex:
            return None
        program = held.enter_context(bpf_syscall.prog_by_id(info.prog_id))
        return _Before(program, self._described.is_generic)

    def _restore(self, before: _Before | None) -> None:
        _take_off(self._pin)
        if before:
            self._create(before.program, before.is_generic)

    def _create(self, program: int, is_generic: bool) -> None:
        with bpf_syscall.link_create_xdp(program, self._ifindex, _FLAGS[is_generic]) as link:
            bpf_syscall.obj_pin(link, self._pin)

    def _refused(self, error: OSError) -> HostError:
        if error.errno in _GONE:
            return HostError(f"the device {self._name} vanished while it was attached to")
        if error.errno in _TAKEN:
            return HostError(
                f"another XDP program is attached to {self._name}; policyc does not replace it",
                f"`ip link show {self._name}` names it; detach it, or load without --xdp",
            )
        return HostError(
            f"cannot attach the XDP program to {self._name}: {error.strerror}",
            "the driver may not support XDP, or not at this MTU: try --xdp generic",
        )


def _take_off(pin: Path) -> None:
    """Detach at once: an unpinned link would stay until the kernel frees it."""
    if not pin.exists():
        return
    with bpf_syscall.obj_get(pin) as fd, suppress(OSError):  # the device may be gone
        bpf_syscall.link_detach(fd)
    pin.unlink()


def _links(pins: Pins) -> list[Path]:
    """The links, by device number. In the root of a bpffs, tc has a folder of this name, too."""
    found = pins.xdp.iterdir() if pins.xdp.is_dir() else ()
    return [pin for pin in found if pin.name.isdecimal()]


def _described(pins: Pins) -> dict[int, DescribedUplink]:
    """Each device, with what the program knows of it."""
    if not XdpUplinks.is_there(pins):
        return {}
    with XdpUplinks(pins) as uplinks:
        return uplinks.described()


def _is_made_by_kernel(ifindex: int) -> bool:
    """Whether it is a veth, bridge, bond or similar: a device without a hardware driver."""
    about = _link(ifindex).get_attr(
        "IFLA_LINKINFO"
    )  # a port of a bond has it as well, without a kind
    return about is not None and about.get_attr("IFLA_INFO_KIND") is not None


def _mac(ifindex: int) -> bytes:
    return bytes.fromhex(_link(ifindex).get_attr("IFLA_ADDRESS").replace(":", ""))


def _link(ifindex: int) -> Any:
    with rtnetlink.connection("--xdp") as netlink:
        (link,) = netlink.link("get", index=ifindex)
    return link


def _name(ifindex: int) -> str:
    try:
        return socket.if_indextoname(ifindex)
    except OSError:  # the device is gone
        return ""


def _remove_new_maps(pins: Pins, known: set[str]) -> None:
    for path in pins.maps.iterdir():
        if path.name not in known:
            path.unlink()
