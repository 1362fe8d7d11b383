# SPDX-License-Identifier: Apache-2.0
"""What uplinks do with pods that leave the cluster, as one state machine in Python.

It is written from decisions/0030, without keys, halves' ids or clocks: `test_masquerade_model.py` drives
it and the kernel with the same packets. Which port a connection gets is the kernel's to choose, so the
model is shown what the kernel made of a packet and says whether it may.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.kernel.connection_model import Packet
from tests.kernel.packets import SCTP

MOST_TRIES = 32
"""Ports that are looked at before a packet is dropped."""


class WrongPortError(AssertionError):
    """The kernel has given a connection a port that it must not."""


@dataclass(frozen=True)
class Here:
    """What a load has said: the node's address, the ports, who has which address, who is excepted.

    `pods` are those of the node: address -> device. `others` are addresses of other pods and nodes.
    """

    own: str
    ports: range
    pods: Mapping[str, str]
    others: frozenset[str]
    excepted: frozenset[str] = frozenset()

    def keeps(self, address: str) -> bool:
        """Whether pods go there under their own address."""
        return address in self.pods or address in self.others or address in self.excepted


Side = tuple[int, str, int, str, int]
"""Protocol, one's address and port, the other side's."""


@dataclass(eq=False)
class Leaving:
    """A connection, of a pod behind that device, or of the node (no device)."""

    inside: Side
    port: int
    """By which it has left."""
    device: str
    has_expired: bool = False


@dataclass
class MasqueradeModel:
    """A node whose pods leave by one uplink."""

    here: Here
    by_pod: dict[Side, Leaving] = field(default_factory=dict)
    by_port: dict[Side, Leaving] = field(default_factory=dict)
    """Under the node's address and the port outside."""

    def expire(self) -> None:
        """Everybody has been silent for too long."""
        for leaving in (*self.by_pod.values(), *self.by_port.values()):
            leaving.has_expired = True

    def goes_out(self, packet: Packet, seen: Packet | None) -> Packet | None:
        """What leaves, as the other side sees it; `seen` is what the kernel made of it."""
        here, is_nodes = self.here, packet.src == self.here.own
        if is_nodes and packet.proto != SCTP and packet.sport not in here.ports:
            return packet
        if packet.dst in here.pods or packet.dst in here.others:
            return packet
        inside = packet.proto, packet.src, packet.sport, packet.dst, packet.dport
        known = self.by_pod.get(inside)
        if known is not None and self._goes_on(known):
            return self._translated(packet, known)
        if not is_nodes and packet.src not in here.pods:
            return packet
        if here.keeps(packet.dst):
            return packet
        leaving = Leaving(inside, packet.sport, here.pods.get(packet.src, ""))
        return self._begin(packet, seen, leaving)

    def comes_in(self, packet: Packet) -> Packet:
        """What comes to the node's address, as its stack gets it."""
        if packet.proto != SCTP and packet.dport not in self.here.ports:
            return packet
        outside = packet.proto, packet.dst, packet.dport, packet.src, packet.sport
        known = self.by_port.get(outside)
        if known is None or known.has_expired or not self._holds(known):
            return packet
        if self.by_pod.get(known.inside) is not known:
            return packet
        return replace(packet, dst=known.inside[1], dport=known.inside[2])

    # --- what they share ------------------------------------------------------------------------

    def _holds(self, known: Leaving) -> bool:
        """The pod is still who it was, and what it speaks to is not excepted by now."""
        if not known.device:
            return True
        _, pod, _, there, _ = known.inside
        return self.here.pods.get(pod) == known.device and not self.here.keeps(there)

    def _goes_on(self, known: Leaving) -> bool:
        """It leaves by its port, as the last load lets it, and nobody else has that by now."""
        return (
            not known.has_expired
            and (known.inside[0] == SCTP or known.port in self.here.ports)
            and self._holds(known)
            and self.by_port.get(self._outside(known, known.port)) is known
        )

    def _outside(self, leaving: Leaving, port: int) -> Side:
        proto, _, _, there, there_port = leaving.inside
        return proto, self.here.own, port, there, there_port

    def _is_free(self, leaving: Leaving, port: int) -> bool:
        """Also where the same one has it, of whom the rest is forgotten."""
        there = self.by_port.get(self._outside(leaving, port))
        if there is None or there.has_expired or not self._holds(there):
            return True
        return there.inside == leaving.inside and there.device == leaving.device

    def _begin(self, packet: Packet, seen: Packet | None, leaving: Leaving) -> Packet | None:
        keeps_port = leaving.inside[0] == SCTP or packet.sport in self.here.ports
        own_is_free = keeps_port and self._is_free(leaving, packet.sport)
        if own_is_free:
            return self._take(packet, leaving, packet.sport)
        if leaving.inside[0] == SCTP:
            return None
        if seen is None:
            some_free = any(self._is_free(leaving, port) for port in self.here.ports)
            if len(self.here.ports) <= MOST_TRIES and some_free:
                raise WrongPortError(f"{packet} is dropped, and there are ports")
            return None
        if seen.sport not in self.here.ports or not self._is_free(leaving, seen.sport):
            raise WrongPortError(f"{packet} leaves by port {seen.sport}")
        return self._take(packet, leaving, seen.sport)

    def _take(self, packet: Packet, leaving: Leaving, port: int) -> Packet:
        leaving.port = port
        self.by_pod[leaving.inside] = leaving
        self.by_port[self._outside(leaving, port)] = leaving
        return self._translated(packet, leaving)

    def _translated(self, packet: Packet, leaving: Leaving) -> Packet:
        return replace(packet, src=self.here.own, sport=leaving.port)
