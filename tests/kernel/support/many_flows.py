# SPDX-License-Identifier: Apache-2.0
"""A hundred thousand connections and floods of first packets, by BPF_PROG_TEST_RUN, with their cost.

Frames are made once, and ports and addresses written into them: hooks read no checksum, and the
figures are for the hooks.
"""

import ctypes
import os
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.network import network
from tests.kernel.support.node_under_test import (
    GROUP,
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    Host,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Payload,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    service,
    slices,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

NODE_PORT = 30080
N_NEW = 32768
"""PC_NEW_ENTRIES: what has not been answered, at most, of a family."""
_ENABLE_STATS = 32
_RUN_TIME_AT = 192  # of struct bpf_prog_info: run_time_ns, then run_cnt
_NEXT, _DROP = -1, 2
_PORTS_AT = {4: 34, 6: 54}
_SOURCE_END = {4: 30, 6: 38}


MORE = {
    f"d{number}": Host(
        f"02:00:00:00:00:{number + 0x40:02x}", f"10.0.0.{number + 64}", f"fd00::{number + 64}"
    )
    for number in range(8)
}
"""Clients beside pod a: a pod may keep a quarter of a table."""
CLIENTS = {"a": A, **MORE}


@dataclass(frozen=True)
class Flow:
    """From a client to pod b."""

    proto: str
    sport: int
    dport: int
    client: str = "a"


def flows(n: int) -> list[Flow]:
    """As many flows, half of them TCP and half UDP, of all clients but a."""
    per_port = 6000
    clients = list(MORE)
    return [
        Flow(
            "tcp" if at // 8 % 2 else "udp",
            20000 + at // 8 % per_port,
            8000 + at // 8 // per_port,
            clients[at % 8],
        )
        for at in range(n)
    ]


def load_clients(node: NodeUnderTest, *others: str) -> None:
    """Make the clients' devices, and let all clients and `others` open connections to b."""
    with network() as own:
        for name in MORE:
            own.add(f"pc{name}", "veth", group=GROUP, peer={"ifname": f"pc{name}.p"})
            for device in (f"pc{name}", f"pc{name}.p"):
                own.up(device)
            node.ifindex[f"pc{name}"] = own.index(f"pc{name}")
    policy = TablePolicy(pods=("a", "b", "c", *MORE))
    for name in (*CLIENTS, *others):
        policy.allow(name, "b", ANY)
    entries = [endpoint(name, HOSTS[name], LOCAL.get(name)) for name in ("a", "b", "c")]
    entries += [endpoint(name, host, f"pc{name}") for name, host in MORE.items()]
    node.load(policy, entries=entries, services=node_port(), uplinks=[UPLINK])


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
        payloads = {("udp", 0): udp(1, 1)}
        payloads |= {("tcp", flags): tcp(1, 1, flags) for flags in (SYN, SYN | ACK, ACK)}
        self._frames = {
            (name, is_sent, *how): self._frame(*((host, B) if is_sent else (B, host)), payload)
            for name, host in CLIENTS.items()
            for is_sent in (True, False)
            for how, payload in payloads.items()
        }
        self._outside = self._frame(WORLD, NODE, tcp(1, NODE_PORT, SYN))
        self._stats = bpf_syscall.bpf(_ENABLE_STATS, struct.pack("=I", 0))

    def close(self) -> None:
        for fd in (*self._fds.values(), self._stats):
            os.close(fd)

    def _frame(self, src: Host, dst: Host, payload: Payload) -> bytearray:
        return bytearray(frame(src, dst, payload, family=self.family))

    def _send(self, flow: Flow, flags: int = 0, *, back: bool = False) -> bool:
        made = self._frames[flow.client, not back, flow.proto, flags]
        ports = (flow.dport, flow.sport) if back else (flow.sport, flow.dport)
        struct.pack_into("!HH", made, _PORTS_AT[self.family], *ports)
        sender = "b" if back else flow.client
        device = self.node.ifindex[LOCAL.get(sender, f"pc{sender}")]
        return self._runs["pc_from_pod"](bytes(made), device, device) != _DROP

    def open(self, wanted: Sequence[Flow]) -> int:
        """Both ends send, and the first one again; gives how many passed."""
        return sum(self._open(flow) for flow in wanted)

    def _open(self, flow: Flow) -> bool:
        if flow.proto == "udp":
            return self._send(flow) and self._send(flow, back=True) and self._send(flow)
        return (
            self._send(flow, SYN)
            and self._send(flow, SYN | ACK, back=True)
            and self._send(flow, ACK)
        )

    def goes_on(self, wanted: Sequence[Flow]) -> int:
        """How many of what the clients say pass."""
        return sum(self._send(flow, ACK if flow.proto == "tcp" else 0) for flow in wanted)

    def answers(self, wanted: Sequence[Flow]) -> int:
        """How many of what b says pass: it may open nothing, so that only an entry lets them."""
        return sum(
            self._send(flow, ACK if flow.proto == "tcp" else 0, back=True) for flow in wanted
        )

    def flood_from_pod(self, first: int, n: int) -> int:
        """First packets of TCP, each of a tuple of its own; gives how many passed."""
        return sum(
            self._send(Flow("tcp", 1024 + at % 60000, 100 + at // 60000), SYN)
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
    """(unanswered, established)."""
    found = node.status()
    assert found
    used = {each.name: each.used or 0 for each in found.maps}
    return used[f"pc_ct{family}_new"], used[f"pc_ct{family}"]


def sample(wanted: Sequence[Flow], n: int, seed: int) -> list[Flow]:
    return random.Random(seed).sample(wanted, n)
