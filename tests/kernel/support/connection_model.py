# SPDX-License-Identifier: Apache-2.0
"""The datapath's handling of connections, as one state machine in Python.

Packets, changes of policy and time go in. The verdict on each packet and the held connections come
out. It is written from semantics A4 and A22 to A24 and decisions/0019, without tables, keys or
bits: `test_connection_model.py` drives it and the kernel with the same sequences.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from tests.kernel.support.packets import (
    ACK,
    FIN,
    ICMP,
    ICMP6,
    RST,
    SCTP,
    SYN,
    TCP,
)

ECHO, ECHO_REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}
ERRORS = {4: (3, 11, 12), 6: (1, 2, 3, 4)}
INIT, INIT_ACK, ABORT = 1, 2, 6
"""The chunks that open and refuse an SCTP association."""


@dataclass(frozen=True)
class End:
    """One end of a packet's conversation; for ICMP its part of the identifier or type."""

    address: str
    port: int


@dataclass(frozen=True)
class Conversation:
    """The key of a connection, in the direction of one of its packets."""

    src: End
    dst: End
    proto: int
    is_other_icmp: bool = False

    def turned(self) -> "Conversation":
        return replace(self, src=self.dst, dst=self.src)


@dataclass(frozen=True)
class Packet:
    """A packet between two addresses; `kind` is the ICMP type or the SCTP chunk."""

    family: int
    src: str
    dst: str
    proto: int
    sport: int = 0
    dport: int = 0
    flags: int = 0
    kind: int = 0
    quoted: "Packet | None" = None
    """Of an ICMP error."""
    seq: int = 1
    ack: int = 1
    """Of TCP."""

    @property
    def is_icmp(self) -> bool:
        return self.proto in (ICMP, ICMP6)

    @property
    def is_error(self) -> bool:
        return self.is_icmp and self.kind in ERRORS[self.family]

    @property
    def conversation(self) -> Conversation:
        if not self.is_icmp:
            return Conversation(End(self.src, self.sport), End(self.dst, self.dport), self.proto)
        if self.kind == ECHO[self.family]:
            return Conversation(End(self.src, self.sport), End(self.dst, 0), self.proto)
        if self.kind == ECHO_REPLY[self.family]:
            return Conversation(End(self.src, 0), End(self.dst, self.sport), self.proto)
        told = self.kind << 8
        return Conversation(End(self.src, told), End(self.dst, 0), self.proto, is_other_icmp=True)

    @property
    def has_opening(self) -> bool:
        """Of a protocol whose first packet alone opens a connection."""
        return self.proto in (TCP, SCTP)

    @property
    def resets(self) -> bool:
        """It ends a connection, or refuses one."""
        if self.proto == TCP:
            return bool(self.flags & RST)
        return self.proto == SCTP and self.kind == ABORT

    @property
    def accepts(self) -> bool:
        """It answers the first packet of a connection."""
        if self.proto == TCP:
            return self.flags & (SYN | ACK | RST) == SYN | ACK
        return self.proto == SCTP and self.kind == INIT_ACK

    @property
    def is_opening(self) -> bool:
        """It can only begin a conversation."""
        if self.proto == TCP:
            return self.flags & (SYN | ACK | RST) == SYN
        if self.proto == SCTP:
            return self.kind == INIT
        return self.is_icmp and self.kind != ECHO_REPLY[self.family]


class Told(Enum):
    """The kind of an end, as this node knows it."""

    POD = "pod"
    NODE = "node"
    STRANGER = "stranger"


@dataclass(frozen=True)
class Who:
    """An end with an address. A pod of this node has a device."""

    name: str
    told: Told
    device: str = ""
    mac: str = ""


STRANGER = Who("world", Told.STRANGER)

Allows = Callable[[str, str, str, Packet], bool]
"""(`egress` or `ingress`, subject, peer, the packet that would open it) -> allowed."""


@dataclass
class Connection:
    """Of the direction in which it was opened; ends are as they were when it was decided."""

    opened: Conversation
    src: Who
    dst: Who
    version: int
    by_node: bool = False
    denied: bool = False
    opening: bool = False
    """Its first packet has not been answered yet."""
    crossed: bool = False
    """The other end was allowed to send a first packet, too."""
    either: bool = False
    """Nothing tells which end opened it."""
    replied: bool = False
    fin_src: bool = False
    fin_dst: bool = False
    reset: bool = False
    expired: bool = False

    @property
    def is_over(self) -> bool:
        return self.reset or self.fin_src or self.fin_dst

    def note(self, packet: Packet, is_reply: bool) -> None:
        """What a packet of it changes."""
        self.replied |= is_reply
        self.opening &= not (is_reply and packet.accepts)
        if packet.proto == TCP:
            self.reset |= bool(packet.flags & RST)
            self.fin_dst |= bool(packet.flags & FIN) and is_reply
            self.fin_src |= bool(packet.flags & FIN) and not is_reply


