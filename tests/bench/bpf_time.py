# SPDX-License-Identifier: Apache-2.0
"""Time BPF programs by BPF_PROG_TEST_RUN: load an object under a private bpffs, run, take medians.

Root and BPF are needed. What is mounted and pinned goes away with the process that made it.
"""

import ctypes
import os
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from policyc.backends.ebpf_c import clang
from policyc.compiler.driver.compile.objects import datapath_files
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object

REPEAT = 1 << 16
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x00020000, 0x4000, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def private_bpffs() -> Iterator[Path]:
    """A bpffs that only this process sees; it goes when the process does."""
    if _libc.unshare(_CLONE_NEWNS) or _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "a mount namespace of our own cannot be made")
    with tempfile.TemporaryDirectory(prefix="policyc-bench-") as folder:
        if _libc.mount(b"none", folder.encode(), b"bpf", 0, None):
            raise OSError(ctypes.get_errno(), "bpffs cannot be mounted")
        try:
            yield Path(folder)
        finally:
            _libc.umount2(folder.encode(), 2)


class Loaded:
    """An object in the kernel: descriptors of its maps and programs."""

    def __init__(
        self, path: Path, bpffs: Path, held: ExitStack, without: Iterable[str] = ()
    ) -> None:
        maps = Path(tempfile.mkdtemp(dir=bpffs))
        self._object = held.enter_context(Object(path, maps))
        self._object.leave_out(without)
        began = time.process_time()
        self._object.load()
        self.load_seconds = time.process_time() - began
        self.maps = dict(self._object.own_maps())
        self.shared = maps

    def program(self, name: str) -> int:
        """The descriptor of a program."""
        return self._object.program_fd(name)


def run(program: int, repeat: int = REPEAT) -> tuple[float, int]:
    """(wall ns a run, the last return value). The frame is 64 zero bytes."""
    data = ctypes.create_string_buffer(64)
    attr = bytearray(80)
    struct.pack_into("=IIIIQQII", attr, 0, program, 0, 64, 0, ctypes.addressof(data), 0, repeat, 0)
    began = time.perf_counter_ns()
    bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
    return (time.perf_counter_ns() - began) / repeat, struct.unpack_from("=I", attr, 4)[0]


def net_of_nothing(
    loaded: Loaded, ways: Mapping[str, str], steps: int, rounds: int, repeat: int
) -> dict[str, float]:
    """Way -> ns of a step of its program, net of `b_none`: medians of rounds over all in turn."""
    taken: dict[str, list[float]] = {name: [] for name in ("b_none", *ways.values())}
    for _ in range(rounds):
        for name, times in taken.items():
            ns, hits = run(loaded.program(name), repeat)
            if hits != steps:
                raise SystemExit(f"{name} found {hits} of {steps}")
            times.append(ns / steps)
    nothing = statistics.median(taken["b_none"])
    return {way: round(statistics.median(taken[name]) - nothing, 1) for way, name in ways.items()}


def ranged(loaded: Loaded, mask: int, first: int) -> None:
    """Set which flows of chosen_flows.h are chosen, and which are recorded next."""
    bpf_syscall.map_update(loaded.maps["b_range"], bytes(4), struct.pack("=II", mask, first))


def compiled(source: Path, *headers: Path) -> Path:
    """The object of a benchmark's source, beside the datapath's sources and its own headers."""
    work = Path(tempfile.mkdtemp(prefix="policyc-bench-"))
    for name, data in datapath_files().items():
        (work / name).write_bytes(data)
    for each in (source, *headers):
        (work / each.name).write_bytes(each.read_bytes())
    command = [clang.find_tool("clang"), *clang.flags("."), "-c", source.name, "-o", "out.o"]
    subprocess.run(command, cwd=work, check=True)
    return work / "out.o"


def pin_to_one_cpu() -> None:
    """The last CPU that we may use: moving between them costs more than a verdict."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
