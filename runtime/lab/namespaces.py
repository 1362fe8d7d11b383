# SPDX-License-Identifier: Apache-2.0
"""A lab's named network namespaces, lock and bpffs; removes those that dead labs left.

All names begin with `pclab-` and the lab's random suffix. A lab holds an advisory lock while its process
lives. So a namespace whose lab's lock is free has no owner.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from policyc.runtime.lab.children import LabError, call, check, libc, unshare_network

PREFIX = "pclab-"
NAMESPACES = Path("/run/netns")  # where iproute2 looks, so that `ip netns` shows a lab
STATE = Path("/run/policyc-lab")

_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{6}}-")  # other programs' `pclab-` is not ours to remove
_MS_BIND, _MS_REC, _MS_SHARED = 0x1000, 0x4000, 0x100000
_MNT_DETACH = 2
_GATE = "gate"  # the file locked around claims and sweeps


@contextlib.contextmanager
def claimed_suffix() -> Iterator[str]:
    """A suffix no other lab has, locked while the context is open."""
    with _exclusive():
        suffix = secrets.token_hex(3)
        lock = os.open(_lock_file(suffix), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield suffix
    finally:
        _lock_file(suffix).unlink(missing_ok=True)
        os.close(lock)


def create_namespaces(suffix: str, names: Sequence[str]) -> dict[str, Path]:
    """New, empty network namespaces: the file of each, by the name given."""
    paths = {name: NAMESPACES / f"{PREFIX}{suffix}-{name}" for name in names}
    NAMESPACES.mkdir(parents=True, exist_ok=True)
    _make_shared_mount(NAMESPACES)
    call(lambda: _bind_new_namespaces(paths.values()))
    return paths


def mount_bpffs(suffix: str) -> Path:
    """A BPF file system of this lab's own: what is pinned there goes when the lab does."""
    place = STATE / suffix
    place.mkdir(parents=True, exist_ok=True)
    check(libc().mount(b"bpf", os.fsencode(place), b"bpf", 0, None), f"mount bpffs on {place}")
    return place


def remove_lab(suffix: str) -> None:
    """Remove the namespaces and the bpffs of one lab, as far as they exist.

    The kernel removes the links, addresses and routes inside; a process still running in a
    namespace keeps it alive, without a name. `LabError` if a namespace's file cannot be removed; all
    others are.
    """
    busy = [path for path in NAMESPACES.glob(f"{PREFIX}{suffix}-*") if not _is_removed(path)]
    place = STATE / suffix
    if place.exists():
        libc().umount2(os.fsencode(place), _MNT_DETACH)
        place.rmdir()
    if busy:
        raise LabError(
            f"cannot remove {busy[0]}: another mount over {NAMESPACES} hides the lab's own"
        )


def _is_removed(path: Path) -> bool:
    """Unmount all that is mounted there, and remove the file; False if a hidden mount is left."""
    is_mounted = True
    while is_mounted:
        is_mounted = libc().umount2(os.fsencode(path), _MNT_DETACH) == 0
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def remove_stale_labs() -> tuple[str, ...]:
    """Remove every lab whose process is gone; their suffixes. Labs in use are not touched.

    A lab that cannot be removed stays, and prevents no new one.
    """
    with _exclusive():
        stale = _stale()
        for suffix in stale:
            with contextlib.suppress(LabError):
                remove_lab(suffix)
            _lock_file(suffix).unlink(missing_ok=True)
    return stale


def stale_labs() -> tuple[str, ...]:
    """The suffixes of labs whose process is gone, but which left something."""
    with _exclusive():
        return _stale()


def lab_namespaces() -> tuple[str, ...]:
    """The names of all labs' namespaces on this machine."""
    return tuple(sorted(path.name for path in NAMESPACES.glob("*") if _NAME.match(path.name)))


def _make_shared_mount(folder: Path) -> None:
    """Make the folder a shared mount under its lock, as `ip netns add` does.

    Otherwise that command does so later, and copies the mounts of labs: `remove_lab` would then remove
    the copies alone.
    """
    place, shared = os.fsencode(folder), _MS_SHARED | _MS_REC
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if libc().mount(b"", place, b"none", shared, None):
            check(libc().mount(place, place, b"none", _MS_BIND | _MS_REC, None), f"mount {folder}")
            check(libc().mount(b"", place, b"none", shared, None), f"share {folder}")
    finally:
        os.close(lock)


def _bind_new_namespaces(paths: Iterable[Path]) -> None:
    for path in paths:
        unshare_network()
        path.touch(exist_ok=False)
        target = os.fsencode(path)
        check(libc().mount(b"/proc/thread-self/ns/net", target, None, _MS_BIND, None), str(path))


def _stale() -> tuple[str, ...]:
    return tuple(sorted(suffix for suffix in _suffixes() if not _is_held(suffix)))


def _suffixes() -> set[str]:
    named = {name.removeprefix(PREFIX).split("-")[0] for name in lab_namespaces()}
    return named | {path.stem for path in STATE.iterdir() if path.name != _GATE}


def _is_held(suffix: str) -> bool:
    try:
        lock = os.open(_lock_file(suffix), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    """Held while labs are claimed or swept, so that a starting lab never counts as dead."""
    STATE.mkdir(parents=True, exist_ok=True)
    gate = os.open(STATE / _GATE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


def _lock_file(suffix: str) -> Path:
    return STATE / f"{suffix}.lock"
