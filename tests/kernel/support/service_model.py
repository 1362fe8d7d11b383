# SPDX-License-Identifier: Apache-2.0
"""The datapath's handling of connections to Services, as one state machine in Python.

`connection_model.py` with translation: written from decisions/0023, without keys, bits or tables.
Each hook gives the packet as it leaves, or None. The kernel chooses the endpoint of a new
connection, so the model gets the kernel's packet and says whether that choice is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tests.kernel.support.connection_model import (
    Connection,
    Conversation,
    End,
    Found,
    Model,
    Packet,
    both_ways,
)
from tests.kernel.support.packets import (
    TCP,
    UDP,
)

LOWEST_OTHER_PORT = 0x8000
"""A port that the datapath chooses, as the client's own is taken, is not below."""


class Standing(Enum):
    """What an endpoint says of itself."""

    READY = "ready"
    DRAINING = "draining"
    """It terminates, and still serves."""
    CLOSED = "closed"


@dataclass(eq=False)
class Place:
    """An endpoint behind an address and port of a Service, for as long as it is listed."""

    frontend: End
    backend: End
    proto: int
    standing: Standing
    is_listed: bool = True

    @property
    def goes_on(self) -> bool:
        """UDP chooses again when its endpoint serves no more. TCP keeps its endpoint."""
        return self.is_listed and (self.standing is not Standing.CLOSED or self.proto == TCP)


@dataclass(eq=False)
class Half(Connection):
    """A connection to a Service as either of its two tuples has it."""

    place: Place = field(kw_only=True)
    port: int = field(kw_only=True)
    """The client's, on the other side."""
    flow: object = field(kw_only=True)
    """The same of both halves."""
    is_pre_nat: bool = field(kw_only=True, default=False)
    is_translated: bool = True


class WrongChoiceError(AssertionError):
    """The kernel has given a client an endpoint, or a port, that it must not."""


