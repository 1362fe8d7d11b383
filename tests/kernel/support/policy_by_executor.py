# SPDX-License-Identifier: Apache-2.0
"""A policy program run twice on the same flows: loaded in the kernel, and by the executor on numbers.

Both begin with the seeds and empty tables of connections. The flow is put into the scratch, as hooks do.
Random numbers are the kernel's: they are read out of the entry that it made.
"""

import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.backends.ebpf_c.seeds import Seed
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.per_cpu import possible_cpus
from policyc.verifier.bytecode.concrete import Around, resume, run
from policyc.verifier.bytecode.definitions import MapDefinition, MapKind
from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.bytecode.oracle import Answer, Oracle
from policyc.verifier.bytecode.program import Program, link_program
from policyc.verifier.bytecode.state import State
from tests.kernel.support.map_content import is_zero

ENTRY = "pc_policy_run"
SCRATCH = "pc_scratch"
FRAME = bytes(range(90))
WRITTEN = ("pc_scratch", "pc_drops", "pc_counts")
TABLES = ("pc_ct4", "pc_ct6", "pc_ct4_new", "pc_ct6_new", "pc_frag4", "pc_frag6")
Contents = dict[str, dict[bytes, bytes]]
Entry = tuple[str, bytes, bytes]
"""A map, a key, a value."""


@contextmanager
def one_cpu() -> Iterator[int]:
    """Stay on one CPU, as per-CPU maps have a value for each."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, before)


def seed_entries(seed: Seed, definition: MapDefinition) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values; of an array the keys are in order."""
    data, keyed = bytes(seed.data), bool(seed.key_bytes)
    size = definition.value_size + (seed.key_bytes if keyed else 0)
    for number, at in enumerate(range(0, len(data), size)):
        entry = data[at : at + size]
        if keyed:
            yield entry[: seed.key_bytes], entry[seed.key_bytes :]
        else:
            yield struct.pack("<I", number), entry


def filled(seeds: Sequence[Seed]) -> Iterator[Seed]:
    """Those that have content. The others name a map that begins empty, of any kind."""
    return (seed for seed in seeds if seed.data)


CLASSES = 16


def random_classes(rng: random.Random, definition: MapDefinition) -> Seed:
    """Pods as a node places them, into rows and columns of which most mean something."""
    count = CLASSES * definition.value_size // 4
    words = (rng.choice((0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 40)) for _ in range(count))
    data = b"".join(struct.pack("<I", word) for word in words)
    return Seed(definition.name, "array", CLASSES, (), data)


@dataclass
class KernelPolicy:
    """The loaded program, on one CPU."""

    loaded: Object
    maps: Mapping[str, MapDefinition]
    cpu: int

    def fill(self, seeds: Sequence[Seed]) -> None:
        for seed in filled(seeds):
            entries = list(seed_entries(seed, self.maps[seed.map_name]))
            keys = b"".join(key for key, _ in entries)
            values = b"".join(value for _, value in entries)
            fd = self.loaded.map_fd(seed.map_name)
            bpf_syscall.map_update_batch(fd, keys, values, len(entries))

    def run(self, flow: bytes) -> int:
        scratch = self.loaded.map_fd(SCRATCH)
        bpf_syscall.map_update(scratch, bytes(4), flow * possible_cpus())
        fd = self.loaded.program_fd(ENTRY)
        return bpf_syscall.prog_test_run(fd, FRAME) & 0xFFFFFFFF

    def keep(self, entries: Sequence[Entry]) -> None:
        for name, key, value in entries:
            bpf_syscall.map_update(self.loaded.map_fd(name), key, value)

    def contents(self) -> Contents:
        """Of the maps that the program writes, without zeros in arrays."""
        arrays = {name: self._elements(name) for name in WRITTEN if name in self.maps}
        return arrays | {name: self._entries(name) for name in TABLES}

    def _elements(self, name: str) -> dict[bytes, bytes]:
        size, fd = self.maps[name].value_size, self.loaded.map_fd(name)
        found = {}
        for at in range(self.maps[name].max_entries):
            key = struct.pack("<I", at)
            raw = bpf_syscall.map_lookup(fd, key, size * possible_cpus()) or b""
            value = raw[self.cpu * size : (self.cpu + 1) * size]
            if not is_zero(value):
                found[key] = value
        return found

    def _entries(self, name: str) -> dict[bytes, bytes]:
        definition, fd = self.maps[name], self.loaded.map_fd(name)
        return {
            key: bpf_syscall.map_lookup(fd, key, definition.value_size) or b""
            for key in bpf_syscall.map_keys(fd, definition.key_size)
        }


@dataclass
class Drawn(Oracle):
    """The number that the kernel drew in the same run."""

    value: int = 0

    def answer(self, state: State, name: str) -> Answer:
        if name != "GET_PRANDOM_U32":
            raise UnmodelledError(name)
        return Answer(self.value)


