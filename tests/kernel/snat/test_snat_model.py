# SPDX-License-Identifier: Apache-2.0
"""SNAT in the kernel and in a model, with the same packets in random order.

A seed gives a sequence: packets of pods and of the node to two external servers, replies, silences,
and loads with other ports, other exceptions, and pods behind other devices. Both make the same
packet of each, checksums included, and hold the same entries in the end.
"""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings

from tests.kernel.support.connection_kernel import wire
from tests.kernel.support.connection_model import Packet
from tests.kernel.support.node_under_test import (
    HOSTS,
    NODE,
    WORLD,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SCTP,
    SYN,
    TCP,
    UDP,
)
from tests.kernel.support.service_sequences import changed_by
from tests.kernel.support.snat_frames import OTHER
from tests.kernel.support.snat_model import (
    Leaving,
    MasqueradeModel,
    WrongPortError,
)
from tests.kernel.support.snat_sequences import (
    STEP,
    Choosing,
    Kernel,
    Load,
    here_of,
)
from tests.kernel.support.stories import (
    GIVEN_A_NODE,
    N_STORIES,
    SEEDS,
)

pytestmark = pytest.mark.kernel
PORTS = 50000, 50002, 4000
SERVERS = (WORLD, 53), (WORLD, 80), (OTHER, 53)
FLAGS = SYN, ACK, FIN | ACK, RST
ANSWERS = SYN | ACK, ACK, FIN | ACK, RST
SILENCES = 3, 8, 15, 30, 45, 890, 7100
SENDERS = "a", "a", "b", "b", "node"


@dataclass(frozen=True)
class Out:
    """An end sends; `server` is an index of SERVERS."""

    sender: str
    port: int
    server: int
    number: int
    """Which of the flags."""
    ack: int = 1


@dataclass(frozen=True)
class Back:
    """An answer to what has left so many packets ago; from another server it answers nothing."""

    ago: int
    number: int
    is_right: bool
    seq: int = 1


@dataclass(frozen=True)
class Silence:
    """So many times STEP."""

    steps: int


Step = Out | Back | Silence | Load


@dataclass(frozen=True)
class Story:
    """What happens to connections of one protocol and family."""

    family: int
    proto: int
    steps: list[Step]


def told(seed: int, least: int = 20, most: int = 60) -> Story:
    """A seed makes the same story again."""
    rng = random.Random(seed)
    steps: list[Step] = [Load(rng.randrange(2), is_excepted=False, is_moved=False)]
    for _ in range(rng.randint(least, most)):
        kind = rng.randrange(20)
        if kind < 10:
            sender, port = rng.choice(SENDERS), rng.choice(PORTS)
            server, number = rng.randrange(len(SERVERS)), rng.randrange(4)
            steps.append(Out(sender, port, server, number, rng.choice((1, 2, 2, 3))))
        elif kind < 17:
            ago = rng.choice((0, 0, 1, 2, 3, 5))
            steps.append(Back(ago, rng.randrange(4), rng.random() < 0.9, rng.choice((1, 1, 2))))
        elif kind == 17:
            steps.append(Silence(rng.choice(SILENCES)))
        else:
            excepted, moved = rng.random() < 0.3, rng.random() < 0.3
            steps.append(Load(rng.randrange(2), excepted, moved))
    return Story(rng.choice((4, 6)), rng.choice((TCP, TCP, UDP, UDP, SCTP)), steps)


@dataclass
class Stage:
    """The packets that have left so far, and the ends."""

    family: int
    proto: int
    is_moved: bool = False

    def __post_init__(self) -> None:
        self.gone: list[Packet] = []

    def sent(self, step: Out) -> tuple[Packet, str | None]:
        """The packet, and the pod whose device it came by; None: the node's own."""
        host = NODE if step.sender == "node" else HOSTS[step.sender]
        server, port = SERVERS[step.server]
        kind = 1 if self.proto == SCTP and step.number == 0 else 0
        packet = Packet(
            *(self.family, host.address(self.family), server.address(self.family), self.proto),
            *(step.port, port, FLAGS[step.number] if self.proto == TCP else 0, kind),
            ack=step.ack,
        )
        pod = None if step.sender == "node" else "b" if self.is_moved else step.sender
        return packet, pod

    def answer(self, step: Back) -> Packet | None:
        """None where nothing has left that long ago."""
        if step.ago >= len(self.gone):
            return None
        to = self.gone[-1 - step.ago]
        src, sport = (to.dst, to.dport) if step.is_right else (OTHER.address(self.family), 9999)
        flags = ANSWERS[step.number] if self.proto == TCP else 0
        ends = src, NODE.address(self.family), self.proto, sport, to.sport
        return Packet(self.family, *ends, flags, seq=step.seq)


