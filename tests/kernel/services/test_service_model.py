# SPDX-License-Identifier: Apache-2.0
"""The kernel and the model of `service_model.py`, driven by the same random sequences.

One client, two Services with the same few endpoints, one of them also at another node's port.
Endpoints are on this node, on another node, outside, and the node itself. Clients send to the
Services and directly to the endpoints. Policies, pods and endpoints change during connections, and
ports are reused. Both make the same packet of each, byte for byte, and hold the same entries in the
end.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from hypothesis import given, settings

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    REDIRECT,
)
from tests.kernel.support.connection_kernel import (
    Entry,
    Kernel,
    Words,
    allows,
    described,
    who_is,
    wire,
)
from tests.kernel.support.connection_model import (
    End,
    Found,
    Packet,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    TCP,
    UDP,
)
from tests.kernel.support.service_model import (
    LOWEST_OTHER_PORT,
    Half,
    Place,
    ServiceModel,
    Standing,
    WrongChoiceError,
)
from tests.kernel.support.service_sequences import changed_by
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    service,
    slices,
)
from tests.kernel.support.stories import (
    GIVEN_A_NODE,
    N_STORIES,
    SEEDS,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
    udp_port,
)

pytestmark = pytest.mark.kernel

ELSEWHERE = replace(C, ip4="10.0.1.1", ip6="fd00:1::1")
"""Another node, at which the first Service has a node port, of the same number as its port."""
VIPS = (VIP, OTHER_VIP, ELSEWHERE)
PORTS = (1000, 2000)
ENDPOINTS = ("b", "c", "world", "node")
PROTOCOLS = {TCP: "TCP", UDP: "UDP"}
CONDITIONS = {
    Standing.READY: {"ready": True},
    Standing.DRAINING: {"ready": False, "serving": True, "terminating": True},
    Standing.CLOSED: {"ready": False, "serving": False, "terminating": True},
}
WORDS: dict[str, Words] = {
    "nothing": [],
    "a may ask all": [("a", "b", (ANY,)), ("a", "c", (ANY,)), ("a", "world", (ANY,))],
    "a may ask b": [("a", "b", (tcp_port(TARGET), udp_port(TARGET)))],
    "a may ask others": [("a", "c", (tcp_port(TARGET),)), ("a", "world", (ANY,))],
    "all may ask": [(src, dst, (ANY,)) for src in ("a", "b", "c", "world")
                    for dst in ("a", "b", "c", "world")],
}  # fmt: skip


@dataclass(frozen=True)
class Ask:
    """The client sends to a Service; `number` picks the flags."""

    vip: int
    port: int
    number: int
    mac_of: str = "a"
    is_elsewhere: bool = False
    """By another pod's device."""


@dataclass(frozen=True)
class Carry:
    """What the client sent, translated, reaches its endpoint; `ago` says which."""

    ago: int
    came_in: str


@dataclass(frozen=True)
class Answer:
    """An endpoint answers what the client sent; at its own hook, or at the client's."""

    ago: int
    number: int
    at_own: bool


@dataclass(frozen=True)
class Direct:
    """The client and an endpoint, past the Service; `is_back`: the endpoint sends."""

    end: str
    port: int
    number: int
    is_back: bool
    says_vip: bool = False


@dataclass(frozen=True)
class Serve:
    """Other endpoints of both Services."""

    endpoints: tuple[tuple[str, Standing], ...]
    others: tuple[tuple[str, Standing], ...]


@dataclass(frozen=True)
class Change:
    """Another policy, and where the pods are."""

    words: str
    is_moved: bool


@dataclass(frozen=True)
class Silence:
    """All connections expire."""


Step = Ask | Carry | Answer | Direct | Serve | Change | Silence


@dataclass(frozen=True)
class Story:
    """A sequence of steps, over one family and one protocol."""

    family: int
    proto: int
    steps: list[Step]


# --- what is drawn --------------------------------------------------------------------------------

FLAGS = (SYN, SYN, ACK, ACK, ACK, FIN | ACK, RST | ACK)
ANSWERS = (SYN | ACK, SYN | ACK, ACK, ACK, FIN | ACK, RST | ACK, SYN)
STANDINGS = (Standing.READY, Standing.READY, Standing.DRAINING, Standing.CLOSED)
KINDS = ("ask", "ask", "answer", "answer", "carry", "direct", "direct", "change")


