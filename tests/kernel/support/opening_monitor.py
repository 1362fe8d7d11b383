# SPDX-License-Identifier: Apache-2.0
"""What may never pass, written from policies and handshakes alone (docs/threat-model.md).

A TCP or SCTP connection is opened by the end whose SYN was answered by a SYN-ACK. Nothing of it may
pass, either way, while the policy in force denies that direction. Two ends that answer each other's
SYN have both opened it (RFC 9293, 3.5): one allowed direction is enough. Where no handshake was
seen, nothing may pass unless both directions are allowed. The monitor knows no tables, entries or
states, so it shares no rule with the datapath or with its model (`connection_model.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.kernel.support.connection_model import Packet

Ends = tuple[tuple[str, int], tuple[str, int], int]
"""(source, destination, protocol) of a packet, each end an address and a port."""

MayOpen = Callable[[Packet], bool]
"""Whether the policy in force lets the packet's source open a connection by it."""


@dataclass
class Monitor:
    """What has passed so far, of all connections."""

    may_open: MayOpen
    opened: dict[Ends, bool] = field(default_factory=dict)
    """Of both directions: whether a handshake said that this one is the opening one."""
    begun: set[Ends] = field(default_factory=set)
    """Directions in which a SYN has passed that was not answered since."""
    crossed: set[Ends] = field(default_factory=set)
    """Of those: a SYN of the other direction was answered since."""

    def faults(self, packet: Packet) -> str:
        """Why the packet, which has passed, should not have; empty if it may."""
        if not packet.has_opening:
            return ""
        ends, back = ends_of(packet), ends_of(turned(packet))
        if packet.is_opening:
            self.begun.add(ends)
            self.crossed.discard(ends)
            return "" if self.may_open(packet) else "a SYN that is denied"
        if packet.accepts and back in self.begun:
            self.begun.discard(back)
            self.opened[ends], self.opened[back] = back in self.crossed, True
            self.crossed.discard(back)
            if ends in self.begun:
                self.crossed.add(ends)
        return self._of_connection(packet, ends, back)

    def _of_connection(self, packet: Packet, ends: Ends, back: Ends) -> str:
        is_forward, is_backward = self.may_open(packet), self.may_open(turned(packet))
        # A reset belongs to a handshake as much as to a connection.
        if packet.resets and (
            (ends in self.begun and is_forward) or (back in self.begun and is_backward)
        ):
            return ""
        if ends not in self.opened:
            return "" if is_forward and is_backward else "a connection that may be a denied one"
        is_allowed = (self.opened[ends] and is_forward) or (self.opened[back] and is_backward)
        return "" if is_allowed else "a connection whose opening direction is denied"


def ends_of(packet: Packet) -> Ends:
    return (packet.src, packet.sport), (packet.dst, packet.dport), packet.proto


def turned(packet: Packet) -> Packet:
    """The packet as the other end would have sent it."""
    return replace(packet, src=packet.dst, dst=packet.src, sport=packet.dport, dport=packet.sport)
