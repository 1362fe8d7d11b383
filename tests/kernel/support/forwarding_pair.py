# SPDX-License-Identifier: Apache-2.0
"""Two pods of a node whose traffic may take the fast path."""

import ctypes
import struct
from dataclasses import dataclass, replace

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NEXT,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Payload,
    frame,
    mac_bytes,
    tcp,
)
from tests.kernel.support.wire import (
    Wire,
    link_address,
)

REDIRECT = 7

MARK = 0xB0B

OTHER = {"a": "b", "b": "a"}


@dataclass
class Outcome:
    """What a hook made of a frame."""

    verdict: int
    frame: bytes
    mark: int


@dataclass
class Pair:
    """Pods a and b behind veths whose other sides are in namespaces of their own."""

    node: NodeUnderTest
    wire: Wire | None = None

    def leave(self, pod: str) -> None:
        """The pod has its addresses no more at the device it had."""
        assert self.wire is not None
        self.wire.within(pod, lambda: ip("addr", "flush", "dev", f"{LOCAL[pod]}.p"))

    def __post_init__(self) -> None:
        self.gateways = {pod: link_address(device) for pod, device in LOCAL.items()}

    def frame(self, pod: str, payload: Payload, *, family: int = 4, **fields: object) -> bytes:
        """From the pod to the other one, by its gateway."""
        gateway = replace(HOSTS[OTHER[pod]], mac=self.gateways[pod])
        return frame(HOSTS[pod], gateway, payload, family=family, **fields)

    def send(self, pod: str, sent: bytes, device: str = "") -> Outcome:
        """Through the pod's hook, marked as by a program before it."""
        ifindex = self.node.ifindex[device or LOCAL[pod]]
        return self._run("pc_from_pod", sent, ifindex, ifindex)

    def bring(self, pod: str, sent: bytes, mac: str = "") -> bytes:
        """As the stack brings the other pod's frame to this one; gives what the pod gets."""
        there, came = self.node.ifindex[LOCAL[pod]], self.node.ifindex[LOCAL[OTHER[pod]]]
        brought = mac_bytes(mac or HOSTS[pod].mac) + mac_bytes(self.gateways[pod]) + sent[12:]
        done = self._run("pc_to_pod", brought, there, came)
        assert done.verdict == NEXT
        return done.frame

    def open(self, family: int = 4, payload: Payload | None = None) -> None:
        """A connection of a to b whose first packet has passed at both devices. That of TCP is
        answered, which has passed at b's alone.
        """
        sent = self.frame("a", payload or tcp(1000, 80, SYN), family=family)
        assert self.send("a", sent).verdict == NEXT
        self.bring("b", sent)
        if payload is None:
            self.answer(family)

    def answer(self, family: int = 4) -> None:
        """The SYN-ACK of b, at its device."""
        sent = self.frame("b", tcp(80, 1000, SYN | ACK), family=family)
        assert self.send("b", sent).verdict == NEXT

    def _run(self, program: str, sent: bytes, ifindex: int, came: int) -> Outcome:
        ctx = bytearray(192)
        struct.pack_into("=I", ctx, 8, MARK)
        struct.pack_into("=II", ctx, 36, came, ifindex)
        data = ctypes.create_string_buffer(sent, len(sent))
        out, context = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(bytes(ctx))
        with bpf_syscall.obj_get(self.node.pins.hook(program)) as fd:
            addresses = ctypes.addressof(data), ctypes.addressof(out)
            attr = bytearray(struct.pack("=IIIIQQ", fd, 0, len(sent), len(out), *addresses))
            at = ctypes.addressof(context)
            attr += struct.pack("=IIIIQQ", 1, 0, len(ctx), len(ctx), at, at) + bytes(16)
            bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
        verdict, _, size = struct.unpack_from("=iII", attr, 4)
        (mark,) = struct.unpack_from("=I", context.raw, 8)
        return Outcome(verdict, out.raw[:size], mark)
