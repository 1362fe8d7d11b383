# SPDX-License-Identifier: Apache-2.0
"""Random sequences of packets through SNAT, sent and predicted."""

import ipaddress
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.connection_kernel import (
    MOVED,
    wire,
)
from tests.kernel.support.connection_model import Packet
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    C,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.passing_time import let_pass
from tests.kernel.support.snat_frames import OTHER
from tests.kernel.support.snat_model import (
    Here,
    Leaving,
    MasqueradeModel,
    Side,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.ticks import ticks

RANGES = range(50000, 50003), range(50001, 50064)

STEP = 4.06
"""Seconds between packets. No multiple of it comes near a time that something lives for."""


@dataclass(frozen=True)
class Load:
    """From here on: which ports, whether OTHER is excepted, whether pod a has b's device, and b none."""

    ports: int
    is_excepted: bool
    is_moved: bool


def here_of(load: Load, family: int) -> Here:
    """What a load says, to the model."""
    devices = MOVED if load.is_moved else LOCAL
    return Here(
        own=NODE.address(family),
        ports=RANGES[load.ports],
        pods={HOSTS[name].address(family): device for name, device in devices.items()},
        others=frozenset({C.address(family)}),
        excepted=frozenset({OTHER.address(family)} if load.is_excepted else ()),
    )


class Kernel:
    """A node whose pods leave."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.node = node
        self._at = time.monotonic()

    def load(self, load: Load) -> None:
        devices = MOVED if load.is_moved else LOCAL
        entries = [endpoint(name, HOSTS[name], device) for name, device in devices.items()]
        entries.append(endpoint("c", C, None))
        hosts = (f"{OTHER.ip4}/32", f"{OTHER.ip6}/128") if load.is_excepted else ()
        how = Masquerade(RANGES[load.ports], tuple(map(ipaddress.ip_network, hosts)))
        policy = self.node.policy().allow("a", "world", ANY).allow("b", "world", ANY)
        self.node.load(policy, entries=entries, uplinks=[UPLINK], masquerade=how)

    def goes_out(self, packet: Packet, pod: str | None) -> bytes | None:
        return self.node.goes_out(wire(packet, NODE.mac), pod)

    def comes_in(self, packet: Packet) -> bytes | None:
        return self.node.comes_in(wire(packet, WORLD.mac))

    def rest(self, seconds: float) -> None:
        """Time passes: so much since the last call, however long that was."""
        now = time.monotonic()
        tables = {"pc_masq_ends": "pc_masq_end"}
        let_pass(self.node.pins, self.node.objects, seconds - (now - self._at), tables)
        self._at = now

    def remembered(self) -> set[tuple[Side, str, int]]:
        """What answers find: under the node's address and port, whose it is; and no expired ones."""
        entry = self.node.layout("pc_masq_key")
        end = self.node.layout("pc_masq_end")
        found = set()
        for _, key, value, at in self._halves():
            (expires,) = struct.unpack_from("=Q", value, at)
            if not entry.number(key, "is_out") or (expires - 1 - ticks()) & 1 << 31:
                continue
            family, protocol = entry.number(key, "family"), entry.number(key, "proto")
            here, there = (_text(entry.raw(key, name), family) for name in ("here", "there"))
            ports = entry.number(key, "port"), entry.number(key, "there_port")
            pod = _text(end.raw(bytes(value), "addr"), family)
            side = protocol, here, ports[0], there, ports[1]
            found.add((side, pod, end.number(value, "port")))
        return found

    def _halves(self) -> Iterator[tuple[int, bytes, bytearray, int]]:
        at = self.node.layout("pc_masq_end").fields["expires"].offset
        with self.node.shared_map("pc_masq_ends") as fd:
            info = bpf_syscall.map_info(fd)
            for key in list(bpf_syscall.map_keys(fd, info.key_size)):
                value = bytearray(bpf_syscall.map_lookup(fd, key, info.value_size) or b"")
                yield fd, key, value, at


def _text(address: bytes, family: int) -> str:
    return str(ipaddress.ip_address(address[:4] if family == 4 else address))


class Choosing(MasqueradeModel):
    """Chooses for itself: the first port that is free, else one of its own that is over."""

    def _begin(self, packet: Packet, seen: Packet | None, leaving: Leaving) -> Packet | None:
        may_be = sorted(self.here.ports, key=lambda port: not self._is_free(leaving, port))
        free = next((port for port in may_be if self._may_be(leaving, port)), None)
        chosen = None if free is None else replace(packet, src=self.here.own, sport=free)
        return super()._begin(packet, chosen, leaving)
