# SPDX-License-Identifier: Apache-2.0
"""Cgroup hooks by which processes of the node and of its pods reach Services (datapath/sockets.bpf.c).

Each load with these hooks attaches its own programs before the switch, by links pinned below
ROOT/sockets/EPOCH. The previous load's programs are detached after the switch. In between both
translate: the addresses that one has translated do not match in the other.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from policyc.runtime.attach.socket_listing import REMOVED
from policyc.runtime.bundle.address_value import Address
from policyc.runtime.bundle.bundle import (
    SOCKETS_OBJECT,
    Bundle,
)
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall, namespaces
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import (
    Pins,
    filesystem_magic,
)
from policyc.runtime.maps.sockets import SocketHost, SocketPods
from policyc.runtime.undo import Undo

SocketServices = Literal["node", "pods"]
"""Whose sockets are served: the node's own, or those of its pods, too."""
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
CONNECT_HOOKS = {"pc_policy_conn4": 10, "pc_policy_conn6": 11}
"""The same for the programs of a policy's object that refuse a connect()."""
_CGROUP2_MAGIC = 0x63677270


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
    pods: Mapping[int, Iterable[Address]],
    refusing: Mapping[str, int],
    undo: Undo,
) -> None:
    """Attach to a cgroup, for processes in this network namespace; `addresses` are the node's.

    `pods` are those whose processes are served, too: their addresses by the cookie of their namespace.
    `refusing` are loaded programs of `CONNECT_HOOKS`. They run behind the others, so they see the
    endpoint of a Service.
    """
    if SOCKETS_OBJECT not in bundle.digests:
        raise InputError(
            f"{bundle.path}: the bundle has no {SOCKETS_OBJECT}", "compile it again for --cgroup"
        )
    folder = pins.sockets(epoch)
    forget_new_maps(pins, undo)
    with Object(bundle.path / SOCKETS_OBJECT, pins.maps) as loaded:
        loaded.load()
        with SocketHost(pins) as host:
            host.set_host(namespaces.cookie(), addresses, undo)
        with SocketPods(pins) as served:
            served.add(pods, undo)
        undo.by(_take_off, folder)
        folder.mkdir(parents=True)
        bpf_syscall.obj_pin(loaded.program_fd(REMOVED.name), REMOVED.pin(folder))
        at = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        try:
            programs = {name: loaded.program_fd(name) for name in PROGRAMS} | dict(refusing)
            for name, fd in programs.items():
                kind = {**PROGRAMS, **CONNECT_HOOKS}[name]
                with bpf_syscall.link_create_cgroup(fd, at, kind) as link:
                    bpf_syscall.obj_pin(link, folder / name)
        except OSError as error:
            raise HostError(f"cannot attach to {cgroup}: {error.strerror}") from error
        finally:
            os.close(at)


def forget_new_maps(pins: Pins, undo: Undo) -> None:
    """To undo a load, remove the shared maps that an object makes from now on."""
    undo.by(_remove_new_maps, pins, {path.name for path in pins.maps.iterdir()})


def keep_only(pins: Pins, epoch: int) -> None:
    """Detach the programs of all loads except this epoch's; epoch 0 keeps none."""
    for folder in pins.all_sockets():
        if folder != pins.sockets(epoch):
            _take_off(folder)


def keep_only_pods(pins: Pins, cookies: Iterable[int]) -> None:
    """Serve the sockets of no other pods."""
    if SocketPods.is_there(pins):
        with SocketPods(pins) as served:
            served.keep_only(cookies)


def _take_off(folder: Path) -> None:
    """Detach at once: an unpinned link would stay until the kernel frees it."""
    if not folder.is_dir():
        return
    for pin in folder.iterdir():
        if pin.name not in REMOVED.both:
            with bpf_syscall.obj_get(pin) as fd, suppress(OSError):  # the cgroup may be gone
                bpf_syscall.link_detach(fd)
        pin.unlink()
    folder.rmdir()


def attached(pins: Pins, epoch: int) -> dict[str, tuple[bpf_syscall.ProgInfo, int]]:
    """Program -> the kernel's information, and the id of its cgroup; 0: the cgroup is gone."""
    found = {}
    for name in (*PROGRAMS, *CONNECT_HOOKS):
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


def _remove_new_maps(pins: Pins, known: set[str]) -> None:
    for path in pins.maps.iterdir():
        if path.name not in known:
            path.unlink()
