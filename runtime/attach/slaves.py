# SPDX-License-Identifier: Apache-2.0
"""The programs at pods' ipvlan slaves, at their parents, and at the node's own slaves.

Each device has programs of its own, with its constants (datapath/slaves.bpf.c). Those of a pod's slave
call the hooks by a map, so a new load only has to fill that map. Links are pinned below ROOT/slaves. The
name of a pod's slave there holds its number, which the hooks know it by, as long as the device exists.
"""

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from policyc.runtime.attach import tcx
from policyc.runtime.bundle.bundle import SLAVES_OBJECT, Bundle
from policyc.runtime.endpoints import slaves
from policyc.runtime.endpoints.slaves import Slave
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall, features, namespaces
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Generation
from policyc.runtime.undo import Undo

PREFIX = 1 << 31
"""PC_SLAVE of datapath/flow.h: with a number, what the hooks know a slave by instead of an ifindex."""
FIRST_NUMBER, _STEP, _NUMBERS = 0x100, 0x10, 1 << 16
"""PC_STAMP_SLAVE of datapath/device.h; a number has 16 bits, of which the low four are zero."""
MAP = "pc_slave_hooks"
HOOKS = ("pc_from_slave", "pc_to_slave")
"""The programs of the hooks' object that the map holds, in its order."""
_WAYS: Mapping[str, int] = {
    "out": bpf_syscall.ATTACH_TCX_EGRESS,
    "in": bpf_syscall.ATTACH_TCX_INGRESS,
}
_ALL = frozenset(f"pc_{where}_{way}" for where in ("slave", "parent", "node") for way in _WAYS)
CONSTANTS, MAC_SIZE = ".rodata.device", 6
"""The section of the constants, and the name of its map in the kernel."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where programs are attached: a pod's slave ("slave"), a "parent", or a slave of the node ("node").

    `cookie` and `ifindex` identify the device: of the slave's network namespace, 0 for the node's.
    """

    kind: str
    ifindex: int
    cookie: int = 0
    number: int = 0  # of a pod's slave

    def program(self, way: str) -> str:
        """The program of that direction: "out" or "in"."""
        return f"pc_{self.kind}_{way}"


def require(bundle: Bundle, attach_kind: str) -> None:
    """Raise an error if this bundle or this kernel cannot enforce policies at slaves."""
    if SLAVES_OBJECT not in bundle.digests:
        raise InputError(
            f"{bundle.path}: the bundle has no {SLAVES_OBJECT}",
            "compile it again for pods on ipvlan devices",
        )
    features.TCX.require()
    if attach_kind != tcx.KIND:
        raise InputError(
            "--attach clsact: a pod could remove such hooks from its ipvlan device",
            "leave the option out: hooks are then attached by tcx links",
        )


def numbered(pins: Pins, found: Iterable[Slave]) -> dict[str, int]:
    """What the hooks know the slaves by, by name. A slave keeps its number from load to load."""
    known = {(at.cookie, at.ifindex): at.number for at, _, _ in _pinned(pins)}
    taken = set(known.values())
    free = (each for each in range(FIRST_NUMBER, _NUMBERS, _STEP) if each not in taken)
    numbers = {}
    for slave in found:
        number = known.get((slave.cookie, slave.ifindex)) or next(free, 0)
        if not number:
            raise HostError(f"no number is free for the ipvlan device {slave.name}")
        numbers[slave.name] = PREFIX | number
    return numbers


class Attaching:
    """Attaches the programs of one load."""

    def __init__(self, pins: Pins, bundle: Bundle, undo: Undo, held: ExitStack) -> None:
        self._pins, self._path = pins, bundle.path / SLAVES_OBJECT
        self._undo, self._held = undo, held
        self._layout = Btf.of_object(self._path).struct("pc_slave_device")
        self._netns = namespaces.cookie()

    def fill(self, hooks: Mapping[str, int], before: Mapping[str, int]) -> None:
        """From now on slaves run these hooks; the undo restores those `before`, if there were any."""
        for index, name in enumerate(HOOKS):
            key = struct.pack("=I", index)
            with bpf_syscall.obj_get(self._pins.map(MAP)) as fd:
                if before:
                    self._undo.by(partial(_put, self._pins, key, before[name]))
                bpf_syscall.map_update(fd, key, struct.pack("=I", hooks[name]))

    def make_map(self) -> None:
        """Create the map of the hooks, which the programs share."""
        pin = self._pins.map(MAP)
        if not pin.exists():
            self._undo.by(pin.unlink, True)
            with Object(self._path, self._pins.maps) as loaded:
                loaded.leave_out(_ALL)
                loaded.load()

    def at_parent(self, ifindex: int) -> None:
        """At the parent, before the hooks of the uplink: they translate, and send packets elsewhere."""
        self._attach(Place("parent", ifindex), mac=slaves.mac_of(ifindex))

    def at_node(self, ifindex: int) -> None:
        """At a slave of the node."""
        self._attach(Place("node", ifindex))

    def at_slave(self, slave: Slave, number: int) -> None:
        """At a pod's slave, in its network namespace; `OSError` if it is gone."""
        at = Place("slave", slave.ifindex, slave.cookie, number_of(number))
        slave.run_in(lambda: self._attach_there(at))

    def _attach_there(self, at: Place) -> None:
        """Runs in the slave's namespace. A slave that has these programs is left alone.

        A link follows its device into another namespace. Another device may then have its number here.
        """
        for way, kind in _WAYS.items():
            link = tcx.find(_pin(self._pins, at, way))
            if link and link.prog_id not in bpf_syscall.prog_query_tcx(at.ifindex, kind):
                tcx.detach(_pin(self._pins, at, way))
        if not self._is_attached(at):
            self._attach(at)

    def renew(self, wanted: Iterable[Place]) -> None:
        """Replace the programs of another release at all places but these."""
        others = {at for at, _, _ in attached(self._pins)} - set(wanted)
        for at in sorted(others, key=lambda at: (at.kind, at.cookie, at.ifindex)):
            if not self._is_attached(at):
                mac = slaves.mac_of(at.ifindex) if at.kind == "parent" else b""
                self._attach(at, mac, only_there=True)

    def _is_attached(self, at: Place) -> bool:
        """Whether the place has links with these programs; the constants of a slave never change."""
        for way in _WAYS:
            link = tcx.find(_pin(self._pins, at, way))
            if link is None:
                return False
            with bpf_syscall.prog_by_id(link.prog_id) as fd:
                if bpf_syscall.prog_info(fd).tag != self._tags[at.program(way)]:
                    return False
        return True

    @cached_property
    def _tags(self) -> Mapping[str, str]:
        return tags(self._pins, self._path)

    def _attach(self, at: Place, mac: bytes = b"", *, only_there: bool = False) -> None:
        """With `only_there` no link is made, only those that exist get the programs."""
        self._pins.slaves.mkdir(exist_ok=True)
        with Object(self._path, self._pins.maps) as loaded:
            constants = self._layout.pack(
                netns=self._netns, number=at.number, mac=mac or bytes(MAC_SIZE)
            )
            loaded.set_constants(CONSTANTS, constants)
            loaded.leave_out(_ALL - {at.program(way) for way in _WAYS})
            loaded.load()
            for way, kind in _WAYS.items():
                pin = _pin(self._pins, at, way)
                program, link = loaded.program_fd(at.program(way)), tcx.find(pin)
                if link is not None:
                    before = self._held.enter_context(bpf_syscall.prog_by_id(link.prog_id))
                    self._undo.by(_update, pin, before)
                    _update(pin, program)
                elif not only_there:
                    self._undo.by(tcx.detach, pin)
                    tcx.attach(program, at.ifindex, kind, pin, is_first=at.kind == "parent")


