# SPDX-License-Identifier: Apache-2.0
"""The hooks of one checkout, loaded for two pods: a round of measurements for each line of input.

`packets.py` starts one for each checkout, with that one's modules on Python's path;
POLICYC_BENCH_SOURCES is another folder of the datapath's sources.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tests.kernel
from bpf_time import Loaded, pin_to_one_cpu
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    A,
    B,
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.packets import (
    ACK,
    PSH,
    SYN,
    Host,
    Payload,
    frame,
    mac_bytes,
    tcp,
    udp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    web,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.wire import (
    Wire,
    link_address,
)
from tests.kernel_corpus.surroundings import own_bpffs, own_network

from policyc.runtime.kernel import bpf_syscall

ROOT = Path(tests.kernel.__file__).resolve().parents[2]
DATAPATH = Path(os.environ.get("POLICYC_BENCH_SOURCES", ROOT / "runtime" / "datapath"))
EMPTY = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("tc") int b_empty(struct __sk_buff *skb) { return skb->len ? -1 : 2; }
char b_license[] SEC("license") = "Dual BSD/GPL";
"""
PACKETS, NEW_PACKETS = 20000, 4000
"""Of a pod, whose quota is 8192 new connections: at its quota, it looks at eight entries for each."""
CALLS, HOPS = 500, 200
NEXT, REDIRECT = -1, 7
CLANG = ("clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fno-strict-aliasing")
_ENABLE_STATS = 32
_RUN_TIME_AT = 192  # of struct bpf_prog_info: run_time_ns, then run_cnt


class Bed:
    """The hooks of one folder of sources, loaded for two pods, in a namespace of this process."""

    def __init__(self, node: NodeUnderTest, empty: int) -> None:
        self.node, self.empty = node, empty
        self.port = 1024
        self.gateways = {pod: link_address(device) for pod, device in LOCAL.items()}
        node.load(node.policy().allow("a", "b", ANY), services=web(B))
        self.stats = bpf_syscall.bpf(_ENABLE_STATS, struct.pack("=I", 0))

    def measured(self, wanted: str) -> dict[str, float]:
        """One round: measurement -> ns, of `known` packets, `new` packets, or all."""
        found: dict[str, float] = {}
        for family in (4, 6):
            for what, there, port in (("", B, 80), (" Service", VIP, PORT)):
                if wanted != "new":
                    found |= self._known(what, there, port, family)
                if wanted != "known":
                    found |= self._new(what, there, port, family)
        return found

    def _known(self, what: str, there: Host, port: int, family: int) -> dict[str, float]:
        self._forget()
        back = TARGET if there is VIP else port
        self._shake_hands(there, port, back, family)
        request = self._frame("a", there, tcp(1000, port, ACK | PSH), family)
        reply = self._frame("b", A, tcp(back, 1000, ACK), family)
        found = {
            f"known{what}, IPv{family}": self._each("a", [request] * PACKETS),
            f"reply{what}, IPv{family}": self._each("b", [reply] * PACKETS),
        }
        if there is B:
            found[f"known, warm, IPv{family}"] = self._warm(port, family)
        return found

    def _new(self, what: str, there: Host, port: int, family: int) -> dict[str, float]:
        found = {}
        for kind, build in (("TCP", tcp), ("UDP", udp)):
            if there is VIP and kind == "UDP":
                continue
            flags = (SYN,) if kind == "TCP" else ()
            self._forget()
            sent = (build(self._port(), port, *flags) for _ in range(NEW_PACKETS))
            found[f"new{what} {kind}, IPv{family}"] = self._each(
                "a", [self._frame("a", there, each, family) for each in sent]
            )
        return found

    def _frame(self, pod: str, there: Host, payload: Payload, family: int) -> bytes:
        """A frame to the pod's gateway: only such frames use the fast path."""
        gateway = Host(self.gateways[pod], there.ip4, there.ip6)
        return frame(HOSTS[pod], gateway, payload, family=family)

    def _port(self) -> int:
        self.port = self.port + 1 if self.port < 65535 else 1024
        return self.port

    def _shake_hands(self, there: Host, port: int, back: int, family: int, mark: int = 0) -> None:
        """Send the handshake through both hooks. Marked first packets take the stack path."""
        for sender, receiver, packet in (
            ("a", "b", self._frame("a", there, tcp(1000, port, SYN), family)),
            ("b", "a", self._frame("b", A, tcp(back, 1000, SYN | ACK), family)),
            ("a", "b", self._frame("a", there, tcp(1000, port, ACK), family)),
            ("b", "a", self._frame("b", A, tcp(back, 1000, ACK), family)),
        ):
            came = self.node.ifindex[LOCAL[sender]]
            with bpf_syscall.obj_get(self.node.pins.hook("pc_from_pod")) as hook:
                verdict, sent = run_through(hook, packet, came, came, mark)
            if verdict == REDIRECT:
                continue
            macs = mac_bytes(HOSTS[receiver].mac) + mac_bytes(self.gateways[receiver])
            with bpf_syscall.obj_get(self.node.pins.hook("pc_to_pod")) as hook:
                device = self.node.ifindex[LOCAL[receiver]]
                brought, _ = run_through(hook, macs + sent[12:], device, came)
            if (verdict, brought) != (NEXT, NEXT):
                raise SystemExit("the handshake does not pass: nothing to measure")

    def _forget(self) -> None:
        """No connections: a first packet is one only where there is no entry."""
        for pin in self.node.pins.maps.glob("pc_ct[46]*"):
            with bpf_syscall.obj_get(pin) as table:
                for key in list(bpf_syscall.map_keys(table, bpf_syscall.map_info(table).key_size)):
                    bpf_syscall.map_delete(table, key)

    def _warm(self, port: int, family: int) -> float:
        """One packet over and over in one call, as it comes out: with the pod's own MAC for a gateway's,
        and hops enough, it stays one of the connection.
        """
        self._forget()
        own, self.gateways["b"] = self.gateways["b"], HOSTS["a"].mac
        self._shake_hands(B, port, port, family, mark=1)
        self.gateways["b"] = own
        hops = {"ttl" if family == 4 else "hop_limit": 255}
        gateway = Host(self.gateways["a"], B.ip4, B.ip6)
        request = frame(HOSTS["a"], gateway, tcp(1000, port, ACK | PSH), family=family, **hops)
        device = self.node.ifindex[LOCAL["a"]]
        with bpf_syscall.obj_get(self.node.pins.hook("pc_from_pod")) as hook:
            return _repeated(hook, request, device) - _repeated(self.empty, request, device)

    def _each(self, pod: str, packets: list[bytes]) -> float:
        device = self.node.ifindex[LOCAL[pod]]
        with bpf_syscall.obj_get(self.node.pins.hook("pc_from_pod")) as hook:
            return _counted(hook, packets, device) - _counted(self.empty, packets, device)


