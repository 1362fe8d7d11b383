# SPDX-License-Identifier: Apache-2.0
"""The program in this kernel: verified, compiled by its JIT, run by BPF_PROG_TEST_RUN. Needs root."""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from policyc.compiler.driver.compile.target import Backend
from policyc.compiler.fuzz.stages.answers import Answer
from policyc.compiler.fuzz.stages.machine import (
    COUNTS,
    ENTRY,
    FRAME,
    SCRATCH,
    Counts,
    ask,
    first_word,
    made_by,
)
from policyc.compiler.fuzz.stages.programs import Contents
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.errors import HostError
from policyc.runtime.errors import HostError as NodeHostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import (
    Object,
    library,
)
from policyc.runtime.kernel.per_cpu import possible_cpus
from policyc.runtime.lab.children import LabError
from policyc.runtime.lab.namespaces import claimed_suffix, mount_bpffs, remove_lab
from policyc.verifier.bytecode.definitions import MapKind
from policyc.verifier.bytecode.object import BpfObject

_ARRAY = 2
"""BPF_MAP_TYPE_ARRAY."""


@dataclass(frozen=True)
class KernelStage:
    """The object of one backend. `bpffs` is a mounted BPF file system of this run's own."""

    backend: Backend
    bpffs: Path

    @property
    def name(self) -> str:
        """`kernel-c` or `kernel-llvm`."""
        return f"kernel-{self.backend.value}"

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """Each end that policies decide, by one run."""
        setting, data, source = made_by(scenario, self.backend)
        with TemporaryDirectory(prefix="policyc-fuzz-") as folder:
            file = Path(folder, "policy.bpf.o")
            file.write_bytes(data)
            with _pins(self.bpffs) as root, Object(file, root) as loaded, _one_cpu() as cpu:
                loaded.load()
                _fill(loaded, source, setting.contents(source.maps))
                return ask(_Loaded(loaded, cpu), source, setting)


def why_not_kernel() -> str:
    """The reason why programs cannot be run in this kernel; empty if they can."""
    if os.geteuid() != 0:
        return "programs are loaded by root alone"
    try:
        library()
    except NodeHostError as missing:
        return missing.message
    try:
        with own_bpffs():
            return ""
    except (OSError, LabError) as failure:
        return f"no BPF file system can be mounted: {failure}"


@contextmanager
def own_bpffs() -> Iterator[Path]:
    """A private BPF file system, for as long as the context is open."""
    with claimed_suffix() as suffix:
        try:
            yield mount_bpffs(suffix)
        finally:
            remove_lab(suffix)


def require_kernel() -> None:
    """HostError if programs cannot be run."""
    why = why_not_kernel()
    if why:
        raise HostError(f"the kernel stages cannot run: {why}", "name other stages: --backends")


@contextmanager
def _pins(bpffs: Path) -> Iterator[Path]:
    """The pin directory of an object's maps; the pins are removed when the context ends."""
    root = bpffs / "fuzz"
    root.mkdir()
    try:
        yield root
    finally:
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        root.rmdir()


@contextmanager
def _one_cpu() -> Iterator[int]:
    """Stay on one CPU, because per-CPU maps have a value for each."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, before)


def _fill(loaded: Object, source: BpfObject, contents: Contents) -> None:
    for name, entries in contents.items():
        fd = loaded.map_fd(name)
        if source.maps[name].kind is MapKind.PERCPU_ARRAY:
            for key, value in entries.items():
                bpf_syscall.map_update(fd, key, value * possible_cpus())
        else:
            bpf_syscall.map_update_batch(
                fd, b"".join(entries), b"".join(entries.values()), len(entries)
            )


class _Loaded:
    """The machine."""

    def __init__(self, loaded: Object, cpu: int) -> None:
        self._scratch, self._counts = loaded.map_fd(SCRATCH), loaded.map_fd(COUNTS)
        self._program = bpf_syscall.TestRun(loaded.program_fd(ENTRY))
        info = bpf_syscall.map_info(self._counts)
        self._size, self._cpu, self._cpus = info.value_size, cpu, possible_cpus()
        self._info = replace(info, value_size=info.value_size * self._cpus)

    def run(self, flow: bytes) -> int:
        bpf_syscall.map_update(self._scratch, bytes(4), flow * self._cpus)
        return self._program(FRAME) & 0xFFFFFFFF

    def counts(self) -> Counts:
        found = {}
        for keys, values, count in bpf_syscall.map_items_batch(self._counts, self._info):
            for at in range(count):
                packets = first_word(
                    values[at * self._info.value_size + self._cpu * self._size :][:8]
                )
                if packets:
                    found[struct.unpack_from("<I", keys, 4 * at)[0]] = packets
        return found