@dataclass
class ServiceModel(Model):
    """A node with Services."""

    places: dict[tuple[End, int], list[Place]] = field(default_factory=dict)
    """(address and port, protocol) -> its endpoints; all Services there are."""

    def serve(self, wanted: dict[tuple[End, int], dict[End, Standing]]) -> None:
        """Other endpoints from here on; those that stay are in the same place."""
        before, self.places = self.places, {}
        for (frontend, proto), ends in wanted.items():
            there = {place.backend: place for place in before.get((frontend, proto), [])}
            now = self.places.setdefault((frontend, proto), [])
            for end, standing in ends.items():
                place = there.get(end) or Place(frontend, end, proto, standing)
                place.standing = standing
                now.append(place)
        kept = {place for places in self.places.values() for place in places}
        for places in before.values():
            for place in places:
                place.is_listed = place in kept

    # --- the hooks ------------------------------------------------------------------------------

    def sent_by_pod(
        self, device: str, mac: str, packet: Packet, seen: Packet | None
    ) -> Packet | None:
        """The pod's packet after the hook; `seen` is the packet that the kernel made."""
        found = self._find(packet)
        known = found.connection
        if isinstance(known, Half) and known.is_pre_nat:
            if found.is_reply:
                return None
            return self._to_service(device, mac, packet, seen, found)
        if known and found.is_reply:
            return self._answered_by_pod(device, mac, packet, found)
        if isinstance(known, Half) and not known.denied and known.place.goes_on:
            return None  # its replies would equal those of the Service
        goes_on = (
            known is not None and known.replied and not (packet.is_opening and packet.proto == TCP)
        )
        if isinstance(known, Half) or not goes_on:
            places = self._places_of(packet)
            if places is not None:
                return self._begin(device, mac, packet, seen, places)
        if isinstance(known, Half):
            opens = self._is_pods(device, mac, packet) and self._open(packet, found.meets)
            return self._whole(packet, opens)
        return self._whole(packet, self.from_pod(device, mac, packet))

    def sent_to_pod(self, device: str, came_in: str, packet: Packet) -> Packet | None:
        """A forwarded packet, as the pod gets it."""
        found = self._find(packet)
        known = found.connection
        if not isinstance(known, Half):
            return self._whole(packet, self.to_pod(device, came_in, packet))
        if known.is_pre_nat:
            return None
        if not found.is_reply:
            return self._whole(packet, self.to_pod(device, came_in, packet))
        if found.is_fresh and known.dst.device not in ("", came_in):
            return None
        if not known.place.goes_on:
            return None
        if found.is_fresh:
            self._note_answer(known, packet)
        return self._as_service(known, packet, self.to_pod(device, came_in, packet))

    def sent_by_node(self, device: str, packet: Packet) -> Packet | None:
        """What the node itself says to a pod, as that gets it."""
        sent = self._sent_by_node(device, packet)
        return sent if self._is_pods_device(device) else None

    def _sent_by_node(self, device: str, packet: Packet) -> Packet | None:
        found = self._find(packet)
        known = found.connection
        if not isinstance(known, Half):
            return self._whole(packet, self.node_to_pod(device, packet))
        if known.is_pre_nat or (found.is_reply and not known.place.goes_on):
            return None
        if not found.is_reply:
            return self._whole(packet, self.node_to_pod(device, packet))
        if found.is_fresh:
            self._note_answer(known, packet)
        return self._as_service(known, packet, self.node_to_pod(device, packet))

    # --- to a Service ---------------------------------------------------------------------------

    def _to_service(
        self, device: str, mac: str, packet: Packet, seen: Packet | None, found: Found
    ) -> Packet | None:
        """On a connection that there is."""
        front = found.connection
        assert isinstance(front, Half)
        if not front.place.goes_on:
            return self._begin(device, mac, packet, seen, self._places_of(packet) or [])
        if found.is_fresh and not self._is_from(front.src, device, mac):
            return None
        translated = self._translated(packet, front.place, front.port)
        if found.is_fresh:
            front.note(packet, is_reply=False)
        back = self._any(translated.conversation)
        if back is None or back.expired:
            return self._decide(device, mac, packet, front.place, translated, again=True)
        is_own = isinstance(back, Half) and back.flow is front.flow
        if not is_own or (packet.is_opening and back.is_over):
            return self._begin(device, mac, packet, seen, self._places_of(packet) or [])
        if not found.is_fresh or back.version != self.version:
            return self._decide(device, mac, packet, front.place, translated, again=True)
        self._learn(front, back)
        back.note(packet, is_reply=False)
        return translated

    def _begin(
        self, device: str, mac: str, packet: Packet, seen: Packet | None, places: Sequence[Place]
    ) -> Packet | None:
        """A packet to a Service that is of no connection to it."""
        if not (packet.is_opening or packet.proto == UDP):
            return None
        open_now = _that_take_new(places)
        if not open_now or not self._is_pods(device, mac, packet):
            return None
        place, port = self._choice(packet, seen, open_now)
        return self._decide(device, mac, packet, place, self._translated(packet, place, port))

    def _choice(
        self, packet: Packet, seen: Packet | None, places: Sequence[Place]
    ) -> tuple[Place, int]:
        """The kernel's choice: the client's endpoint, or the endpoint that policy denied."""
        if seen is None:
            return self._denied_choice(packet, places)
        chosen = [p for p in places if p.backend == End(seen.dst, seen.dport)]
        if not chosen:
            raise WrongChoiceError(f"{packet} goes to {seen.dst}:{seen.dport}")
        is_own_taken = self._is_taken(self._translated(packet, chosen[0], packet.sport))
        if seen.sport != packet.sport and (seen.sport < LOWEST_OTHER_PORT or not is_own_taken):
            raise WrongChoiceError(f"{packet} goes from port {seen.sport}")
        if self._is_taken(self._translated(packet, chosen[0], seen.sport)):
            raise WrongChoiceError(f"{packet} goes from port {seen.sport}, which is taken")
        return chosen[0], seen.sport

    def _denied_choice(self, packet: Packet, places: Sequence[Place]) -> tuple[Place, int]:
        """The kernel has dropped the packet: it may have chosen any denied endpoint."""
        for place in places:
            translated = self._translated(packet, place, packet.sport)
            if not self._is_allowed(*self._ends(translated.conversation), translated):
                return place, packet.sport
        return places[0], packet.sport

    def _decide(
        self,
        device: str,
        mac: str,
        packet: Packet,
        place: Place,
        translated: Packet,
        again: bool = False,
    ) -> Packet | None:
        """The policy about the client and the endpoint. `again`: a connection that there was."""
        if not self._is_pods(device, mac, packet):
            return None
        src, dst = self._ends(translated.conversation)
        if not self._is_allowed(src, dst, translated):
            if again:
                self._deny(translated.conversation)
            self.connections.pop(both_ways(packet.conversation), None)
            return None
        back = self._any(translated.conversation) if again else None
        if (
            isinstance(back, Half)
            and back.opened == translated.conversation
            and (back.place, back.port) == (place, packet.sport)
        ):
            back.denied = back.expired = False
            back.src, back.dst, back.version = src, dst, self.version
        else:
            back = Half(
                *(translated.conversation, src, dst, self.version),
                place=place,
                port=packet.sport,
                flow=object(),
                opening=packet.has_opening and packet.is_opening,
            )
            self.connections[both_ways(translated.conversation)] = back
        back.note(packet, is_reply=False)
        self.connections[both_ways(packet.conversation)] = replace(
            back,
            opened=packet.conversation,
            port=translated.sport,
            is_pre_nat=True,
            opening=False,
        )
        return translated

    def _deny(self, conversation: Conversation) -> None:
        """As `_again` does. A connection of the opposite direction is not affected."""
        back = self._any(conversation)
        if back is not None and back.opened == conversation:
            back.denied, back.by_node = True, False
            back.expired = False

    # --- answers --------------------------------------------------------------------------------

    def _answered_by_pod(
        self, device: str, mac: str, packet: Packet, found: Found
    ) -> Packet | None:
        """A reply of an endpoint, at its own hook. The client's hook records the reply."""
        known = found.connection
        if isinstance(known, Half) and found.is_fresh:
            return self._whole(packet, self._is_from(known.dst, device, mac))
        return self._whole(packet, self.from_pod(device, mac, packet))

    def _note_answer(self, known: Half, packet: Packet) -> None:
        known.note(packet, is_reply=True)
        frontend = known.place.frontend
        front = self._any(
            Conversation(replace(known.opened.src, port=known.port), frontend, known.opened.proto)
        )
        if isinstance(front, Half) and front.flow is known.flow:
            front.note(packet, is_reply=True)

    @staticmethod
    def _as_service(known: Half, packet: Packet, passes: bool) -> Packet | None:
        frontend = known.place.frontend
        answer = replace(packet, src=frontend.address, sport=frontend.port, dport=known.port)
        return answer if passes else None

    # --- what they share ------------------------------------------------------------------------

    @staticmethod
    def _learn(front: Half, back: Connection) -> None:
        """What the endpoint's side knows of answers."""
        front.replied |= back.replied
        front.fin_src |= back.fin_src
        front.fin_dst |= back.fin_dst
        front.reset |= back.reset

    def _is_pods(self, device: str, mac: str, packet: Packet) -> bool:
        return self._is_from(self._who(packet.src), device, mac)

    @staticmethod
    def _whole(packet: Packet, passes: bool) -> Packet | None:
        return packet if passes else None

    def _places_of(self, packet: Packet) -> list[Place] | None:
        """None: it is to no Service."""
        return self.places.get((End(packet.dst, packet.dport), packet.proto))

    @staticmethod
    def _translated(packet: Packet, place: Place, port: int) -> Packet:
        return replace(packet, dst=place.backend.address, dport=place.backend.port, sport=port)

    def _is_taken(self, translated: Packet) -> bool:
        there = self._any(translated.conversation)
        if there is None or there.expired:
            return False
        if there.opened != translated.conversation and translated.has_opening:
            return True
        return not (there.denied or there.is_over)

    @staticmethod
    def _may_cross(connection: Connection) -> bool:
        return not (connection.by_node or isinstance(connection, Half))


def _that_take_new(places: Sequence[Place]) -> list[Place]:
    """Those that are ready; where none is, those that still serve."""
    for standing in (Standing.READY, Standing.DRAINING):
        found = [place for place in places if place.standing is standing]
        if found:
            return found
    return []
