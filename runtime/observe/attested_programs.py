# SPDX-License-Identifier: Apache-2.0
"""Programs in the kernel beside those of a bundle: their tags, and the map of each instruction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from policyc.runtime.attach import attach, bypass, prerouting, socket_hooks, socket_listing
from policyc.runtime.attach.socket_listing import BYPASSED, REMOVED
from policyc.runtime.bundle.bundle import (
    BYPASS_OBJECT,
    HOOKS_OBJECT,
    POLICY_OBJECT,
    PREROUTING_OBJECT,
    SOCKETS_OBJECT,
    Bundle,
)
from policyc.runtime.kernel import bpf_syscall, features
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Generation

POLICY_PROGRAM = "pc_policy_run"
_READ_ONLY = 1 << 7  # BPF_F_RDONLY_PROG of <linux/bpf.h>

_Own = tuple[int, int, int, int, bytes]
"""An unshared map of an object: kind, sizes of key, value and map, and its constants."""


_Use = tuple[int, str, int]
"""A use of a map in a program: the instruction, the map, the offset into its value."""


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A program's tag; its unshared maps, by name; and which map each of its instructions uses."""

    tag: str
    own: Mapping[str, _Own]
    uses: tuple[_Use, ...]


def _own(fd: int) -> tuple[str, _Own]:
    """A map's name and definition, without the contents that packets write."""
    info = bpf_syscall.map_info(fd)
    constants = b""
    if info.max_entries == 1 and info.flags & _READ_ONLY:
        constants = bpf_syscall.map_lookup(fd, bytes(4), info.value_size) or b""
    sizes = info.key_size, info.value_size, info.max_entries
    return info.name, (info.kind, *sizes, constants)


def _is_own(ident: int, known: Mapping[str, _Own]) -> bool:
    """Whether a map is as the bundle's object makes it."""
    with bpf_syscall.map_by_id(ident) as fd:
        name, found = _own(fd)
    return known.get(name) == found


def _pinned(folder: Path) -> Mapping[int, str]:
    """The maps that are pinned in a folder, by id."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in (POLICY_PROGRAM, bypass.DENIED, *socket_listing.NAMES):
            with bpf_syscall.obj_get(path) as fd:
                found[bpf_syscall.map_info(fd).id] = path.name
    return found


def _uses(fd: int, names: Mapping[int, str]) -> tuple[_Use, ...]:
    """Which map each instruction of a program uses; an unknown map by the kernel's name."""
    return tuple(
        (at, names.get(ident) or f"~{_name_of(ident)}", offset)
        for at, ident, offset in bpf_syscall.prog_map_uses(fd)
    )


def _name_of(ident: int) -> str:
    with bpf_syscall.map_by_id(ident) as fd:
        return bpf_syscall.map_info(fd).name


class Programs:
    """The programs of a bundle, as this kernel loads them, for the generation in force."""

    def __init__(self, pins: Pins, bundle: Bundle, generation: Generation) -> None:
        self.pins, self.bundle, self.generation = pins, bundle, generation

    @property
    def _names(self) -> dict[str, list[str]]:
        """The programs that the generation uses, by object."""
        generation = self.generation
        refusing = [*socket_hooks.CONNECT_HOOKS] if generation.connect_deny else []
        listing = [bypass.DENIED] if generation.bypass else []
        found = {
            HOOKS_OBJECT: list(attach.PROGRAMS),
            POLICY_OBJECT: [POLICY_PROGRAM, *refusing, *listing],
        }
        if generation.bypass:
            found[BYPASS_OBJECT] = [bypass.ADDING, bypass.MESSAGES, BYPASSED.name]
        if PREROUTING_OBJECT in self.bundle.digests and features.NETFILTER.is_there():
            found[PREROUTING_OBJECT] = [prerouting.PROGRAM]
        if self.generation.cgroup:
            found[SOCKETS_OBJECT] = [*socket_hooks.PROGRAMS, REMOVED.name]
        return found

    @cached_property
    def _fresh(self) -> Mapping[str, _Fresh]:
        """The bundle's programs as this kernel loads them."""
        found: dict[str, _Fresh] = {}
        for name, programs in self._names.items():
            with Object(self.bundle.path / name, self.pins.maps) as loaded:
                loaded.leave_out({*socket_hooks.CONNECT_HOOKS, bypass.DENIED} - {*programs})
                loaded.load()
                own = dict(_own(fd) for _, fd in loaded.own_maps())
                titles = {bpf_syscall.map_info(fd).id: each for each, fd in loaded.own_maps()}
                is_hooks = name == HOOKS_OBJECT
                for program in programs:
                    fd = loaded.program_fd(program)
                    uses = _uses(fd, {**self._shared, **({} if is_hooks else titles)})
                    tag = bpf_syscall.prog_info(fd).tag
                    found[program] = _Fresh(tag, own if is_hooks else {}, uses)
        return found

    @cached_property
    def _shared(self) -> Mapping[int, str]:
        """The pinned maps that all generations share, by id."""
        return _pinned(self.pins.maps)

    @cached_property
    def _of_generation(self) -> Mapping[int, str]:
        """The pinned maps of the active generation."""
        return _pinned(self.pins.generation(self.generation.epoch))

    def differences(self, ident: int, name: str, where: str) -> Iterator[str]:
        """Give the differences between a program and the bundle's program of this name."""
        fresh = self._fresh[name]
        with bpf_syscall.prog_by_id(ident) as fd:
            info = bpf_syscall.prog_info(fd)
            known = {**self._shared, **({} if fresh.own else self._of_generation)}
            uses = _uses(fd, known)
            ids = {each for _, each, _ in bpf_syscall.prog_map_uses(fd)} - known.keys()
        if info.tag != fresh.tag:
            yield (
                f"{where}: the program {info.name} (id {ident}) has the tag {info.tag};"
                f" {name} of the bundle has {fresh.tag}"
            )
            return
        strange = [each for each in sorted(ids) if not _is_own(each, fresh.own)]
        for each in strange:
            yield f"{where}: {name} (id {ident}) uses a map that is not pinned here (id {each})"
        if not strange and uses != fresh.uses:
            at, there, _ = next(
                use for use, due in zip(uses, fresh.uses, strict=False) if use != due
            )
            yield f"{where}: {name} (id {ident}) uses {there} at {at}, unlike the bundle's program"
