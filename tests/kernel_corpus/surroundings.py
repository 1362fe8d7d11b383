# SPDX-License-Identifier: Apache-2.0
"""A network namespace and a bpffs of one's own, for as long as a context is open; nothing is left."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_network() -> Iterator[int]:
    """Run in a new network namespace; gives a descriptor of it."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if _libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        yield inside
    finally:
        _libc.setns(before, 0)
        os.close(inside)
        os.close(before)


@contextmanager
def own_bpffs(at: Path) -> Iterator[Path]:
    """A bpf file system of one's own, on a folder that must not be there yet."""
    at.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", str(at)], check=True)
    try:
        yield at / "policyc"
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
        at.rmdir()


@contextmanager
def temporary_bpffs() -> Iterator[Path]:
    """The same, wherever there is room."""
    with (
        tempfile.TemporaryDirectory(prefix="pc-corpus-") as folder,
        own_bpffs(Path(folder) / "bpffs") as root,
    ):
        yield root
