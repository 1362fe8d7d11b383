# SPDX-License-Identifier: Apache-2.0
"""The compared builds: each holds the same rule set, loaded and ready for lookups.

`c` and `llvm` are this project's backends, by the real pipeline from YAML on; `generic` is tries of
identities and of allowed traffic, `linear` is rule code one rule after the other, both written for this
comparison. All are asked the same flows, and must give the same verdicts.
"""

import socket
import struct
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml
from bpf_time import Loaded
from policy_cases import SUBJECT, TCP, BenchCase, address_of
from policy_chain import NO_RULES_SLOT, chain, pieces
from policy_chain import load as load_chain

from policyc.backends.ebpf_c import clang
from policyc.backends.ebpf_c.bare import bare_text
from policyc.compiler.driver.compile.bundle import SOCKET_PROGRAMS
from policyc.compiler.driver.compile.compile import (
    Inputs,
    decide_read,
    read_inputs,
)
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.objects import datapath_files
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import sources_of
from policyc.ir.decision import DecisionIR
from policyc.ir.policy import Direction
from policyc.ir.universe import Endpoint, Universe
from policyc.runtime.endpoints.double_buffer import DoubleBuffer
from policyc.runtime.endpoints.endpoint_tables import laid_out
from policyc.runtime.kernel import bpf_syscall

HERE = Path(__file__).parent
N_FLOWS = 65536
BATCH = 4096
SEED = 1


@dataclass
class Contender:
    """A loaded build. `programs`: measurement (`known`, `looked up`) -> program and baseline."""

    name: str
    loaded: Loaded
    programs: dict[str, tuple[int, int]]
    build_seconds: float
    object_bytes: int

    def set_flows(self, mask: int, washes: int) -> None:
        """Begin at the first flow; `mask` is the number that take part less one."""
        state = struct.pack("=4Q", 0, mask, washes, 0)
        bpf_syscall.map_update(self.loaded.maps["b_state"], bytes(4), state)


def endpoint_ids(case: BenchCase) -> dict[int | None, int]:
    """The id of the pod of each app; None is the subject."""
    return {None: 1} | {app: 2 + at for at, app in enumerate(case.apps)}


def write_flows(case: BenchCase, maps: dict[str, int]) -> None:
    """Fill b_flows."""
    ids = endpoint_ids(case)
    records = [
        struct.pack(
            "=IIIIIIHBBI",
            ids[None],
            0 if flow.app is None else ids[flow.app],
            socket.htonl(flow.address),
            0,
            0,
            0,
            socket.htons(flow.port),
            TCP,
            4,
            0,
        )
        for flow in case.flows
    ]
    _fill(maps["b_flows"], [(struct.pack("=I", at), each) for at, each in enumerate(records)])


def _fill(fd: int, entries: list[tuple[bytes, bytes]]) -> None:
    for at in range(0, len(entries), BATCH):
        part = entries[at : at + BATCH]
        keys, values = (b"".join(column) for column in zip(*part, strict=True))
        bpf_syscall.map_update_batch(fd, keys, values, len(part))


@dataclass(frozen=True)
class Decided:
    """A case read and decided once, for both backends."""

    decision: DecisionIR
    universe: Universe
    emitted: Emitted
    seconds: float


def decide(case: BenchCase) -> Decided:
    """From YAML to the Decision IR and its layout; CPU seconds without the proof."""
    policies, cluster = case.objects()
    with tempfile.TemporaryDirectory() as folder:
        for name, documents in (("policies", policies), ("cluster", cluster)):
            text = yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
            (Path(folder) / f"{name}.yaml").write_text(text)
        began = time.process_time()
        sources = [sources_of((f"{folder}/{name}.yaml",), None) for name in ("policies", "cluster")]
        read = read_inputs(Inputs(sources[0], sources[1], ReadOptions()))
        decided = decide_read(read)
        emitted = emit_all(decided.decision)
        seconds = time.process_time() - began
    assert read.cluster is not None
    return Decided(decided.decision, read.cluster.universe, emitted, seconds)


