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
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import StateDir, Warn

_HERE = Path("/proc/thread-self/ns/net")
_PROC = Path("/proc")


def here() -> str:
    """The network namespace of this thread, as DEVICE:INODE of its file."""
    found = _HERE.stat()
    return f"{found.st_dev}:{found.st_ino}"


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
    return recorded if recorded and where.is_there() and recorded != here() else None


def _shown(name: str) -> str:
    """The form that `readlink /proc/PID/ns/net` shows."""
    return f"net:[{name.rpartition(':')[2]}]"


def _exists(name: str, where: Pins) -> bool:
    """Whether one of our devices is there, or a process, an open file or a mount holds the namespace.

    Links work as evidence even in a container, where other processes are hidden.
    """
    links = where.links.iterdir() if where.links.is_dir() else ()
    if any(tcx.find(pin) is not None for pin in links):
        return True
    shown = _shown(name)
    return any(shown in each for each in _holders())


def _holders() -> Iterator[str]:
    seen: set[str] = set()
    for pattern in ("[0-9]*/task/[0-9]*/ns/net", "[0-9]*/fd/*"):
        yield from map(_link, _found(pattern))
    for process in _found("[0-9]*"):
        mounts = _link(process / "ns" / "mnt")
        if mounts not in seen:
            seen.add(mounts)
            try:
                yield (process / "mountinfo").read_text(errors="replace")
            except OSError:  # the process ended meanwhile
                continue


def _found(pattern: str) -> Iterator[Path]:
    # Path.glob raises if a process ends while it iterates (Python 3.11).
    return map(Path, glob.iglob(f"{_PROC}/{pattern}"))  # noqa: PTH207


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # the process ended meanwhile
        return ""
