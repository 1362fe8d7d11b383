# SPDX-License-Identifier: Apache-2.0
"""Cgroup hooks by which the node's own processes reach Services (datapath/sockets.bpf.c).

Each load with these hooks attaches its own programs before the switch, by links pinned below
ROOT/sockets/EPOCH. The previous load's programs are detached after the switch. In between both
translate: the addresses that one has translated do not match in the other.
"""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.bundle.bundle import (
    SOCKETS_OBJECT,
    Bundle,
)
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import (
    Pins,
    filesystem_magic,
)
from policyc.runtime.maps.settings import SocketHost
from policyc.runtime.undo import Undo

PROGRAMS = {
    "pc_connect4": 10,
    "pc_connect6": 11,
    "pc_sendmsg4": 14,
    "pc_sendmsg6": 15,
    "pc_recvmsg4": 19,
    "pc_recvmsg6": 20,
    "pc_getpeer4": 29,
    "pc_getpeer6": 30,
}
"""Program -> enum bpf_attach_type."""
_CGROUP2_MAGIC = 0x63677270
_SO_NETNS_COOKIE = 71


def require_cgroup(cgroup: Path) -> None:
    """Raise `InputError` unless it is a folder of a cgroup2 file system."""
    if not cgroup.is_dir() or filesystem_magic(cgroup) != _CGROUP2_MAGIC:
        raise InputError(
            f"{cgroup} is no folder of a cgroup2 file system",
            "`findmnt -t cgroup2` shows where one is mounted",
        )


def attach(
    pins: Pins,
    epoch: int,
    bundle: Bundle,
    cgroup: Path,
    addresses: Iterable[Address],
    undo: Undo,
) -> None:
    """Attach to a cgroup, for processes in this network namespace; `addresses` are the node's."""
    if SOCKETS_OBJECT not in bundle.digests:
        raise InputError(
            f"{bundle.path}: the bundle has no {SOCKETS_OBJECT}", "compile it again for --cgroup"
        )
    folder = pins.sockets(epoch)
    known = {path.name for path in pins.maps.iterdir()}
    undo.by(_remove_new_maps, pins, known)
    with Object(bundle.path / SOCKETS_OBJECT, pins.maps) as loaded:
        loaded.load()
        with SocketHost(pins) as host:
            host.set_host(network_cookie(), addresses, undo)
        undo.by(_take_off, folder)
        folder.mkdir(parents=True)
        at = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name, kind in PROGRAMS.items():
                with bpf_syscall.link_create_cgroup(loaded.program_fd(name), at, kind) as link:
                    bpf_syscall.obj_pin(link, folder / name)
        except OSError as error:
            raise HostError(f"cannot attach to {cgroup}: {error.strerror}") from error
        finally:
            os.close(at)


def keep_only(pins: Pins, epoch: int) -> None:
    """Detach the programs of all loads except this epoch's; epoch 0 keeps none."""
    for folder in pins.all_sockets():
        if folder != pins.sockets(epoch):
            _take_off(folder)


def _take_off(folder: Path) -> None:
    """Detach at once: an unpinned link would stay until the kernel frees it."""
    if not folder.is_dir():
        return
    for pin in folder.iterdir():
        with bpf_syscall.obj_get(pin) as fd, suppress(OSError):  # the cgroup may be gone
            bpf_syscall.link_detach(fd)
        pin.unlink()
    folder.rmdir()


def attached(pins: Pins, epoch: int) -> dict[str, tuple[bpf_syscall.ProgInfo, int]]:
    """Program -> the kernel's information, and the id of its cgroup; 0: the cgroup is gone."""
    found = {}
    for name in PROGRAMS:
        pin = pins.sockets(epoch) / name
        if not pin.exists():
            continue
        with bpf_syscall.obj_get(pin) as fd:
            prog, cgroup = bpf_syscall.cgroup_link_info(fd)
        with bpf_syscall.prog_by_id(prog) as fd:
            found[name] = bpf_syscall.prog_info(fd), cgroup
    return found


def cgroup_id(cgroup: str) -> int:
    """The id of the cgroup in links; 0 if it no longer exists."""
    try:
        return Path(cgroup).stat().st_ino
    except OSError:
        return 0


def network_cookie() -> int:
    """The kernel's cookie of this network namespace, which is never reused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return int.from_bytes(asked.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")


def _remove_new_maps(pins: Pins, known: set[str]) -> None:
    for path in pins.maps.iterdir():
        if path.name not in known:
            path.unlink()
