# SPDX-License-Identifier: Apache-2.0
"""Frames that leave by SNAT and their answers."""

import ipaddress
import struct

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

families = pytest.mark.parametrize("family", [4, 6])

LOW, HIGH = 50000, 50062

OTHER = Host(WORLD.mac, "203.0.113.10", "2001:db8::a")


def loaded(
    node: NodeUnderTest,
    policy: TablePolicy | None = None,
    ports: range = range(LOW, HIGH + 1),
    excepted: tuple[str, ...] = (),
) -> None:
    if policy is None:
        policy = node.policy().allow("a", "world", ANY).allow("b", "world", ANY)
    networks = tuple(map(ipaddress.ip_network, excepted))
    node.load(policy, uplinks=[UPLINK], masquerade=Masquerade(ports, networks))


def sent(payload: Payload, family: int, pod: Host = A, to: Host = WORLD) -> bytes:
    """What a pod sends, as the stack has routed it."""
    return frame(NODE, to, payload, family=family, saddr=pod.address(family))


def left(payload: Payload, family: int, to: Host = WORLD) -> bytes:
    """The same on the wire."""
    return frame(NODE, to, payload, family=family)


def answer(payload: Payload, family: int, by: Host = WORLD) -> bytes:
    """What comes back."""
    return frame(by, NODE, payload, family=family)


def answered(payload: Payload, family: int, pod: Host = A, by: Host = WORLD) -> bytes:
    """The same, as the stack gets it."""
    return frame(by, NODE, payload, family=family, daddr=pod.address(family))


def port_of(packet: bytes | None, family: int) -> int:
    """The source port, or the id of an echo request."""
    assert packet is not None
    at = 14 + (20 if family == 4 else 40)
    proto = packet[23 if family == 4 else 20]
    return int(struct.unpack_from("!H", packet, at + (4 if proto in (1, 58) else 0))[0])


def out(node: NodeUnderTest, payload: Payload, family: int, pod: str = "a") -> bytes | None:
    """Through both hooks: from the pod, and out."""
    host = {"a": A, "b": B}[pod]
    if not node.sent_by(pod, frame(host, WORLD, payload, family=family)):
        return None
    return node.goes_out(sent(payload, family, host), pod)


def ends(node: NodeUnderTest) -> dict[bytes, dict[str, bytes]]:
    """Both SNAT entries of every connection."""
    with node.shared_map("pc_masq_ends") as fd:
        info = bpf_syscall.map_info(fd)
        keys = list(bpf_syscall.map_keys(fd, info.key_size))
        values = {key: bpf_syscall.map_lookup(fd, key, info.value_size) for key in keys}
    layout = node.layout("pc_masq_end")
    return {key: layout.unpack(value) for key, value in values.items() if value is not None}


def expire(node: NodeUnderTest, *keys: bytes) -> None:
    """Let these, or all, have been silent for too long."""
    field = node.layout("pc_masq_end").fields["expires"]
    at, size = field.offset, field.size
    with node.shared_map("pc_masq_ends") as fd:
        length = bpf_syscall.map_info(fd).value_size
        for key in keys or tuple(ends(node)):
            value = bytearray(bpf_syscall.map_lookup(fd, key, length) or b"")
            value[at : at + size] = struct.pack("=Q", 1)
            bpf_syscall.map_update(fd, key, bytes(value))