@dataclass
class Found:
    """The connection that a packet may use, if any."""

    connection: Connection | None = None
    is_reply: bool = False
    is_fresh: bool = False
    meets: Connection | None = None
    """Of a first packet: the connection that the other end has opened."""


@dataclass
class Model:
    """A node: the ends that it knows, its entries, and the policy in force."""

    allows: Allows = lambda *_: False
    who: dict[str, Who] = field(default_factory=dict)
    version: int = 0
    connections: dict[frozenset[Conversation], Connection] = field(default_factory=dict)

    def change(self, allows: Allows, who: dict[str, Who], version: int) -> None:
        """Another policy, or other pods, are in force from here on."""
        self.allows, self.who, self.version = allows, who, version

    def die_in_change(self, allows: Allows, who: dict[str, Who], version: int) -> None:
        """A load that is killed before its switch: the policy in force stays."""

    def expire(self, port: int) -> None:
        """Connections with such a port have been silent for too long."""
        for connection in self.connections.values():
            if port in (connection.opened.src.port, connection.opened.dst.port):
                connection.expired = True

    # --- the hooks ------------------------------------------------------------------------------

    def from_pod(self, device: str, mac: str, packet: Packet) -> bool:
        """Whether what comes in by a pod's device passes."""
        found = self._find(packet)
        known = found.connection
        if known and found.is_fresh:
            sender = known.dst if found.is_reply else known.src
            return self._is_from(sender, device, mac) and self._go_on(known, packet, found.is_reply)
        if not self._is_from(self._who(packet.src), device, mac):
            return False
        if self._is_related(packet, own=True):
            return True
        if not known:
            return self._open(packet, found.meets)
        src, dst = self._ends(known.opened)
        if known.by_node and src.told is not Told.POD:
            known.src, known.dst, known.version = src, dst, self.version
            return self._go_on(known, packet, found.is_reply)
        return self._again(known, packet, found.is_reply)

    def to_pod(self, device: str, came_in: str, packet: Packet) -> bool:
        """Whether what came in by another device, and is forwarded, passes on to a pod."""
        found = self._find(packet)
        known, was_node = found.connection, False
        if known and known.by_node and not found.is_reply:
            if found.is_fresh:
                return False
            known, was_node = None, True
        if known and found.is_fresh:
            ends = (known.dst, known.src) if found.is_reply else (known.src, known.dst)
            return self._may_reach(*ends, device, came_in) and self._go_on(
                known, packet, found.is_reply
            )
        if not self._may_reach(self._who(packet.src), self._who(packet.dst), device, came_in):
            return False
        if self._is_related(packet, own=False):
            return True
        if known:
            return self._again(known, packet, found.is_reply)
        return self._open(packet, found.meets, is_told=was_node)

    def node_to_pod(self, device: str, packet: Packet) -> bool:
        """Packets of the node to a pod always pass, and a connection that the node opens is
        recorded. A device without an endpoint belongs to no pod, and passes nothing.
        """
        passes = self._node_sends(device, packet)
        return passes and self._is_pods_device(device)

    def _node_sends(self, device: str, packet: Packet) -> bool:
        found = self._find(packet)
        known, src, dst = found.connection, self._who(packet.src), self._who(packet.dst)
        is_its = dst.device == device and src.told is not Told.POD
        if known:
            if known.by_node and not found.is_reply and not found.is_fresh and is_its:
                known.src, known.dst, known.version = src, dst, self.version
            return self._go_on(known, packet, found.is_reply)
        if self._node_opens(packet) and is_its:
            made = self._remember(packet, src, dst)
            made.by_node, made.opening = True, packet.has_opening
        return True

    # --- what they share ------------------------------------------------------------------------

    def _find(self, packet: Packet) -> Found:
        conversation = packet.conversation
        connection = self._any(conversation)
        if connection is None or connection.expired:
            return Found()
        is_reply = connection.opened != conversation
        if packet.is_opening and is_reply and packet.has_opening and self._may_cross(connection):
            return Found(meets=connection)
        if packet.is_opening and (is_reply or connection.is_over):
            return Found()
        if packet.accepts and not is_reply and connection.crossed:
            return Found() if connection.denied else Found(connection, is_reply=True)
        if connection.opening and not (
            packet.resets or (packet.accepts if is_reply else packet.is_opening)
        ):
            return Found()
        is_fresh = connection.version == self.version and not connection.denied
        return Found(connection, is_reply, is_fresh)

    @staticmethod
    def _may_cross(connection: Connection) -> bool:
        return not connection.by_node

    def _any(self, conversation: Conversation) -> Connection | None:
        return self.connections.get(both_ways(conversation))

    def _who(self, address: str) -> Who:
        return self.who.get(address, STRANGER)

    def _ends(self, conversation: Conversation) -> tuple[Who, Who]:
        return self._who(conversation.src.address), self._who(conversation.dst.address)

    @staticmethod
    def _is_from(sender: Who, device: str, mac: str) -> bool:
        return sender.device == device and sender.mac == mac

    @staticmethod
    def _may_reach(sender: Who, receiver: Who, device: str, came_in: str) -> bool:
        """A local pod's address is accepted from its own device only, and a pod gets only its own
        packets.
        """
        return sender.device in ("", came_in) and receiver.device == device

    @staticmethod
    def _go_on(connection: Connection, packet: Packet, is_reply: bool) -> bool:
        connection.note(packet, is_reply)
        return True

    def _is_related(self, packet: Packet, own: bool) -> bool:
        """An error about a packet of a passing connection, sent to that packet's source."""
        if not packet.is_error or packet.quoted is None:
            return False
        quoted = packet.quoted
        if quoted.src != packet.dst or (own and quoted.dst != packet.src):
            return False
        about = self._any(quoted.conversation)
        return (
            about is not None
            and not about.expired
            and about.version == self.version
            and not about.denied
        )

    def _is_allowed(self, src: Who, dst: Who, opening: Packet) -> bool:
        """By every end that is a pod of this node; a pod cannot block itself."""
        if src.told is not Told.STRANGER and src == dst:
            return bool(src.device or dst.device)
        return (
            bool(src.device or dst.device)
            and (not src.device or self.allows("egress", src.name, dst.name, opening))
            and (not dst.device or self.allows("ingress", dst.name, src.name, opening))
        )

    def _open(self, packet: Packet, meets: Connection | None = None, is_told: bool = False) -> bool:
        """A packet that finds no entry. No socket shows which end opened the connection, except
        `is_told`.
        """
        src, dst = self._ends(packet.conversation)
        is_unknown = packet.has_opening and not packet.is_opening and not is_told
        if is_unknown and not self._is_allowed(dst, src, _opening(packet)):
            return False
        if not self._is_allowed(src, dst, packet):
            return False
        if meets:
            meets.crossed = True
            return True
        made = self._remember(packet, src, dst)
        made.either = is_unknown
        made.opening = packet.has_opening and packet.is_opening
        return True

    def _remember(self, packet: Packet, src: Who, dst: Who) -> Connection:
        made = Connection(packet.conversation, src, dst, self.version)
        made.note(packet, is_reply=False)
        self.connections[both_ways(packet.conversation)] = made
        return made

    def _again(self, known: Connection, packet: Packet, is_reply: bool) -> bool:
        """The policy of now about a connection that an earlier one decided."""
        opened = packet.conversation.turned() if is_reply else packet.conversation
        src, dst = self._ends(opened)
        opening, other = packet, _opening(packet)
        if is_reply:
            opening, other = other, opening
        is_reopened = opened != known.opened  # the other end has opened another one
        if known.either and not is_reopened and not self._is_allowed(dst, src, other):
            return False
        is_allowed = self._is_allowed(src, dst, opening)
        if is_reopened:
            if is_allowed:
                self._reopen(opened, packet, src, dst)
            return is_allowed
        if is_allowed:
            known.by_node = known.denied = False
            known.src, known.dst, known.version = src, dst, self.version
            return self._go_on(known, packet, is_reply)
        known.denied, known.by_node = True, False
        return False

    def _reopen(self, opened: Conversation, packet: Packet, src: Who, dst: Who) -> None:
        """In the place of the one that the other end had opened."""
        made = Connection(opened, src, dst, self.version)
        made.note(packet, is_reply=True)
        self.connections[both_ways(opened)] = made

    def _is_pods_device(self, device: str) -> bool:
        return any(each.device == device for each in self.who.values())

    def _node_opens(self, packet: Packet) -> bool:
        """Not in the middle of a conversation: no socket of the node says so."""
        if packet.is_icmp:
            return packet.kind == ECHO[packet.family]
        return packet.is_opening or not packet.has_opening


def both_ways(conversation: Conversation) -> frozenset[Conversation]:
    """What both directions of it are found by."""
    return frozenset({conversation, conversation.turned()})


def _opening(reply: Packet) -> Packet:
    """The packet that the connection of a reply would have been opened by."""
    kind = ECHO[reply.family] if reply.is_icmp else reply.kind
    return replace(
        reply, src=reply.dst, dst=reply.src, sport=reply.dport, dport=reply.sport, kind=kind
    )
