# SPDX-License-Identifier: Apache-2.0
"""The hook programs: those that already run, or the bundle's if these differ.

A replaced program gets a pin of its own until the switch, so that it can be restored. If a load finds
such a pin, an earlier load died: then it is unknown which of both programs runs at which device.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.attach import attach, slaves
from policyc.runtime.bundle.bundle import (
    BYPASS_OBJECT,
    HOOKS_OBJECT,
    POLICY_OBJECT,
    PREROUTING_OBJECT,
    SLAVES_OBJECT,
    SOCKETS_OBJECT,
    XDP_OBJECT,
    Bundle,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps import bypass, sockets
from policyc.runtime.maps.xdp import XdpCounts, XdpUplinks
from policyc.runtime.undo import Undo

_NAMES = attach.PROGRAMS
_OBJECTS = (
    HOOKS_OBJECT,
    POLICY_OBJECT,
    SOCKETS_OBJECT,
    BYPASS_OBJECT,
    XDP_OBJECT,
    SLAVES_OBJECT,
    PREROUTING_OBJECT,
)
_NAME_SIZE = 15  # the kernel cuts off the rest (BPF_OBJ_NAME_LEN)
_OPTIONAL = (
    *(sockets.SocketHost.NAME, sockets.SocketPods.NAME, sockets.SocketServices.NAME, sockets.PEERS),
    *(XdpUplinks.NAME, XdpCounts.NAME, slaves.MAP),
    *bypass.MAPS,
)
"""Maps that stay in use where a later bundle has no such object."""


@dataclass(frozen=True, slots=True)
class HookPrograms:
    """Descriptors by name; `before` are the programs that ran until now, all of them or none."""

    programs: Mapping[str, int]
    before: Mapping[str, int]
    are_new: bool


@contextmanager
def opened(pins: Pins, bundle: Bundle, running_digest: str, undo: Undo) -> Iterator[HookPrograms]:
    """Open the programs that are to run. `running_digest` is that of the object loaded before, or ""."""
    with ExitStack() as held:
        before = {
            name: held.enter_context(bpf_syscall.obj_get(pin))
            for name in _NAMES
            if (pin := _last_pin(pins, name)) is not None
        }
        if len(before) < len(_NAMES):
            before = {}
        put_aside = any(_aside(pins, name).exists() for name in _NAMES)
        if before and not put_aside and running_digest == bundle.digests[HOOKS_OBJECT]:
            yield HookPrograms(before, before, are_new=False)
            return
        _require_known_maps(pins, bundle)
        loaded = held.enter_context(Object(bundle.path / HOOKS_OBJECT, pins.maps))
        loaded.load()
        programs = {name: loaded.program_fd(name) for name in _NAMES}
        for name, fd in programs.items():
            _pin(pins, name, fd, undo)
        yield HookPrograms(programs, before, are_new=True)


def require_shared_maps(pins: Pins) -> None:
    """Raise `HostError` if a map that the pinned hooks share has lost its pin.

    libbpf would make another map of that name. Commands would write it, and the hooks would go on with
    theirs: an old policy would stay in force.
    """
    used: set[int] = set()
    for pin in map(pins.hook, _NAMES):
        if pin.exists():
            with bpf_syscall.obj_get(pin) as fd:
                used |= bpf_syscall.prog_map_ids(fd)
    lost = sorted(filter(None, map(_shared_name, used - _pinned_ids(pins))))
    if lost:
        raise HostError(
            f"this node is partly loaded: its hooks use maps without their pin: {', '.join(lost)}",
            "run `policyc node unload`, then load again",
        )


def _pinned_ids(pins: Pins) -> set[int]:
    found = set()
    for pin in pins.maps.iterdir() if pins.maps.is_dir() else ():
        with bpf_syscall.obj_get(pin) as fd:
            found.add(bpf_syscall.map_info(fd).id)
    return found


def _shared_name(ident: int) -> str:
    """The name of a map that its object declares as shared; empty for others."""
    with bpf_syscall.map_by_id(ident) as fd:
        info = bpf_syscall.map_info(fd)
        shared = Btf.of_map(fd).pinned_map_names() if info.btf_id else ()
    return next((name for name in shared if name[:_NAME_SIZE] == info.name), "")


def _require_known_maps(pins: Pins, bundle: Bundle) -> None:
    """Raise `HostError` if there are maps of other names: the new hooks would begin without theirs.

    Connections, SNAT ports and Services would be lost without a word.
    """
    objects = [bundle.path / name for name in _OBJECTS if name in bundle.digests]
    known = frozenset(_OPTIONAL).union(*(Btf.of_object(each).map_names() for each in objects))
    unknown = sorted(pin.name for pin in pins.maps.iterdir() if pin.name not in known)
    if unknown:
        raise HostError(
            f"another release of policyc made the maps in use: {', '.join(unknown)}",
            "run `policyc node unload`, then load again",
        )


def forget_replaced(pins: Pins) -> None:
    """Drop the replaced programs: they are not restored any more."""
    for name in _NAMES:
        _aside(pins, name).unlink(missing_ok=True)


def _last_pin(pins: Pins, name: str) -> Path | None:
    """The path of the program's pin; the aside pin only if a load died between moving and pinning."""
    for pin in (pins.hook(name), _aside(pins, name)):
        if pin.exists():
            return pin
    return None


def _aside(pins: Pins, name: str) -> Path:
    return pins.hook(f"{name}-before")


def _pin(pins: Pins, name: str, fd: int, undo: Undo) -> None:
    """Pin the new program in place of the old one, which is restored if the load fails."""
    pin, aside = pins.hook(name), _aside(pins, name)
    if pin.exists():
        pin.rename(aside)
        undo.by(aside.rename, pin)
    else:
        undo.by(pin.unlink, True)
    bpf_syscall.obj_pin(fd, pin)