def compare(kernel: Kernel, story: Story) -> None:
    """Drive both. They agree on every packet and on the entries in the end."""
    kernel.node.unload()
    stage, model = Stage(story.family, story.proto), None
    for at, step in enumerate(story.steps):
        if isinstance(step, Load):
            kernel.load(step)
            stage.is_moved = step.is_moved
            here = here_of(step, story.family)
            model = MasqueradeModel(here) if model is None else model
            model.here = here
            continue
        assert model is not None
        seconds = STEP * (step.steps if isinstance(step, Silence) else 1)
        kernel.rest(seconds)
        model.rest(seconds)
        if isinstance(step, Silence):
            continue
        if isinstance(step, Out):
            packet, pod = stage.sent(step)
            after = kernel.goes_out(packet, pod)
            seen = changed_by(packet, after)
            expected = model.goes_out(packet, seen)
            if seen is not None and seen.src == NODE.address(story.family):
                stage.gone.append(seen)
            smac = NODE.mac
        else:
            answer = stage.answer(step)
            if answer is None:
                continue
            packet, after = answer, kernel.comes_in(answer)
            seen, expected, smac = changed_by(packet, after), model.comes_in(packet), WORLD.mac
        assert seen == expected, f"step {at}: the kernel makes {seen} of {packet}, not {expected}"
        assert after == (wire(expected, smac) if expected else None), (
            f"step {at}: the sums of {packet}"
        )
    assert model is not None
    assert kernel.remembered() == {
        (side, leaving.inside[1], leaving.inside[2])
        for side, leaving in model.by_port.items()
        if leaving.expires > model.now
    }


@settings(GIVEN_A_NODE, max_examples=N_STORIES)
@given(seed=SEEDS)
def test_kernel_and_model_agree(node: NodeUnderTest, seed: int) -> None:
    compare(Kernel(node), told(seed))


@pytest.mark.slow
@settings(GIVEN_A_NODE, max_examples=1500)
@given(seed=SEEDS)
def test_kernel_and_model_agree_for_long(node: NodeUnderTest, seed: int) -> None:
    compare(Kernel(node), told(seed, most=120))


# --- what the stories would find --------------------------------------------------------------------


class Sharing(Choosing):
    """Two have one port."""

    def _is_free(self, leaving: Leaving, port: int) -> bool:
        return True


class Stubborn(Choosing):
    """Continues as before, whatever a load changes."""

    def _holds(self, known: Leaving) -> bool:
        return True


class Forgetful(Choosing):
    """Lets the node's own connections have no port."""

    def goes_out(self, packet: Packet, seen: Packet | None) -> Packet | None:
        return packet if packet.src == self.here.own else super().goes_out(packet, seen)


class Credulous(Choosing):
    """Takes any external packet for a reply."""

    def comes_in(self, packet: Packet) -> Packet:
        for (proto, _, port, *_), known in self.by_port.items():
            if (proto, port) == (packet.proto, packet.dport):
                return replace(packet, dst=known.inside[1], dport=known.inside[2])
        return packet


class Eternal(Choosing):
    """Forgets nothing."""

    def rest(self, seconds: float) -> None:
        pass


def told_by(model: type[MasqueradeModel], story: Story) -> list[Packet | None]:
    """What a model makes of each packet of a story."""
    stage, found = Stage(story.family, story.proto), list[Packet | None]()
    playing: MasqueradeModel | None = None
    for step in story.steps:
        if isinstance(step, Load):
            here = here_of(step, story.family)
            playing = playing or model(here)
            playing.here, stage.is_moved = here, step.is_moved
            continue
        assert playing is not None
        playing.rest(STEP * (step.steps if isinstance(step, Silence) else 1))
        if isinstance(step, Out):
            made = playing.goes_out(stage.sent(step)[0], None)
            found.append(made)
            if made is not None and made.src == NODE.address(story.family):
                stage.gone.append(made)
        elif isinstance(step, Back):
            answer = stage.answer(step)
            found += [playing.comes_in(answer)] if answer is not None else []
    return found


@pytest.mark.parametrize("wrong", [Sharing, Stubborn, Forgetful, Credulous, Eternal])
def test_the_model_detects_a_wrong_datapath(wrong: type[Choosing]) -> None:
    """It needs no more sequences than one run sends to the kernel."""
    stories = [told(seed) for seed in range(N_STORIES)]
    assert any(told_by(Choosing, story) != told_by(wrong, story) for story in stories)


def test_the_model_reports_a_port_that_is_not_allowed() -> None:
    stage = Stage(4, UDP)
    model = MasqueradeModel(here_of(Load(0, is_excepted=False, is_moved=False), 4))
    packet, _ = stage.sent(Out("a", 4000, 0, 0))
    for port in (4000, 50003):
        with pytest.raises(WrongPortError):
            model.goes_out(packet, replace(packet, src=NODE.ip4, sport=port))
    with pytest.raises(WrongPortError):
        model.goes_out(packet, None)
    right = replace(packet, src=NODE.ip4, sport=50001)
    assert model.goes_out(packet, right) == right
    again, _ = stage.sent(Out("b", 4000, 0, 0))
    with pytest.raises(WrongPortError):
        model.goes_out(again, right)