class ExecutedPolicy:
    """The same program, here."""

    def __init__(self, program: Program) -> None:
        self._drawn = Drawn()
        self._around = Around(program, oracle=self._drawn)

    def fill(self, seeds: Sequence[Seed]) -> None:
        for seed in filled(seeds):
            found = self._around.map(seed.map_name)
            for key, value in seed_entries(seed, found.definition):
                found.put(key, value)

    def run(self, flow: bytes, drawn: int) -> int:
        self._around.map(SCRATCH).put(bytes(4), flow)
        self._drawn.value = drawn
        ended = run(self._around, FRAME, {"mark": 0})
        if isinstance(ended.result, TailCall):  # there is no program to go on as
            ended = resume(self._around, ended.state)
        assert isinstance(ended.result, int)
        return ended.result

    def keep(self, entries: Sequence[Entry]) -> None:
        for name, key, value in entries:
            self._around.map(name).put(key, value)

    def contents(self) -> Contents:
        found: Contents = {}
        for name in (*WRITTEN, *TABLES):
            held = self._around.map(name)
            is_array = held.definition.kind is MapKind.PERCPU_ARRAY
            pairs = held.items().items()
            found[name] = {key: value for key, value in pairs if not (is_array and is_zero(value))}
        return found


def to_be_kept(rng: random.Random, contents: Contents) -> list[Entry]:
    """Half of the new connections, for the established tables."""
    return [
        (kept, key, value)
        for kept in ("pc_ct4", "pc_ct6")
        for key, value in contents[f"{kept}_new"].items()
        if rng.random() < 0.5
    ]


def drawn_number(read: BpfObject, before: Contents, after: Contents) -> int:
    """The id of the connection that is new, or was made again; 0 where there is none."""
    place = read.btf.place("pc_ct", "flow_id")

    def ids(contents: Contents) -> set[bytes]:
        values = (value for name in TABLES[:4] for value in contents[name].values())
        return {value[place.offset : place.offset + place.size] for value in values}

    new = ids(after) - ids(before)
    assert len(new) <= 1, "one run makes one connection"
    return int.from_bytes(new.pop(), "little") if new else 0


class Flows:
    """Random contents of the scratch: what hooks write, and much that they never would."""

    def __init__(self, read: BpfObject, rng: random.Random) -> None:
        self._btf, self._rng = read.btf, rng
        self._size = read.maps[SCRATCH].value_size
        self._now = 1_000_000

    def draw(self) -> bytes:
        rng = self._rng
        self._now += rng.choice((0, 1, 10, 100_000))
        out = bytearray(self._size)
        address = [bytes([10, 0, 0, n]) + bytes(12) for n in range(3)] + [rng.randbytes(16)]
        family = rng.choice((4, 4, 6, 6, 0))
        fields = {
            "tuple.saddr": rng.choice(address),
            "tuple.daddr": rng.choice(address),
            "tuple.sport": rng.choice((0, 1, 0x5000)),
            "tuple.dport": rng.choice((0, 0x5000, 0xBB01, rng.getrandbits(16))),
            "tuple.family": family,
            "tuple.proto": rng.choice((1, 6, 6, 6, 17, 17, 58, 132, 47)),
            "tuple.sub": rng.randrange(2),
            "src.id": self._class(),
            "dst.id": self._class(),
            "src.ifindex": rng.choice((0, 3, 4)),
            "dst.ifindex": rng.choice((0, 5, 6)),
            "src.mac": rng.choice((bytes(6), b"abcdef")),
            "dst.mac": rng.choice((bytes(6), b"ghijkl")),
            "src.flags": rng.randrange(8),
            "dst.flags": rng.randrange(8),
            "now": self._now,
            "second": rng.choice((100, 250, 1000)),
            "epoch": rng.choice((1, 2)),
            "packet.ip_end": rng.randrange(100),
            "packet.frag_id": rng.randrange(4),
            "packet.l4": 34,
            "packet.ethertype": 0x800 if family == 4 else 0x86DD,
            "packet.icmp": rng.choice((0, 8 << 8, 128 << 8, rng.getrandbits(16))),
            "packet.tcp_flags": rng.choice((2, 16, 1, 4, rng.getrandbits(8))),
            "packet.is_opening": rng.randrange(2),
            "packet.fragment": rng.randrange(3),
            "packet.frag_proto": 17,
            "action.entry_op": rng.randrange(2),
            "is_reply": rng.randrange(2),
            "has_established_entry": rng.randrange(2),
            "has_established_pre_nat": rng.randrange(2),
            "client": rng.randrange(4),
            "action.frag_backend": rng.randrange(3),
            "action.node": rng.choice((0, 0, 1, 3)),
            "nat.backend": rng.choice((0, 0, 0, 7)),
            "nat.dport": rng.choice((0x5000, 0x901F)),
            "nat.sport": rng.choice((1, 2)),
            "nat.daddr": rng.choice(address),
        }
        for path, value in fields.items():
            place = self._btf.place("pc_flow", path)
            raw = value if isinstance(value, bytes) else value.to_bytes(place.size, "little")
            out[place.offset : place.offset + place.size] = raw
        return bytes(out)

    def _class(self) -> int:
        return self._rng.randrange(CLASSES) if self._rng.random() < 0.95 else 1 << 20


@contextmanager
def loaded_policy(data: bytes, folder: Path, bpffs: Path) -> Iterator[KernelPolicy]:
    """Load an object; its pins go away with the bpffs."""
    file = folder / "policy.bpf.o"
    file.write_bytes(data)
    bpffs.mkdir(parents=True, exist_ok=True)
    with Object(file, bpffs) as loaded, one_cpu() as cpu:
        loaded.load()
        yield KernelPolicy(loaded, read_object(data).maps, cpu)


def executed_policy(data: bytes) -> ExecutedPolicy:
    """The program of an object, as it would be loaded."""
    return ExecutedPolicy(link_program(read_object(data), ENTRY))