class Teller:
    """Stories by chance: a seed makes the same one again."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def story(self, least: int, most: int) -> Story:
        """A policy and endpoints to begin with, and so many steps."""
        rng = self._rng
        first = Change(rng.choice(("all may ask", "a may ask all")), is_moved=False)
        steps = [self._step() for _ in range(rng.randint(least, most))]
        return Story(
            rng.choice((4, 6)), rng.choice((TCP, TCP, UDP)), [first, self._serve(), *steps]
        )

    def _step(self) -> Step:
        rng = self._rng
        number, ago = rng.randrange(len(FLAGS)), rng.choice((0, 0, 0, 1, 2, 3))
        kind = rng.choice(KINDS)
        if kind == "ask":
            return Ask(
                *(rng.choice((0, 0, 1, 1, 2)), rng.choice(PORTS), number),
                *(rng.choice("aaaaaaab"), not rng.randrange(12)),
            )
        if kind == "answer":
            return Answer(ago, number, rng.random() < 0.5)
        if kind == "carry":
            return Carry(ago, rng.choice((LOCAL["a"], LOCAL["a"], LOCAL["a"], UPLINK)))
        if kind == "direct":
            is_back, end, port = rng.random() < 0.5, rng.choice(ENDPOINTS), rng.choice(PORTS)
            return Direct(end, port, number, is_back, says_vip=rng.random() < 0.5)
        return self._change()

    def _change(self) -> Step:
        rng = self._rng
        kind = rng.randrange(10)
        if kind < 6:
            return self._serve()
        if kind == 6:
            return Silence()
        words = rng.choice(("all may ask", "a may ask all", *sorted(WORDS)))
        return Change(words, is_moved=not rng.randrange(4))

    def _serve(self) -> Serve:
        return Serve(self._listed(), self._listed())

    def _listed(self) -> tuple[tuple[str, Standing], ...]:
        ends = self._rng.sample(ENDPOINTS, self._rng.choice((0, 1, 1, 2, 3)))
        return tuple((end, self._rng.choice(STANDINGS)) for end in ends)


# --- both sides -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """A packet at a hook; `came_in` None is the pod's own hook, "" the node itself."""

    packet: Packet
    pod: str
    came_in: str | None
    smac: str = NODE.mac


def services_of(serve: Serve, proto: int) -> list[JsonValue]:
    """As the API server would give them."""
    out: list[JsonValue] = []
    for name, vip, listed in (("web", VIP, serve.endpoints), ("other", OTHER_VIP, serve.others)):
        backends = [(HOSTS[end], CONDITIONS[standing]) for end, standing in listed]
        ports = [{"name": "main", "protocol": PROTOCOLS[proto], "port": PORT}]
        ports[0] |= {"nodePort": PORT} if name == "web" else {}
        out.append(service(name, vip, PROTOCOLS[proto], type="NodePort", ports=ports))
        out += slices(backends, name, PROTOCOLS[proto])
    return out


def wanted_of(serve: Serve, family: int, proto: int) -> dict[tuple[End, int], dict[End, Standing]]:
    """The same to the model."""
    return {
        (End(vip.address(family), PORT), proto): {
            End(HOSTS[end].address(family), TARGET): standing for end, standing in listed
        }
        for vip, listed in (
            (VIP, serve.endpoints),
            (OTHER_VIP, serve.others),
            (ELSEWHERE, serve.endpoints),
        )
    }


@dataclass
class Stage:
    """What has happened, as far as the next packet depends on it."""

    family: int
    proto: int
    is_moved: bool = False
    translated: list[tuple[Packet, Packet]] = field(default_factory=list)
    """What the client has sent to a Service, and what became of it."""

    def address(self, name: str) -> str:
        return HOSTS[name].address(self.family)

    def sent(self, step: Step) -> Sent | None:
        """The packet of a step; None where there is none to carry or to answer."""
        if isinstance(step, Ask):
            pod = "b" if self.is_moved is not step.is_elsewhere else "a"
            return Sent(self._asked(step), pod, None, HOSTS[step.mac_of].mac)
        if isinstance(step, Direct):
            return self._direct(step)
        if not isinstance(step, Carry | Answer) or step.ago >= len(self.translated):
            return None
        packet = self.translated[-1 - step.ago][1]
        if isinstance(step, Answer):
            back = replace(
                packet,
                src=packet.dst,
                dst=packet.src,
                sport=packet.dport,
                dport=packet.sport,
                flags=ANSWERS[step.number],
            )
            return self._to_client(back, step.at_own)
        is_local = packet.dst == self.address("b") and not self.is_moved
        return Sent(packet, "b", step.came_in) if is_local else None

    def _asked(self, step: Ask) -> Packet:
        vip = VIPS[step.vip].address(self.family)
        ends = (self.family, self.address("a"), vip, self.proto)
        return Packet(*ends, step.port, PORT, FLAGS[step.number])

    def _direct(self, step: Direct) -> Sent:
        client, end = self.address("a"), self.address(step.end)
        if not step.is_back:
            packet = Packet(
                self.family, client, end, self.proto, step.port, TARGET, FLAGS[step.number]
            )
            return Sent(packet, "b" if self.is_moved else "a", None, HOSTS["a"].mac)
        src, sport = (VIP.address(self.family), PORT) if step.says_vip else (end, TARGET)
        packet = Packet(
            self.family, src, client, self.proto, sport, step.port, ANSWERS[step.number]
        )
        return self._to_client(packet, at_own=step.number % 2 == 0, end=step.end)

    def _to_client(self, packet: Packet, at_own: bool, end: str = "") -> Sent:
        """At the hook of the endpoint, if it is a pod that is here, or of the client."""
        names = {self.address(name): name for name in ENDPOINTS}
        end = end or names.get(packet.src, "world")
        if end == "b" and at_own and not self.is_moved:
            return Sent(packet, "b", None, HOSTS["b"].mac)
        came_in = {"b": LOCAL["b"], "node": ""}.get(end, UPLINK)
        return Sent(packet, "b" if self.is_moved else "a", came_in)


