# SPDX-License-Identifier: Apache-2.0
"""The network namespace that a bpffs root belongs to: pins are named by ifindexes of that namespace.

In another namespace the same numbers are other devices. A load there would take the pins for its own and
leave its pods unprotected.
"""

import glob
from collections.abc import Iterator
from pathlib import Path

from policyc.runtime.attach import tcx
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import namespaces
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import StateDir, Warn

_HERE = Path("/proc/thread-self/ns/net")
_PROC = Path("/proc")


def here() -> str:
    """The network namespace of this thread, as DEVICE:INODE:COOKIE.

    The kernel reuses the inode number of a namespace that is gone, and never its cookie.
    """
    found = _HERE.stat()
    return f"{found.st_dev}:{found.st_ino}:{namespaces.cookie()}"


def require_here(where: Pins, state: StateDir) -> None:
    """Raise `HostError` if the loaded generation below this root is in another network namespace."""
    loaded_in = _elsewhere(where, state)
    if loaded_in is None:
        return
    if _exists(loaded_in, where):
        hint = "run it there (nsenter --net=FILE), or give this namespace another --bpffs"
    else:
        hint = "that namespace no longer exists: run `policyc node unload`, then load again"
    raise HostError(f"{where.root} belongs to the network namespace {_shown(loaded_in)}", hint)


def is_reachable(where: Pins, state: StateDir, warn: Warn) -> bool:
    """Whether the devices are in this namespace. False, with a warning, if their namespace is gone."""
    loaded_in = _elsewhere(where, state)
    if loaded_in is None:
        return True
    if _exists(loaded_in, where):
        require_here(where, state)
    warn(
        f"the network namespace {_shown(loaded_in)}, where this was loaded, no longer exists: "
        "only pins and records are removed"
    )
    return False


def _elsewhere(where: Pins, state: StateDir) -> str | None:
    """The namespace on record, if it is not this one."""
    recorded = state.network()
    if not recorded or not where.is_there():
        return None
    present = here() if _cookie(recorded) else here().rpartition(":")[0]
    return recorded if recorded != present else None


def _cookie(name: str) -> int:
    """0: an earlier release has recorded the namespace, without its cookie."""
    fields = name.split(":")
    return int(fields[2]) if len(fields) > 2 else 0


def _shown(name: str) -> str:
    """The form that `readlink /proc/PID/ns/net` shows."""
    return f"net:[{name.split(':')[1]}]"


def _exists(name: str, where: Pins) -> bool:
    """Whether one of our devices is there, or a process, an open file or a mount holds the namespace.

    Links work as evidence even in a container, where other processes are hidden.
    """
    links = where.links.iterdir() if where.links.is_dir() else ()
    if any(tcx.find(pin) is not None for pin in links):
        return True
    shown, cookie = _shown(name), _cookie(name)
    return any(not cookie or _has_cookie(path, cookie) for path in _holders(shown))


def _has_cookie(path: Path, cookie: int) -> bool:
    """Whether the file is that of this namespace, and not of a later one with the same number.

    True if this process may not ask.
    """
    try:
        with path.open("rb") as namespace:
            return namespaces.run_in(namespace.fileno(), namespaces.cookie) == cookie
    except PermissionError:
        return True
    except OSError:  # the process has ended, or the mount is gone
        return False


def _holders(shown: str) -> Iterator[Path]:
    """The files of namespaces with this number."""
    for pattern in ("[0-9]*/task/[0-9]*/ns/net", "[0-9]*/fd/*"):
        yield from (path for path in _found(pattern) if _link(path) == shown)
    seen: set[str] = set()
    for process in _found("[0-9]*"):
        mounts = _link(process / "ns" / "mnt")
        if mounts not in seen:
            seen.add(mounts)
            yield from _mounted(process, shown)


def _mounted(process: Path, shown: str) -> Iterator[Path]:
    """The mount points of such files where this process lives."""
    try:
        found = [*namespaces.mounts(process / "mountinfo", shown)]
    except OSError:  # the process ended meanwhile
        return
    for path in found:
        yield process / "root" / path.relative_to("/")


def _found(pattern: str) -> Iterator[Path]:
    # Path.glob raises if a process ends while it iterates (Python 3.11).
    return map(Path, glob.iglob(f"{_PROC}/{pattern}"))  # noqa: PTH207


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # the process ended meanwhile
        return ""
