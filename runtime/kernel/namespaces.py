# SPDX-License-Identifier: Apache-2.0
"""The network namespaces of the node, which processes and mounts show, and work inside of one."""

import ctypes
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from policyc.runtime.kernel import netlink

_CLONE_NEWNET = 0x40000000
_SO_NETNS_COOKIE = 71
_GET_ID = 90  # RTM_GETNSID
_ID, _FD = 1, 3  # NETNSA_NSID, NETNSA_FD
_FAMILY, _NUMBER = struct.Struct("=B3x"), struct.Struct("=i")  # rtgenmsg, padded

_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def cookie() -> int:
    """The kernel's cookie of this network namespace, which is never reused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        found = asked.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    return int.from_bytes(found, sys.byteorder)


def run_in(namespace: int, work: Callable[[], T]) -> T:
    """Do the work in the network namespace behind a descriptor; other threads stay where they are."""
    results: list[T] = []
    errors: list[BaseException] = []

    def inside() -> None:
        try:
            if _libc.setns(namespace, _CLONE_NEWNET):
                error = ctypes.get_errno()
                raise OSError(error, f"setns: {os.strerror(error)}")
            results.append(work())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def all_open() -> Iterator[int]:
    """A descriptor of each network namespace that can be found, open until the next one.

    Those of mounts, as `ip netns` and container runtimes make them, and of all processes. A namespace
    that only a descriptor or a socket holds is not found.
    """
    known: set[tuple[int, int]] = set()
    for path in (*mounts(), *_processes()):
        try:
            at = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # the process has ended, or the mount is gone
        try:
            stat = os.fstat(at)
            if (stat.st_dev, stat.st_ino) not in known:
                known.add((stat.st_dev, stat.st_ino))
                yield at
        finally:
            os.close(at)


def cookies_of(ids: Iterable[int]) -> dict[int, int]:
    """The id of a namespace in this one -> its cookie, for those of `ids` that are found."""
    wanted, found = set(ids), {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as opened:
        for namespace in all_open() if wanted else ():
            number = id_of(opened, namespace)
            if number in wanted and (inside := _cookie_in(namespace)):
                found[number] = inside
            if len(found) == len(wanted):
                break
    return found


def by_cookie(cookies: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The cookie and an open descriptor of each namespace of `cookies` that is found.

    The descriptor is open until the next one.
    """
    wanted = set(cookies)
    for namespace in all_open() if wanted else ():
        number = _cookie_in(namespace)
        if number in wanted:
            wanted.remove(number)
            yield number, namespace
        if not wanted:
            return


def _cookie_in(namespace: int) -> int:
    """The cookie of a namespace; 0 if this process may not enter it."""
    try:
        return run_in(namespace, cookie)
    except PermissionError:
        return 0


def id_of(opened: socket.socket, namespace: int) -> int:
    """The id that this network namespace has for another one; negative: none."""
    body = _FAMILY.pack(0) + netlink.packed({_FD: _NUMBER.pack(namespace)})
    (answer,) = netlink.asked(opened, _GET_ID, body, 0)
    value = netlink.unpacked(answer[_FAMILY.size :]).get(_ID)
    return _NUMBER.unpack(value)[0] if value else -1


def mounts(mountinfo: Path = Path("/proc/self/mountinfo"), shown: str = "net:") -> Iterator[Path]:
    """The mount points of network namespaces: proc(5), mountinfo.

    `shown` is how their files begin, as `readlink /proc/PID/ns/net` shows it.
    """
    for line in mountinfo.read_text(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if after.startswith("nsfs ") and fields[3].startswith(shown):
            yield Path(fields[4].encode().decode("unicode_escape"))


def _processes() -> Iterator[Path]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            yield process / "ns/net"