def _counted(program: int, packets: list[bytes], device: int) -> float:
    """Nanoseconds of a run, as the kernel counts them."""
    run = bpf_syscall.TestRun(program)
    before = _run_time(program)
    for packet in packets:
        if run(packet, ifindex=device, ingress_ifindex=device) not in (NEXT, REDIRECT):
            raise SystemExit("a packet does not pass: nothing to measure")
    after = _run_time(program)
    return (after[0] - before[0]) / (after[1] - before[1])


def _repeated(program: int, packet: bytes, device: int) -> float:
    """Nanoseconds of a run: the minimum of many calls."""
    run = bpf_syscall.TestRun(program)
    found = []
    for _ in range(CALLS):
        if run(packet, device, device, repeat=HOPS) not in (NEXT, REDIRECT):
            raise SystemExit("a packet does not pass: nothing to measure")
        found.append(run.nanoseconds)
    return min(found)


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
        compile_objects(folder)
        _compile(folder / "empty.bpf.c", folder / "empty.bpf.o")
        bpffs.mkdir(exist_ok=True)
        empty = Loaded(folder / "empty.bpf.o", bpffs.parent, held).program("b_empty")
        node = NodeUnderTest(folder, folder, bpffs)
        node.make_devices()
        Wire(node, held)
        try:
            yield Bed(node, empty)
        finally:
            node.close()


def compile_objects(folder: Path) -> None:
    """hooks.bpf.o and the tests' policy.bpf.o."""
    _compile(DATAPATH / "hooks.bpf.c", folder / "hooks.bpf.o")
    _compile(ROOT / "tests" / "kernel" / "support" / "policy.bpf.c", folder / "policy.bpf.o")


def _compile(source: Path, target: Path) -> None:
    include = (f"-I{DATAPATH}", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu")
    subprocess.run([*CLANG, *include, "-c", str(source), "-o", str(target)], check=True)
    subprocess.run(["llvm-strip", "-g", str(target)], check=True)


def main() -> None:
    """Measure one round for each line of standard input, of the packets that it names."""
    pin_to_one_cpu()
    with _bed() as bed:
        for line in sys.stdin:
            print(json.dumps(bed.measured(line.strip())), flush=True)


if __name__ == "__main__":
    main()
