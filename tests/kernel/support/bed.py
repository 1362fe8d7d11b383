# SPDX-License-Identifier: Apache-2.0
"""Hooks and policy program of the tests, verified once a process and lent to one node at a time.

To verify the hooks takes longer than nearly every test with them: a second, under emulation a minute.
So `Beds.open` stands in for the runtime's `Object`. A root in which nothing is pinned gets the maps of
a bed, wiped; so does the next one when that is gone. Whatever else is loaded, or is to meet maps that
are not the bed's, is loaded as ever. test_bed.py compares a bed that was used with a new one.
"""

import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from unittest import mock

from policyc.runtime.attach import hook_programs
from policyc.runtime.bundle.bundle import (
    HOOKS_OBJECT,
    POLICY_OBJECT,
)
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.load.resources import programs
from policyc.runtime.observe import attested_programs
from tests.kernel.support import map_content
from tests.kernel_corpus.surroundings import temporary_bpffs

WIPE_OBJECT = "wipe.bpf.o"
WIPED_BY_PROGRAM = (
    "pc_place4", "pc_place6", "pc_place4_new", "pc_place6_new", "pc_vteps",
    "pc_snat_place", "pc_snat_frag_place", "pc_frag_place4", "pc_frag_place6",
)  # fmt: skip
"""By wipe.bpf.c, in a hundredth of the time."""
MOST = 2
"""For a lab of two nodes; they take 100 MB each."""
_ANY_FRAME = bytes(64)


class Lent:
    """As `Object`, for loaded programs. Its close() releases nothing."""

    def __init__(self, kept: Object) -> None:
        self._kept = kept
        self.program_fd = kept.program_fd
        self.map_fd = kept.map_fd
        self.own_maps = kept.own_maps

    def load(self) -> None:
        """It is."""

    def leave_out(self, names: Iterable[str]) -> None:
        """It has none of them."""

    def close(self) -> None:
        """The bed has it on."""

    def __enter__(self) -> "Lent":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass
class Bed:
    """The programs of one hooks object, and their maps."""

    hooks: Path
    wiper: Path
    shared: dict[str, int] = field(default_factory=dict)
    """Descriptors of the maps that all generations share, by name."""
    policies: list[Object] = field(default_factory=list)
    """Those that there are so far: one that is in force cannot be filled for the next load."""

    def __post_init__(self) -> None:
        self._held = ExitStack()
        self._programs: Object | None = None
        self._wiper: Object | None = None
        self._shared_memory = mmap.mmap(-1, mmap.PAGESIZE)
        self.digest = _digest(self.hooks)

    def close(self) -> None:
        """Let go of everything."""
        self._held.close()
        self._shared_memory.close()

    @property
    def _lent_to(self) -> Path | None:
        """The root that has its maps: the same in the process that made the bed, and in its children."""
        name = self._shared_memory[:].rstrip(b"\0")
        return Path(os.fsdecode(name)) if name else None

    @_lent_to.setter
    def _lent_to(self, root: Path) -> None:
        self._shared_memory[:] = os.fsencode(root).ljust(mmap.PAGESIZE, b"\0")

    def maps(self) -> Iterator[tuple[str, int]]:
        """Every map of the hooks and of the policy programs, by a name that is its own."""
        yield from self.shared.items()
        if self._programs:
            yield from self._programs.own_maps()
        for at, each in enumerate(self.policies):
            yield from ((f"{at} {name}", fd) for name, fd in each.own_maps())

    @property
    def is_verified(self) -> bool:
        """Whether the kernel has its programs."""
        return self._programs is not None

    def is_free(self) -> bool:
        """Whether the root that has its maps is gone, or emptied."""
        to = self._lent_to
        return to is None or not to.is_dir() or not any(to.iterdir())

    def is_lent_to(self, pin_root: Path) -> bool:
        """Whether every map that is to be pinned there is the bed's."""
        return pin_root == self._lent_to and all(
            _id_of_pin(pin_root / name) == bpf_syscall.map_info(fd).id
            for name, fd in self.shared.items()
        )

    def lend(self, pin_root: Path) -> None:
        """Pin the maps in a root where nothing is pinned; they are as new ones."""
        if self._programs:
            self._wipe()
            for name, fd in self.shared.items():
                bpf_syscall.obj_pin(fd, pin_root / name)
        else:
            self._programs = self._loaded(self.hooks, pin_root)
            self.shared = {
                each.name: self._programs.map_fd(each.name) for each in pin_root.iterdir()
            }
            self._wiper = self._loaded(self.wiper, pin_root)
        self._lent_to = pin_root

    def programs(self) -> Object:
        """The hooks of what is lent."""
        assert self._programs
        return self._programs

    def policy(self, path: Path, pin_root: Path) -> Object:
        """A policy program that no generation of the root has; its maps are as new ones."""
        used = _pinned_programs(pin_root.parent / "generations")
        free = [each for each in self.policies if _program_id(each) not in used]
        if not free:
            free = [self._loaded(path, pin_root)]
            self.policies += free
        for _, fd in free[0].own_maps():
            map_content.wipe(fd)
        return free[0]

    def _wipe(self) -> None:
        assert self._programs and self._wiper
        bpf_syscall.TestRun(self._wiper.program_fd("wipe"))(_ANY_FRAME)
        for name, fd in (*self.shared.items(), *self._programs.own_maps()):
            if name not in WIPED_BY_PROGRAM:
                map_content.wipe(fd)

    def _loaded(self, path: Path, pin_root: Path) -> Object:
        loaded = self._held.enter_context(Object(path, pin_root))
        loaded.load()
        return loaded


