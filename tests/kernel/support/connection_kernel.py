# SPDX-License-Identifier: Apache-2.0
"""The kernel's side of the comparisons with a model: its loads, sent packets and entries."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from policyc.runtime import switch
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support import packets
from tests.kernel.support.connection_model import (
    Connection,
    Packet,
    Told,
    Who,
)
from tests.kernel.support.killed import die
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    C,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.packets import (
    SCTP,
    TCP,
    UDP,
    Payload,
)
from tests.kernel.support.table_policy import (
    LabelPlacer,
    Service,
    TablePolicy,
)

KINDS = {TCP: 0, UDP: 1, SCTP: 2}
MOVED = {"a": "pcb"}
"""Where pods are in the second set of endpoints: a has gone to the device of b, and b is no more."""
STATE = {
    "replied": 1,
    "fin_src": 2,
    "fin_dst": 4,
    "reset": 8,
    "by_node": 16,
    "denied": 32,
    "opening": 4096,
    "crossed": 8192,
    "either": 16384,
    "is_translated": 512,
    "is_front": 1024,
}
"""What a connection of a model is, and its bit of enum pc_ct_state."""

SECONDS = 4000
"""In ticks, of which no kernel has more than 1000 in a second."""

Words = list[tuple[str, str, tuple[Service, ...]]]
"""(source, destination, services) that are allowed."""

Labels = Mapping[str, str]
"""Pod -> the pod whose label it has. A pod that is not there has its own."""

OWN_LABELS: Labels = {}


class Entry(NamedTuple):
    """An entry of a connection, in the direction of its first packet."""

    src: tuple[bytes, int]
    dst: tuple[bytes, int]
    proto: int
    state: int
    version: int
    is_expired: bool
    src_device: str
    dst_device: str


def payload_of(packet: Packet) -> Payload:
    """As it goes on the wire."""
    if packet.is_icmp:
        make = packets.icmp if packet.family == 4 else packets.icmp6
        if packet.quoted is None:
            return make(packet.kind, 0, packet.sport)
        quoted = wire(packet.quoted, "02:00:00:00:00:01")[14:]
        return make(packet.kind, 0, 0, 0, quoted[: (20 if packet.family == 4 else 40) + 8])
    if packet.proto == TCP:
        ends = packet.sport, packet.dport
        return packets.tcp(*ends, packet.flags, seq=packet.seq, ack=packet.ack)
    if packet.proto == UDP:
        return packets.udp(packet.sport, packet.dport)
    if packet.proto == SCTP:
        return packets.sctp(packet.sport, packet.dport, packet.kind)
    return packets.raw(packet.proto, bytes(8))


def wire(packet: Packet, smac: str) -> bytes:
    """The frame."""
    ends = (
        packets.Host(smac, packet.src, packet.src),
        packets.Host(NODE.mac, packet.dst, packet.dst),
    )
    return packets.frame(*ends, payload_of(packet), family=packet.family)


def policy_of(words: Words) -> TablePolicy:
    """The policy that allows so much."""
    policy = TablePolicy(pods=("a", "b", "c"))
    for src, dst, services in words:
        if src != "world" and dst != "world":
            policy.allow(src, dst, *services)
        elif src == "world":
            policy.allow_ingress(src, dst, *services) if dst != "world" else None
        else:
            policy.allow_egress(src, dst, *services)
    return policy


def allows(words: Words, direction: str, subject: str, peer: str, packet: Packet) -> bool:
    """What the words say of a packet; nodes are of the world to them."""
    peer = peer if peer in "abc" else "world"
    src, dst = (subject, peer) if direction == "egress" else (peer, subject)
    return any(
        low <= key_of(packet) <= high
        for one, other, services in words
        if (one, other) == (src, dst)
        for low, high in services
    )


def key_of(packet: Packet) -> int:
    """The service key of docs/bundle-format.md."""
    if packet.is_icmp:
        return (3 if packet.family == 4 else 4) << 16 | packet.kind << 8
    kind = KINDS.get(packet.proto)
    return 5 << 16 | packet.proto if kind is None else kind << 16 | packet.dport


def who_is(family: int, is_moved: bool, labels: Labels = OWN_LABELS) -> dict[str, Who]:
    """Address -> whose it is, by the name that its labels give."""
    devices = MOVED if is_moved else LOCAL
    found = {NODE.address(family): Who("node", Told.NODE)}
    found[C.address(family)] = Who(labels.get("c", "c"), Told.POD)
    for name, device in devices.items():
        host = HOSTS[name]
        found[host.address(family)] = Who(labels.get(name, name), Told.POD, device, host.mac)
    return found


@dataclass
class Kernel:
    """A node that remembers nothing yet."""

    node: NodeUnderTest

    def change(
        self,
        words: Words,
        is_moved: bool,
        services: Sequence[JsonValue] | None = None,
        labels: Labels = OWN_LABELS,
    ) -> int:
        """Load; the epoch that is in force then."""
        devices = MOVED if is_moved else LOCAL
        entries = [endpoint(name, HOSTS[name], device) for name, device in devices.items()]
        entries.append(endpoint("c", C, None))
        for entry in entries:
            entry["labels"] = {"app": labels.get(str(entry["name"]), entry["name"])}
        self.node.load(policy_of(words), entries=entries, services=services, placer=LabelPlacer)
        with self.node.shared_map("pc_state") as fd:
            value = bpf_syscall.map_lookup(fd, bytes(4), 8)
        assert value is not None
        return int(struct.unpack("=Q", value)[0] >> 32)

    def change_and_die(self, words: Words, labels: Labels, is_after: bool) -> None:
        """Load, in a child: it dies before its switch, or after."""
        store = switch.store

        def store_and_die(pin: Path, word: switch.Word) -> None:
            if is_after:
                store(pin, word)
            die()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(switch, "store", store_and_die)
            self.change(words, is_moved=False, labels=labels)

    def let_seconds_pass(self, family: int) -> None:
        """What is known longer than a second is written by its next packet, which then looks at
        both halves of a translated connection. Expiry is put off, as that has the same effect.
        """
        field = self.node.layout("pc_ct").fields["expires"]
        at, size = field.offset, field.size
        for name in (f"pc_ct{family}", f"pc_ct{family}_new"):
            with self.node.shared_map(name) as fd:
                info = bpf_syscall.map_info(fd)
                for key in list(bpf_syscall.map_keys(fd, info.key_size)):
                    value = bytearray(bpf_syscall.map_lookup(fd, key, info.value_size) or b"")
                    expires = int.from_bytes(value[at : at + size], "little")
                    if expires > 1:
                        value[at : at + size] = (expires + SECONDS).to_bytes(size, "little")
                        bpf_syscall.map_update(fd, key, bytes(value))

    def remembered(self, family: int) -> Iterator[Entry]:
        """Every connection that has an entry, expired ones too."""
        devices = {index: name for name, index in self.node.ifindex.items()} | {0: ""}
        size = 4 if family == 4 else 16
        number = partial(int.from_bytes, byteorder="little")
        for name in (f"pc_ct{family}", f"pc_ct{family}_new"):
            with self.node.shared_map(name) as fd:
                info = bpf_syscall.map_info(fd)
                keys = list(bpf_syscall.map_keys(fd, info.key_size))
                values = [bpf_syscall.map_lookup(fd, key, info.value_size) for key in keys]
            for key, value in zip(keys, values, strict=True):
                assert value is not None
                entry = self.node.layout("pc_ct").unpack(value)
                ports = struct.unpack_from("!HH", key, 2 * size)
                ends = ((key[:size], ports[0]), (key[size : 2 * size], ports[1]))
                src, dst = reversed(ends) if entry["back"][0] else ends
                yield Entry(
                    src,
                    dst,
                    key[2 * size + 4],
                    number(entry["state"]) & sum(STATE.values()),
                    number(entry["epoch"]),
                    number(entry["expires"]) == 1,
                    devices[number(entry["src"][:4])],
                    devices[number(entry["dst"][:4])],
                )


def described(connection: Connection) -> Entry:
    """A model's connection as the kernel would remember it."""
    opened = connection.opened
    src, dst = ((packets.packed(end.address), end.port) for end in (opened.src, opened.dst))
    state = sum(bit for name, bit in STATE.items() if getattr(connection, name, False))
    devices = connection.src.device, connection.dst.device
    return Entry(src, dst, opened.proto, state, connection.version, connection.expired, *devices)
