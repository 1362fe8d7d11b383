# SPDX-License-Identifier: Apache-2.0
"""SNAT at uplinks, as one state machine in Python.

It is written from decisions/0030 and 0045, without keys or entry ids: `test_snat_model.py` drives
it and the kernel with the same packets. The kernel chooses the port of a connection, so the model
gets the kernel's packet and says whether that choice is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tests.kernel.support.connection_model import Packet
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SCTP,
    SYN,
    TCP,
)

EIGHT_HOURS = 8 * 3600
UNREPLIED, REPLIED = 30, {SCTP: 3600}

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
    expires: float = 0
    is_replied: bool = False
    is_answered: bool = False
    """By something else than a RST."""
    is_established: bool = False
    has_reset: bool = False
    has_closed: bool = False
    """The pod has sent its FIN."""
    has_finished: bool = False
    """The pod has acknowledged that of the other side."""
    fin: int | None = None
    """What acknowledges the last FIN from outside."""

    @property
    def idle(self) -> int:
        """How long it may be silent before it is no reservation any more."""
        proto = self.inside[0]
        if proto != TCP:
            return REPLIED.get(proto, 180) if self.is_replied else UNREPLIED
        if self.has_closed and self.has_finished:
            return 120
        return EIGHT_HOURS if self.is_established else 60

    def is_over(self, now: float) -> bool:
        """The same pod may take the port."""
        rests = 10 if self.has_reset else 30
        has_ended = self.has_reset or (self.has_closed and self.has_finished)
        return has_ended and self.expires + rests <= now + self.idle

    def is_abandoned(self, now: float) -> bool:
        """Another pod may take the port, as this one is gone."""
        return self.expires + 120 <= now + self.idle

    def touch(self, packet: Packet, is_reply: bool, now: float) -> None:
        """A packet of either side passes."""
        was_closed = self.has_closed and self.has_finished
        if packet.proto == TCP:
            self._handshake(packet, is_reply, was_closed)
        self.is_replied |= is_reply
        is_closed = self.has_closed and self.has_finished
        expires = now + self.idle
        self.expires = expires if is_closed > was_closed else max(self.expires, expires)

    def _handshake(self, packet: Packet, is_reply: bool, was_closed: bool) -> None:
        has, is_reset = packet.flags.__and__, bool(packet.flags & RST)
        has_ended = self.has_reset or self.has_closed or self.has_finished
        if not is_reply and has(SYN | ACK | RST) == SYN and has_ended:
            self.is_established &= not was_closed
            self.is_replied = self.is_answered = self.has_reset = False
            self.has_closed = self.has_finished = False
            self.fin = None
            return
        self.has_reset = is_reset
        if is_reply:
            self.is_answered |= not is_reset
            if has(FIN) and not self.has_finished:
                self.fin = packet.seq + 1
            return
        self.has_closed |= bool(has(FIN))
        self.is_established |= self.is_answered and not has(RST | SYN)
        if self.fin is not None and has(ACK):
            self.has_finished |= packet.ack == self.fin
            if packet.ack > self.fin:
                self.has_finished, self.fin = False, None


@dataclass
class MasqueradeModel:
    """A node whose pods leave by one uplink."""

    here: Here
    now: float = 0
    by_pod: dict[Side, Leaving] = field(default_factory=dict)
    by_port: dict[Side, Leaving] = field(default_factory=dict)
    """Under the node's address and the port outside."""

    def rest(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

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
            known.touch(packet, False, self.now)
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
        if known is None or known.expires <= self.now or not self._holds(known):
            return packet
        if self.by_pod.get(known.inside) is not known:
            return packet
        known.touch(packet, True, self.now)
        return replace(packet, dst=known.inside[1], dport=known.inside[2])

    # --- what they share ------------------------------------------------------------------------

    def _holds(self, known: Leaving) -> bool:
        """The pod is unchanged, and its destination is not excepted by now."""
        if not known.device:
            return True
        _, pod, _, there, _ = known.inside
        return self.here.pods.get(pod) == known.device and not self.here.keeps(there)

    def _goes_on(self, known: Leaving) -> bool:
        """It leaves by its port, as the last load allows, and no other pod has that port by now."""
        return (
            known.expires > self.now
            and (known.inside[0] == SCTP or known.port in self.here.ports)
            and self._holds(known)
            and self.by_port.get(self._outside(known, known.port)) is known
        )

    def _outside(self, leaving: Leaving, port: int) -> Side:
        proto, _, _, there, there_port = leaving.inside
        return proto, self.here.own, port, there, there_port

    def _is_reserved(self, known: Leaving) -> bool:
        """No other pod gets the port: the connection may continue, or packets to it may still
        arrive.
        """
        if known.expires <= self.now:
            return False
        return self._holds(known) or not known.is_abandoned(self.now)

    def _is_free(self, leaving: Leaving, port: int) -> bool:
        """Also where the same one has it, of whom the rest is forgotten."""
        there = self.by_port.get(self._outside(leaving, port))
        if there is None or not self._is_reserved(there):
            return True
        return there.inside == leaving.inside and there.device == leaving.device

    def _is_its_own(self, leaving: Leaving, port: int) -> bool:
        """Of a connection of the same pod that has ended."""
        there = self.by_port.get(self._outside(leaving, port))
        is_same = there and there.inside[1] == leaving.inside[1] and there.device == leaving.device
        return bool(there and is_same and leaving.inside[0] == TCP and there.is_over(self.now))

    def _begin(self, packet: Packet, seen: Packet | None, leaving: Leaving) -> Packet | None:
        keeps_port = leaving.inside[0] == SCTP or packet.sport in self.here.ports
        own_is_free = keeps_port and self._is_free(leaving, packet.sport)
        if own_is_free:
            return self._take(packet, leaving, packet.sport)
        if leaving.inside[0] == SCTP:
            return None
        free, may_be = partial(self._is_free, leaving), partial(self._may_be, leaving)
        is_small = len(self.here.ports) <= MOST_TRIES
        if seen is None:
            if is_small and any(map(may_be, self.here.ports)):
                raise WrongPortError(f"{packet} is dropped, and there are ports")
            return None
        is_wrong = seen.sport not in self.here.ports or not may_be(seen.sport)
        if is_wrong or (is_small and not free(seen.sport) and any(map(free, self.here.ports))):
            raise WrongPortError(f"{packet} leaves by port {seen.sport}")
        return self._take(packet, leaving, seen.sport)

    def _may_be(self, leaving: Leaving, port: int) -> bool:
        return self._is_free(leaving, port) or self._is_its_own(leaving, port)

    def _take(self, packet: Packet, leaving: Leaving, port: int) -> Packet:
        there = self.by_port.get(self._outside(leaving, port))
        if there is not None and self._is_reserved(there):
            if there.inside == leaving.inside and there.device == leaving.device:
                leaving = replace(there)
            else:
                leaving.is_established = there.is_established and there.idle == EIGHT_HOURS
                leaving.expires = there.expires
                if self.by_pod.get(there.inside) is there:
                    del self.by_pod[there.inside]
        leaving.port = port
        leaving.touch(packet, False, self.now)
        self.by_pod[leaving.inside] = leaving
        self.by_port[self._outside(leaving, port)] = leaving
        return self._translated(packet, leaving)

    def _translated(self, packet: Packet, leaving: Leaving) -> Packet:
        return replace(packet, src=self.here.own, sport=leaving.port)