@dataclass
class Beds:
    """`objects` are the tests' own. Their hooks are those of bundles, byte by byte."""

    objects: Path
    made: list[Bed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hooks = _digest(self.objects / HOOKS_OBJECT)
        self._policy = _digest(self.objects / POLICY_OBJECT)

    def prepare(self) -> None:
        """Verify the hooks, if no bed is free, so that a child that is forked now need not."""
        bed = self._free()
        if bed and not bed.is_verified:
            with temporary_bpffs() as root:
                root.mkdir()
                bed.lend(root)

    def open(self, path: Path, pin_root: Path) -> Object | Lent:
        """What `Object(path, pin_root)` would be."""
        digest = _digest(path)
        lent = next((bed for bed in self.made if bed.is_lent_to(pin_root)), None)
        if lent and digest == self._policy:
            return Lent(lent.policy(path, pin_root))
        if lent is None and digest == self._hooks and not any(pin_root.iterdir()):
            lent = self._free()
            if lent:
                lent.lend(pin_root)
        return Lent(lent.programs()) if lent and lent.digest == digest else Object(path, pin_root)

    def close(self) -> None:
        """Let go of everything."""
        for bed in self.made:
            bed.close()

    def _free(self) -> Bed | None:
        """A bed without a user. None if there are enough of them."""
        free = [bed for bed in self.made if bed.is_free()]
        if not free and len(self.made) < MOST:
            free = [Bed(self.objects / HOOKS_OBJECT, self.objects / WIPE_OBJECT)]
            self.made += free
        return free[0] if free else None


@contextmanager
def loads_open(opener: Callable[[Path, Path], Object | Lent]) -> Iterator[None]:
    """Loads of this process open their objects so, by `Beds.open` or as ever."""
    with (
        mock.patch.object(hook_programs, "Object", opener),
        mock.patch.object(programs, "Object", opener),
        mock.patch.object(attested_programs, "Object", opener),
    ):
        yield


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _id_of_pin(path: Path) -> int:
    """Of a map; 0: nothing is pinned there."""
    try:
        with bpf_syscall.obj_get(path) as fd:
            return bpf_syscall.map_info(fd).id
    except FileNotFoundError:
        return 0


def _program_id(policy: Object) -> int:
    return bpf_syscall.prog_info(policy.program_fd(programs.POLICY_PROGRAM)).id


def _pinned_programs(generations: Path) -> set[int]:
    """The ids of the policy programs of the generations that have pins."""
    found = set()
    for pin in generations.glob(f"*/{programs.POLICY_PROGRAM}"):
        with bpf_syscall.obj_get(pin) as fd:
            found.add(bpf_syscall.prog_info(fd).id)
    return found