def told(model: ServiceModel, sent: Sent, seen: Packet | None) -> Packet | None:
    """What the model makes of a packet."""
    device = LOCAL[sent.pod]
    if sent.came_in is None:
        return model.sent_by_pod(device, sent.smac, sent.packet, seen)
    if sent.came_in:
        return model.sent_to_pod(device, sent.came_in, sent.packet)
    return model.sent_by_node(device, sent.packet)


def made_by_kernel(node: NodeUnderTest, sent: Sent) -> bytes | None:
    """The packet that the kernel makes. None also where the sender gets an error
    (test_service_no_endpoints.py).
    """
    frame = wire(sent.packet, sent.smac)
    if sent.came_in is None:
        verdict, after = node.answered(sent.pod, frame)
        assert verdict in (NEXT, DROP, REDIRECT), verdict
        return after if verdict == NEXT else None
    return node.arrives(sent.pod, frame, came_in=sent.came_in or None)


def compare(kernel: Kernel, story: Story) -> None:
    """Drive both. They agree on every packet and on the entries in the end."""
    model, stage = ServiceModel(), Stage(story.family, story.proto)
    served = Serve((), ())
    kernel.node.other_nodes = {"node-2": (ELSEWHERE.ip4, ELSEWHERE.ip6)}
    kernel.node.unload()
    for at, step in enumerate(story.steps):
        services = services_of(served, story.proto)
        if isinstance(step, Change):
            stage.is_moved = step.is_moved
            words = WORDS[step.words]
            version = kernel.change(words, step.is_moved, services)
            model.change(partial(allows, words), who_is(story.family, step.is_moved), version)
        elif isinstance(step, Serve):
            served = step
            kernel.node.serve(services_of(served, story.proto))
        elif isinstance(step, Silence):
            kernel.node.expire_connections(story.family)
            for connection in model.connections.values():
                connection.expired = True
        if isinstance(step, Change | Serve):
            model.serve(wanted_of(served, story.family, story.proto))
        sent = stage.sent(step)
        if sent is None:
            continue
        kernel.let_seconds_pass(story.family)
        after = made_by_kernel(kernel.node, sent)
        seen = changed_by(sent.packet, after)
        expected = told(model, sent, seen)
        assert seen == expected, f"step {at}: the kernel makes {seen} of {sent}, not {expected}"
        if expected is not None:
            assert after == wire(expected, sent.smac), f"step {at}: checksums of {sent}"
        if isinstance(step, Ask) and seen is not None:
            stage.translated.append((sent.packet, seen))
    assert sorted(kernel.remembered(story.family)) == sorted(
        map(described, model.connections.values())
    )


@settings(GIVEN_A_NODE, max_examples=N_STORIES)
@given(seed=SEEDS)
def test_kernel_and_model_agree(node: NodeUnderTest, seed: int) -> None:
    compare(Kernel(node), Teller(seed).story(20, 60))


@pytest.mark.slow
@settings(GIVEN_A_NODE, max_examples=1500)
@given(seed=SEEDS)
def test_kernel_and_model_agree_for_long(node: NodeUnderTest, seed: int) -> None:
    compare(Kernel(node), Teller(seed).story(20, 120))


# --- what the stories would find --------------------------------------------------------------------


