# SPDX-License-Identifier: Apache-2.0
"""The hooks of one checkout, loaded for two pods: a round of measurements for each line of input.

`packets.py` starts one for each checkout, with that one's modules on Python's path.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tests.kernel
from bpf_time import Loaded, pin_to_one_cpu
from tests.kernel.node_under_test import LOCAL, A, B, NodeUnderTest
from tests.kernel.packets import ACK, PSH, SYN, frame, tcp, udp
from tests.kernel.table_policy import ANY
from tests.kernel_corpus.surroundings import own_bpffs, own_network

from policyc.runtime import bpf_syscall

ROOT = Path(tests.kernel.__file__).resolve().parents[2]
DATAPATH = ROOT / "runtime" / "datapath"
EMPTY = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("tc") int b_empty(struct __sk_buff *skb) { return skb->len ? -1 : 2; }
char b_license[] SEC("license") = "Dual BSD/GPL";
"""
REPEAT = 1 << 15
NEW_FLOWS = 20000
CLANG = ("clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fno-strict-aliasing")
_ENABLE_STATS = 32
_RUN_TIME_AT = 192  # of struct bpf_prog_info: run_time_ns, then run_cnt


class Bed:
    """The hooks of one folder of sources, loaded for two pods, in a namespace of this process."""

    def __init__(self, node: NodeUnderTest, empty: int) -> None:
        self.node, self.empty = node, empty
        self.port = 1024
        node.make_devices()
        node.load(node.policy().allow("a", "b", ANY))
        self.stats = bpf_syscall.bpf(_ENABLE_STATS, struct.pack("=I", 0))

    def measured(self) -> dict[str, float]:
        """One round: what -> ns."""
        found: dict[str, float] = {}
        for family in (4, 6):
            packets = {
                "established": ("a", frame(A, B, tcp(1000, 80, ACK | PSH), family=family)),
                "reply": ("b", frame(B, A, tcp(80, 1000, ACK), family=family)),
            }
            self._shake_hands(family)
            for what, (sender, packet) in packets.items():
                found[f"{what} TCP, IPv{family}"] = self._repeated(sender, packet)
            found[f"new TCP, IPv{family}"] = self._each(
                [frame(A, B, tcp(self._port(), 80, SYN), family=family) for _ in range(NEW_FLOWS)]
            )
            found[f"new UDP, IPv{family}"] = self._each(
                [frame(A, B, udp(self._port(), 53), family=family) for _ in range(NEW_FLOWS)]
            )
        return found

    def _port(self) -> int:
        self.port = self.port + 1 if self.port < 65535 else 1024
        return self.port

    def _shake_hands(self, family: int) -> None:
        for sender, packet in (
            ("a", frame(A, B, tcp(1000, 80, SYN), family=family)),
            ("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family)),
            ("a", frame(A, B, tcp(1000, 80, ACK), family=family)),
        ):
            if not self.node.sent_by(sender, packet):
                raise SystemExit("the handshake does not pass: nothing to measure")

    def _repeated(self, sender: str, packet: bytes) -> float:
        device = self.node.ifindex[LOCAL[sender]]
        with bpf_syscall.obj_get(self.node.pins.hook("pc_from_pod")) as hook:
            return _run(hook, packet, device) - _run(self.empty, packet, device)

    def _forget(self) -> None:
        """No connections: a first packet is one only where there is no entry."""
        for pin in self.node.pins.maps.glob("pc_ct[46]*"):
            with bpf_syscall.obj_get(pin) as table:
                for key in list(bpf_syscall.map_keys(table, bpf_syscall.map_info(table).key_size)):
                    bpf_syscall.map_delete(table, key)

    def _each(self, packets: list[bytes]) -> float:
        self._forget()
        device = self.node.ifindex[LOCAL["a"]]
        with bpf_syscall.obj_get(self.node.pins.hook("pc_from_pod")) as hook:
            return _counted(hook, packets, device) - _counted(self.empty, packets, device)


def _run(program: int, packet: bytes, device: int) -> float:
    """Nanoseconds of a run, the same packet each time."""
    data = ctypes.create_string_buffer(packet, 256)
    context = bytearray(192)
    struct.pack_into("=II", context, 36, device, device)
    pointer = (ctypes.c_char * len(context)).from_buffer(context)
    attr = bytearray(80)
    struct.pack_into(
        "=IIIIQQIIIIQ",
        attr,
        0,
        *(program, 0, len(packet), 0, ctypes.addressof(data), 0),
        *(REPEAT, 0, len(context), 0, ctypes.addressof(pointer)),
    )
    began = time.perf_counter_ns()
    bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
    spent = (time.perf_counter_ns() - began) / REPEAT
    if struct.unpack_from("=i", attr, 4)[0] != -1:
        raise SystemExit("the packet does not pass: nothing to measure")
    return spent


def _counted(program: int, packets: list[bytes], device: int) -> float:
    """Nanoseconds of a run over packets of which none comes twice, as the kernel counts them."""
    run = bpf_syscall.TestRun(program)
    before = _run_time(program)
    for packet in packets:
        if run(packet, ifindex=device, ingress_ifindex=device) != -1:
            raise SystemExit("a first packet does not pass: nothing to measure")
    after = _run_time(program)
    return (after[0] - before[0]) / (after[1] - before[1])


def _run_time(program: int) -> tuple[int, int]:
    info = ctypes.create_string_buffer(256)
    attr = struct.pack("=IIQ", program, len(info), ctypes.addressof(info))
    bpf_syscall.bpf(bpf_syscall.OBJ_GET_INFO_BY_FD, attr)
    spent, runs = struct.unpack_from("=QQ", info.raw, _RUN_TIME_AT)
    return spent, runs


@contextmanager
def _bed() -> Iterator[Bed]:
    with (
        tempfile.TemporaryDirectory(prefix="policyc-bench-") as name,
        own_network(),
        own_bpffs(Path(name) / "bpffs") as bpffs,
        ExitStack() as held,
    ):
        folder = Path(name)
        (folder / "empty.bpf.c").write_text(EMPTY)
        for source, target in (
            (DATAPATH / "hooks.bpf.c", "hooks.bpf.o"),
            (ROOT / "tests" / "kernel" / "policy.bpf.c", "policy.bpf.o"),
            (folder / "empty.bpf.c", "empty.bpf.o"),
        ):
            _compile(source, folder / target)
        bpffs.mkdir(exist_ok=True)
        empty = Loaded(folder / "empty.bpf.o", bpffs.parent, held).program("b_empty")
        node = NodeUnderTest(folder, folder, bpffs)
        try:
            yield Bed(node, empty)
        finally:
            node.close()


def _compile(source: Path, target: Path) -> None:
    include = (f"-I{DATAPATH}", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu")
    subprocess.run([*CLANG, *include, "-c", str(source), "-o", str(target)], check=True)
    subprocess.run(["llvm-strip", "-g", str(target)], check=True)


def main() -> None:
    """A round for each line that comes in."""
    pin_to_one_cpu()
    with _bed() as bed:
        for _ in sys.stdin:
            print(json.dumps(bed.measured()), flush=True)


if __name__ == "__main__":
    main()
