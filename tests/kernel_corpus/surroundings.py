# SPDX-License-Identifier: Apache-2.0
"""A network namespace and a bpffs of one's own, for as long as a context is open; nothing is left."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_network() -> Iterator[int]:
    """Run in a new network namespace; gives a descriptor of it."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    _call("unshare", _CLONE_NEWNET)
    inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        yield inside
    finally:
        _call("setns", before, 0)
        os.close(inside)
        os.close(before)


@contextmanager
def own_bpffs(at: Path) -> Iterator[Path]:
    """A bpf file system of one's own, on a folder that must not be there yet."""
    at.mkdir()
    _call("mount", b"bpf", os.fsencode(at), b"bpf", ctypes.c_ulong(0), None)
    try:
        yield at / "policyc"
    finally:
        _call("umount2", os.fsencode(at), _MNT_DETACH)
        at.rmdir()


@contextmanager
def temporary_bpffs() -> Iterator[Path]:
    """The same, wherever there is room."""
    with (
        tempfile.TemporaryDirectory(prefix="pc-corpus-") as folder,
        own_bpffs(Path(folder) / "bpffs") as root,
    ):
        yield root


def _call(name: str, *arguments: object) -> None:
    """A function of the C library; `OSError` where it fails."""
    if getattr(_libc, name)(*arguments):
        errno = ctypes.get_errno()
        raise OSError(errno, f"{name}: {os.strerror(errno)}")