class Choosing(ServiceModel):
    """Chooses for itself: the first endpoint, and the first port that is free."""

    def _choice(
        self, packet: Packet, seen: Packet | None, places: Sequence[Place]
    ) -> tuple[Place, int]:
        ports = (packet.sport, *range(LOWEST_OTHER_PORT, LOWEST_OTHER_PORT + 100))
        free = (p for p in ports if not self._is_taken(self._translated(packet, places[0], p)))
        return places[0], next(free)


class Loyal(Choosing):
    """Continues to removed endpoints."""

    def serve(self, wanted: dict[tuple[End, int], dict[End, Standing]]) -> None:
        super().serve(wanted)
        for connection in self.connections.values():
            if isinstance(connection, Half):
                connection.place.is_listed = True
                connection.place.standing = Standing.READY


class Sharing(Choosing):
    """Gives two connections one tuple."""

    def _is_taken(self, translated: Packet) -> bool:
        return False


class OneSided(Choosing):
    """Replies update only the entry that they find."""

    def _note_answer(self, known: Half, packet: Packet) -> None:
        known.note(packet, is_reply=True)


class Deaf(Choosing):
    """Does not read the other entry."""

    def _to_service(
        self, device: str, mac: str, packet: Packet, seen: Packet | None, found: Found
    ) -> Packet | None:
        front = found.connection
        assert isinstance(front, Half)
        return self._translated(packet, front.place, front.port)


class Open(Choosing):
    """Lets an endpoint say that it is the Service."""

    def sent_to_pod(self, device: str, came_in: str, packet: Packet) -> Packet | None:
        known = self._find(packet).connection
        if isinstance(known, Half) and known.is_pre_nat:
            return packet
        return super().sent_to_pod(device, came_in, packet)


class Unbound(Choosing):
    """Lets a client have one port for a Service and for its endpoint."""

    def sent_by_pod(
        self, device: str, mac: str, packet: Packet, seen: Packet | None
    ) -> Packet | None:
        if packet.dport == TARGET and packet.sport != TARGET:
            return self._whole(packet, self.from_pod(device, mac, packet))
        return super().sent_by_pod(device, mac, packet, seen)


class AnyReady(Choosing):
    """Has no preference: also gives clients terminating endpoints."""

    def _begin(
        self, device: str, mac: str, packet: Packet, seen: Packet | None, places: Sequence[Place]
    ) -> Packet | None:
        draining = [place for place in places if place.standing is Standing.DRAINING]
        return super()._begin(device, mac, packet, seen, draining or places)


def told_by(model: ServiceModel, story: Story) -> tuple[list[Packet | None], list[Entry]]:
    """What a model makes of each packet of a story, and remembers in the end."""
    stage, version, out = Stage(story.family, story.proto), 0, list[Packet | None]()
    for step in story.steps:
        if isinstance(step, Change):
            stage.is_moved, version = step.is_moved, version + 1
            who = who_is(story.family, step.is_moved)
            model.change(partial(allows, WORDS[step.words]), who, version)
        elif isinstance(step, Serve):
            model.serve(wanted_of(step, story.family, story.proto))
        elif isinstance(step, Silence):
            for connection in model.connections.values():
                connection.expired = True
        sent = stage.sent(step)
        if sent is None:
            continue
        made = told(model, sent, None)
        out.append(made)
        if isinstance(step, Ask) and made is not None:
            stage.translated.append((sent.packet, made))
    return out, sorted(map(described, model.connections.values()))


@pytest.mark.parametrize("wrong", [Loyal, Sharing, OneSided, Deaf, Open, Unbound, AnyReady])
def test_the_model_detects_a_wrong_datapath(wrong: type[Choosing]) -> None:
    """It needs no more sequences than one run sends to the kernel."""
    stories = [Teller(seed).story(20, 60) for seed in range(N_STORIES)]
    assert any(told_by(Choosing(), story) != told_by(wrong(), story) for story in stories)


def test_the_model_reports_a_choice_that_is_not_allowed() -> None:
    model, stage = ServiceModel(), Stage(4, TCP)
    model.change(partial(allows, WORDS["all may ask"]), who_is(4, is_moved=False), 1)
    model.serve(wanted_of(Serve((("c", Standing.READY),), ()), 4, TCP))
    sent = stage.sent(Ask(0, 1000, 0))
    assert sent is not None
    to_c = replace(sent.packet, dst=stage.address("c"), dport=TARGET)
    for seen in (replace(to_c, dst=stage.address("b")), replace(to_c, sport=40000)):
        with pytest.raises(WrongChoiceError):
            told(model, sent, seen)
    assert told(model, sent, to_c) == to_c