def ours(
    case: BenchCase, decided: Decided, backend: str, bpffs: Path, held: ExitStack
) -> Contender:
    """The program of one of the project's backends."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_sources(work)
        (work / "policy.bpf.c").write_text(bare_text(decided.emitted.c))
        seconds = _compile(work, backend, decided)
        size = (work / "out.o").stat().st_size
        loaded = Loaded(work / "out.o", bpffs, held, SOCKET_PROGRAMS)
    for seed in decided.emitted.seeds:
        if seed.data:
            _write_seed(loaded.maps[seed.map_name], seed.data, 4 * len(seed.fields), seed.key_bytes)
    _write_endpoints(case, decided, loaded)
    write_flows(case, loaded.maps)
    fetch = loaded.program("b_fetch")
    programs = {
        "known": (loaded.program("b_verdict"), fetch),
        "looked up": (loaded.program("b_looked_up"), fetch),
    }
    return Contender(backend, loaded, programs, decided.seconds + seconds, size)


def _write_sources(work: Path) -> None:
    (work / "datapath").mkdir()
    for name, data in datapath_files().items():
        (work / "datapath" / name).write_bytes(data)
    (work / "datapath" / "policy_bench.h").write_bytes((HERE / "policy_bench.h").read_bytes())
    for path in HERE.glob("policy_*.c"):
        (work / path.name).write_bytes(path.read_bytes())


def _compile(work: Path, backend: str, decided: Decided) -> float:
    """Compile policy_ours.c to out.o; CPU seconds of the policy's part alone are not to be had."""
    if backend == "c":
        return _clang(work, "policy_ours.c", "-I.", '-DPOLICY="policy.bpf.c"')
    from policyc.backends.llvm import bpf
    from policyc.backends.llvm.known import known_functions

    shell = '-DPOLICY="policy_shell.bpf.c"'
    command = [clang.find_tool("clang"), *clang.flags("datapath"), shell, "-Xclang"]
    command += ["-disable-llvm-passes", "-emit-llvm", "-c", "policy_ours.c", "-o", "shell.bc"]
    subprocess.run(command, cwd=work, check=True)
    began = time.process_time()
    sizes = {seed.map_name: seed.entries for seed in decided.emitted.seeds}
    text = bpf.shell_of((work / "shell.bc").read_bytes())
    text = bpf.specialised(text, sizes, decided.emitted.plan, at_sockets=True)  # it looks pods up
    text += "\n" + known_functions(decided.emitted.layout.verdicts, decided.emitted.plan)
    (work / "out.o").write_bytes(bpf.compile_text(text))
    return time.process_time() - began


def _clang(work: Path, source: str, *more: str) -> float:
    began = sum(_children())
    command = [
        clang.find_tool("clang"),
        *clang.flags("datapath"),
        *more,
        "-c",
        source,
        "-o",
        "out.o",
    ]
    subprocess.run(command, cwd=work, check=True)
    seconds = sum(_children()) - began
    subprocess.run([clang.find_tool("llvm-strip"), "-g", "out.o"], cwd=work, check=True)
    return seconds


def _children() -> tuple[float, float]:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def _write_seed(fd: int, data: bytes, value_size: int, key_size: int) -> None:
    size = key_size + value_size
    entries = [data[at : at + size] for at in range(0, len(data), size)]
    if key_size:
        _fill(fd, [(entry[:key_size], entry[key_size:]) for entry in entries])
    else:
        _fill(fd, [(struct.pack("=I", at), entry) for at, entry in enumerate(entries)])


def _write_endpoints(case: BenchCase, decided: Decided, loaded: Loaded) -> None:
    """pc_class and pc_ep4, as the node would fill them."""
    ids = endpoint_ids(case)
    fields = decided.emitted.plan.class_fields
    size = bpf_syscall.map_info(loaded.maps["pc_class"]).value_size
    classes, addresses = [], {}
    for endpoint in decided.universe.endpoints:
        app = endpoint.labels.get("app", "")
        ident = ids[int(app.removeprefix("app-")) if app else None]
        place = _place(endpoint, decided)
        value = struct.pack(f"<{len(fields)}I", *(place[name] for name in fields)).ljust(
            size, b"\0"
        )
        classes.append((struct.pack("=I", ident), value))
        addresses[int(endpoint.addresses[0])] = ident
    _fill(loaded.maps["pc_class"], classes)
    with DoubleBuffer(loaded.shared) as buffers:
        laid = laid_out(addresses, {}, buffers.room("pc_ep4"), buffers.room("pc_ep6"), SEED)
        buffers.store(buffers.fill(laid, b""))