def tags(pins: Pins, path: Path) -> Mapping[str, str]:
    """The tags of the object's programs, as this kernel loads them."""
    with Object(path, pins.maps) as loaded:
        loaded.load()
        return {name: bpf_syscall.prog_info(loaded.program_fd(name)).tag for name in sorted(_ALL)}


def attached(pins: Pins) -> Iterator[tuple[Place, str, int]]:
    """Each place, direction and id of a program that runs."""
    for at, way, pin in _pinned(pins):
        link = tcx.find(pin)
        if link and link.attach_type == _WAYS[way]:
            yield at, way, link.prog_id


def name_of(at: Place, generation: Generation) -> str:
    """The device's name; of a pod's slave, that of its endpoint."""
    if at.kind == "slave":
        named = (each for each in generation.endpoints if each.ifindex == PREFIX | at.number)
        endpoint = next(named, None)
        return (
            endpoint.interface
            if endpoint
            else f"an ipvlan device without an endpoint ({at.number})"
        )
    try:
        return socket.if_indextoname(at.ifindex)
    except OSError:  # it is gone
        return str(at.ifindex)


def unhooked(pins: Pins, generation: Generation) -> Iterator[str]:
    """Slaves of the generation's pods that lack a program."""
    hooked = {(PREFIX | at.number, way) for at, way, _ in attached(pins) if at.kind == "slave"}
    for each in generation.endpoints:
        if is_slave(each.ifindex) and any((each.ifindex, way) not in hooked for way in _WAYS):
            yield each.interface


def number_of(device: int) -> int:
    """The number of a slave, of what the hooks know it by."""
    return device & ~PREFIX


def is_slave(device: int) -> bool:
    """Whether the number of a pod's device is that of a slave, and not an ifindex."""
    return device & PREFIX != 0 and device & ~PREFIX < _NUMBERS


def keep_only(pins: Pins, wanted: Iterable[Place]) -> None:
    """Detach the programs at other parents and slaves of the node.

    Those of pods' slaves stay as long as the device exists: without an endpoint they let no packet pass.
    Then the parents that slaves still have must stay, too.
    """
    kept = {(at.kind, at.ifindex) for at in wanted}
    for at, _, pin in _pinned(pins):
        if at.kind == "slave" and tcx.find(pin) is None:
            tcx.detach(pin)
    if any(at.kind == "slave" for at, _, _ in _pinned(pins)):
        return
    for at, _, pin in _pinned(pins):
        if (at.kind, at.ifindex) not in kept:
            tcx.detach(pin)


def remove(pins: Pins) -> None:
    """Detach all programs: first those at slaves, without which the others drop what slaves send."""
    for kind in ("slave", "node", "parent"):
        for at, _, pin in _pinned(pins):
            if at.kind == kind:
                tcx.detach(pin)


def _update(pin: Path, program: int) -> None:
    """Unlike `tcx.attach` it makes no new link: the pod's device may be gone."""
    with bpf_syscall.obj_get(pin) as link:
        bpf_syscall.link_update(link, program)


def _put(pins: Pins, key: bytes, program: int) -> None:
    with bpf_syscall.obj_get(pins.map(MAP)) as fd:
        bpf_syscall.map_update(fd, key, struct.pack("=I", program))


def _pin(pins: Pins, at: Place, way: str) -> Path:
    return pins.slaves / f"{at.kind}-{at.cookie}-{at.ifindex}-{at.number}-{way}"


def _pinned(pins: Pins) -> list[tuple[Place, str, Path]]:
    found = []
    for pin in sorted(pins.slaves.iterdir()) if pins.slaves.is_dir() else ():
        kind, cookie, ifindex, number, way = pin.name.split("-")
        found.append((Place(kind, int(ifindex), int(cookie), int(number)), way, pin))
    return found
