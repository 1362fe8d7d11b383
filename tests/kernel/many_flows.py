# SPDX-License-Identifier: Apache-2.0
"""A hundred thousand connections, and floods of first packets, by BPF_PROG_TEST_RUN; and what it takes.

Frames are made once, and ports and addresses written into them: hooks look at no checksum, and the
figures are for the hooks.
"""

import ctypes
import os
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime.json_value import JsonValue
from tests.kernel.node_under_test import LOCAL, NODE, UPLINK, WORLD, A, B, Host, NodeUnderTest
from tests.kernel.packets import ACK, SYN, Payload, frame, tcp, udp
from tests.kernel.service_yaml import PORT, TARGET, service, slices

NODE_PORT = 30080
N_NEW = 32768
"""PC_NEW_ENTRIES: what has not been answered, at most, of a family."""
_ENABLE_STATS = 32
_RUN_TIME_AT = 192  # of struct bpf_prog_info: run_time_ns, then run_cnt
_NEXT, _DROP = -1, 2
_PORTS_AT = {4: 34, 6: 54}
_SOURCE_END = {4: 30, 6: 38}


@dataclass(frozen=True)
class Flow:
    """From pod a to pod b."""

    proto: str
    sport: int
    dport: int


def flows(n: int) -> list[Flow]:
    """As many, half of them TCP and half UDP."""
    per_port = 60000
    return [
        Flow("tcp" if at % 2 else "udp", 2000 + at % per_port, 8000 + at // per_port)
        for at in range(n)
    ]


def node_port() -> list[JsonValue]:
    """A Service at the node's own address, whose endpoint is b."""
    ports = [{"name": "main", "protocol": "TCP", "port": PORT, "nodePort": NODE_PORT}]
    return [service(type="NodePort", ports=ports), *slices([B], port=TARGET)]


class Hooks:
    """The hooks of a loaded node, fed as fast as Python can."""

    def __init__(self, node: NodeUnderTest, family: int) -> None:
        self.node, self.family = node, family
        self._fds = {
            name: bpf_syscall.obj_get(node.pins.hook(name)).number
            for name in ("pc_from_pod", "pc_from_uplink")
        }
        self._runs = {name: bpf_syscall.TestRun(fd) for name, fd in self._fds.items()}
        self._frames = {
            ("a", "tcp", flags): self._frame(A, B, tcp(1, 1, flags)) for flags in (SYN, ACK)
        } | {("b", "tcp", flags): self._frame(B, A, tcp(1, 1, flags)) for flags in (SYN | ACK, ACK)}
        self._frames |= {
            ("a", "udp", 0): self._frame(A, B, udp(1, 1)),
            ("b", "udp", 0): self._frame(B, A, udp(1, 1)),
        }
        self._outside = self._frame(WORLD, NODE, tcp(1, NODE_PORT, SYN))
        self._stats = bpf_syscall.bpf(_ENABLE_STATS, struct.pack("=I", 0))

    def close(self) -> None:
        for fd in (*self._fds.values(), self._stats):
            os.close(fd)

    def _frame(self, src: Host, dst: Host, payload: Payload) -> bytearray:
        return bytearray(frame(src, dst, payload, family=self.family))

    def _send(self, pod: str, flow: Flow, flags: int = 0) -> bool:
        made = self._frames[pod, flow.proto, flags]
        ports = (flow.sport, flow.dport) if pod == "a" else (flow.dport, flow.sport)
        struct.pack_into("!HH", made, _PORTS_AT[self.family], *ports)
        device = self.node.ifindex[LOCAL[pod]]
        return self._runs["pc_from_pod"](bytes(made), device, device) != _DROP

    def open(self, wanted: Sequence[Flow]) -> int:
        """Both ends speak, and the first one again; gives how many passed."""
        return sum(self._open(flow) for flow in wanted)

    def _open(self, flow: Flow) -> bool:
        if flow.proto == "udp":
            return self._send("a", flow) and self._send("b", flow) and self._send("a", flow)
        return (
            self._send("a", flow, SYN)
            and self._send("b", flow, SYN | ACK)
            and self._send("a", flow, ACK)
        )

    def answers(self, wanted: Sequence[Flow]) -> int:
        """How many of what b says pass: it may open nothing, so that only an entry lets them."""
        return sum(self._send("b", flow, ACK if flow.proto == "tcp" else 0) for flow in wanted)

    def flood_from_pod(self, first: int, n: int) -> int:
        """First packets of TCP, each of a tuple of its own; gives how many passed."""
        return sum(
            self._send("a", Flow("tcp", 1024 + at % 60000, 100 + at // 60000), SYN)
            for at in range(first, first + n)
        )

    def flood_from_outside(self, first: int, n: int) -> int:
        """The same to the node port, each from an address of its own."""
        return sum(self._from_outside(at) for at in range(first, first + n))

    def _from_outside(self, at: int) -> bool:
        made, end = self._outside, _SOURCE_END[self.family]
        struct.pack_into("!HBB", made, end - 4, 0xC612, at >> 8 & 0xFF, at & 0xFF)  # 198.18.0.0/15
        struct.pack_into("!H", made, _PORTS_AT[self.family], 1024 + (at >> 16))
        device = self.node.ifindex[UPLINK]
        return self._runs["pc_from_uplink"](bytes(made), device, device) != _DROP

    def spent(self, hook: str = "pc_from_pod") -> tuple[int, int]:
        """Nanoseconds in the hook so far, and runs, as the kernel counts them."""
        info = ctypes.create_string_buffer(256)
        attr = struct.pack("=IIQ", self._fds[hook], len(info), ctypes.addressof(info))
        bpf_syscall.bpf(bpf_syscall.OBJ_GET_INFO_BY_FD, attr)
        nanoseconds, runs = struct.unpack_from("=QQ", info.raw, _RUN_TIME_AT)
        return nanoseconds, runs


def memory(node: NodeUnderTest) -> int:
    """Bytes that the kernel has for all maps of the hooks, by its own account."""
    return sum(_locked(fd) for fd in _maps(node))


def _maps(node: NodeUnderTest) -> Iterator[int]:
    for pin in sorted(node.pins.maps.iterdir()):
        with bpf_syscall.obj_get(pin) as fd:
            yield fd


def _locked(fd: int) -> int:
    with Path(f"/proc/self/fdinfo/{fd}").open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("memlock:"))


def entries(node: NodeUnderTest, family: int) -> tuple[int, int]:
    """(unanswered, kept)."""
    found = node.status()
    assert found
    used = {each.name: each.used or 0 for each in found.maps}
    return used[f"pc_ct{family}_new"], used[f"pc_ct{family}"]


def sample(wanted: Sequence[Flow], n: int, seed: int) -> list[Flow]:
    return random.Random(seed).sample(wanted, n)