def _place(endpoint: Endpoint, decided: Decided) -> dict[str, int]:
    atoms, plan = decided.decision.atoms, decided.emitted.plan.directions[Direction.EGRESS]
    row = plan.row_ids[atoms.row_of[endpoint.qualified_name]]
    key = atoms.classifier.column(endpoint, 4)
    assert key is not None
    column = plan.column_ids[atoms.column_index[key]]
    return {"egress_row": row} | dict.fromkeys(plan.column_fields.values(), column)


def generic(case: BenchCase, bpffs: Path, held: ExitStack) -> Contender:
    """Identities and allowed traffic in tries."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_sources(work)
        seconds = _clang(work, "policy_generic.c", "-I.")
        size = (work / "out.o").stat().st_size
        loaded = Loaded(work / "out.o", bpffs, held)
    identities, allowed = _generic_entries(case)
    _fill(loaded.maps["g_identity"], list(identities.items()))
    _fill(loaded.maps["g_allowed"], [(key, struct.pack("=I", 1)) for key in allowed])
    write_flows(case, loaded.maps)
    programs = {"looked up": (loaded.program("b_verdict"), loaded.program("b_fetch"))}
    return Contender("generic", loaded, programs, seconds, size)


def _generic_entries(case: BenchCase) -> tuple[dict[bytes, bytes], list[bytes]]:
    """(prefix -> identity, allowed (identity, port prefix)); identity 0 is anyone."""
    numbers: dict[object, int] = {}
    identities: dict[bytes, bytes] = {}
    allowed: dict[bytes, None] = {}
    for rule in case.rules:
        who: object = rule.network or rule.app
        identity = 0
        if rule.network is not None or rule.app is not None:
            identity = numbers.setdefault(who, len(numbers) + 1)
            length, address = 32, address_of(rule.app) if rule.app is not None else None
            if rule.network is not None:
                length, address = rule.network.prefixlen, rule.network.network_address
            assert address is not None
            identities[struct.pack("=I", length) + address.packed] = struct.pack("=I", identity)
        for port, bits in _port_prefixes(rule.low, rule.high):
            key = struct.pack("=IIBB", 32 + 16 + bits, identity, 0, TCP) + struct.pack("!H", port)
            allowed[key] = None
    return identities, list(allowed)


def _port_prefixes(low: int, high: int) -> list[tuple[int, int]]:
    """A port range as (first port, leading bits that count)."""
    out = []
    while low <= high:
        size = low & -low or 1 << 16
        while low + size - 1 > high:
            size >>= 1
        out.append((low, 17 - size.bit_length()))
        low += size
    return out


def linear(case: BenchCase, bpffs: Path, held: ExitStack) -> Contender:
    """Rule code in a row; OSError where the kernel does not take it."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_sources(work)
        _clang(work, "policy_chain.c", "-I.")
        loaded = Loaded(work / "out.o", bpffs, held)
    sets = [
        (struct.pack("=II", 64, app) + address_of(app).packed, struct.pack("=I", 1))
        for app in case.apps
    ]
    if sets:
        _fill(loaded.maps["l_sets"], sets)
    began = time.process_time()
    maps = loaded.maps["l_flow"], loaded.maps["l_sets"]
    slots = dict(enumerate(pieces(case.rules, *maps, loaded.maps["l_chains"])))
    slots[NO_RULES_SLOT] = chain((), *maps)
    kept = {slot: load_chain(code) for slot, code in slots.items()}
    seconds = time.process_time() - began
    for slot, fd in kept.items():
        held.enter_context(fd)
        value = struct.pack("=I", fd.number)
        bpf_syscall.map_update(loaded.maps["l_chains"], struct.pack("=I", slot), value)
    write_flows(case, loaded.maps)
    pair = (loaded.program("b_verdict"), loaded.program("b_no_rules"))
    size = sum(map(len, slots.values()))
    return Contender("linear", loaded, {"looked up": pair}, seconds, size)


__all__ = ["N_FLOWS", "SUBJECT", "Contender", "decide", "generic", "linear", "ours"]
