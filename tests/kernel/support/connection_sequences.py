# SPDX-License-Identifier: Apache-2.0
"""Random sequences of packets, silences and changes of policy, sent and predicted."""

from dataclasses import dataclass, replace

from tests.kernel.support.connection_kernel import wire
from tests.kernel.support.connection_model import (
    ABORT,
    ECHO,
    ECHO_REPLY,
    INIT,
    INIT_ACK,
    Model,
    Packet,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    GRE,
    ICMP,
    ICMP6,
    RST,
    SCTP,
    SYN,
    TCP,
)
from tests.kernel.support.stories import GIVEN_A_NODE as GIVEN_A_NODE

PORTS = (80, 1000)

DATA = 0
"""An SCTP chunk that is no part of a handshake."""


@dataclass(frozen=True)
class Sent:
    """A packet at a hook; `came_in` None is the pod's own hook, "" the node itself."""

    packet: Packet
    pod: str
    came_in: str | None
    smac: str


@dataclass(frozen=True)
class Change:
    """Another policy, and where the pods are."""

    words: str
    is_moved: bool


@dataclass(frozen=True)
class Silence:
    """Connections of a port expire."""

    port: int


FLAGS = (SYN, SYN | ACK, ACK, ACK, ACK, FIN | ACK, RST | ACK)

CHUNKS = (INIT, INIT_ACK, DATA, DATA, ABORT)


@dataclass(frozen=True)
class Talk:
    """Two hosts, a protocol and ports: packets of it run both ways."""

    one: str
    other: str
    proto: int
    ports: tuple[int, int]

    def packet(self, family: int, number: int, *, is_back: bool) -> Packet:
        """One of its packets; the number picks flags, chunk or message."""
        src, dst = (self.other, self.one) if is_back else (self.one, self.other)
        sport, dport = self.ports[::-1] if is_back else self.ports
        ends = Packet(family, HOSTS[src].address(family), HOSTS[dst].address(family), self.proto)
        if self.proto == TCP:
            return replace(ends, sport=sport, dport=dport, flags=FLAGS[number % len(FLAGS)])
        if self.proto == SCTP:
            return replace(ends, sport=sport, dport=dport, kind=CHUNKS[number % len(CHUNKS)])
        if self.proto == ICMP:
            kind = (ECHO_REPLY if is_back else ECHO)[family]
            return replace(ends, proto=ICMP if family == 4 else ICMP6, sport=7, kind=kind)
        return ends if self.proto == GRE else replace(ends, sport=sport, dport=dport)


def tell(model: Model, step: Sent | Silence) -> bool | None:
    """What the model says of a packet; None of silence."""
    if isinstance(step, Silence):
        model.expire(step.port)
        return None
    device = LOCAL[step.pod]
    if step.came_in is None:
        return model.from_pod(device, step.smac, step.packet)
    if step.came_in:
        return model.to_pod(device, step.came_in, step.packet)
    return model.node_to_pod(device, step.packet)


def passes_kernel(node: NodeUnderTest, sent: Sent) -> bool:
    """The kernel's verdict."""
    frame = wire(sent.packet, sent.smac)
    if sent.came_in is None:
        return node.sent_by(sent.pod, frame)
    if sent.came_in:
        return node.sent_to(sent.pod, frame, came_in=sent.came_in)
    return node.sent_by_node_to(sent.pod, frame)
