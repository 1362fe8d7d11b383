# SPDX-License-Identifier: Apache-2.0
"""A monitor checks histories of packets, loads, changed labels, crashes, silences and evictions.

`opening_monitor.py` judges passed packets by policies and handshakes alone. It checks the kernel,
the model of connections, and models with known or possible faults.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.support.connection_kernel import (
    Kernel,
    Labels,
    allows,
    who_is,
)
from tests.kernel.support.connection_model import (
    INIT,
    INIT_ACK,
    Allows,
    Connection,
    Conversation,
    Found,
    Model,
    Packet,
    Who,
)
from tests.kernel.support.connection_sequences import (
    DATA,
    GIVEN_A_NODE,
    PORTS,
    Change,
    Sent,
    Silence,
    Talk,
    passes_kernel,
    tell,
)
from tests.kernel.support.killed import killed
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    NodeUnderTest,
)
from tests.kernel.support.opening_monitor import Monitor
from tests.kernel.support.packets import (
    ACK,
    SCTP,
    SYN,
    TCP,
)
from tests.property.length import examples

pytestmark = pytest.mark.kernel

ONE_WAY = {
    "a opens": [("a", "b")],
    "b opens": [("b", "a")],
    "both open": [("a", "b"), ("b", "a")],
    "a and world": [("a", "world"), ("world", "b"), ("c", "b")],
    "b and world": [("b", "world"), ("world", "a"), ("b", "c")],
    "all": [(one, other) for one in ("a", "b", "c", "world") for other in ("a", "b", "c", "world")],
}


@dataclass(frozen=True)
class Eviction:
    """Entries of a port are gone, as after a flood or a restart of everything."""

    port: int


@dataclass(frozen=True)
class Relabel:
    """The policy stays; a pod has the label of this one, or of another pod, from here on."""

    pod: str
    as_pod: str


@dataclass(frozen=True)
class Killed:
    """A load that dies by SIGKILL, just before its switch or just after it."""

    load: Change | Relabel
    is_after: bool


Step = Sent | Change | Relabel | Killed | Silence | Eviction
TALKS = st.builds(
    Talk,
    st.just("a"),
    st.sampled_from(("b", "b", "c", "world", "node")),
    st.sampled_from((TCP, TCP, SCTP)),
    st.just((1000, 80)),
)
PODS_TALKS = st.builds(
    Talk,
    st.just("a"),
    st.sampled_from(("b", "b", "world")),
    st.sampled_from((TCP, TCP, SCTP)),
    st.just((1000, 80)),
)
CHANGES = st.builds(Change, st.sampled_from(sorted(ONE_WAY)), st.just(value=False))
RELABELS = st.sampled_from([Relabel(*both) for both in ("ab", "ac", "ba", "bc", "ca", "aa", "bb")])
HANDSHAKES = {TCP: (SYN, SYN | ACK, ACK), SCTP: (INIT, INIT_ACK, DATA)}


@st.composite
def packets(draw: st.DrawFn, family: int, talk: Talk) -> Sent:
    """A packet of the talk."""
    return sent(talk.packet(family, draw(st.integers(0, 20)), is_back=draw(st.booleans())))


def sent(packet: Packet) -> Sent:
    """The packet where it would pass, by its sender's own hook or by the receiver's."""
    names = {host.address(packet.family): name for name, host in HOSTS.items()}
    src, dst = names[packet.src], names[packet.dst]
    if src in LOCAL:
        return Sent(packet, src, None, HOSTS[src].mac)
    return Sent(packet, dst, "" if src == "node" else UPLINK, NODE.mac)


def handshake(family: int, talk: Talk) -> list[Sent]:
    """The first end opens the connection, and the other one answers."""
    found = list[Sent]()
    for at, number in enumerate(HANDSHAKES[talk.proto]):
        packet = talk.packet(family, 0, is_back=at == 1)
        found.append(
            sent(
                replace(packet, flags=number) if talk.proto == TCP else replace(packet, kind=number)
            )
        )
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Of one connection, and what happens to it."""
    family, talk = draw(st.sampled_from((4, 6))), draw(TALKS)
    steps = list[Step]()
    for _ in range(draw(st.integers(2, 5))):
        steps.append(draw(CHANGES))
        if draw(st.booleans()):
            steps += handshake(family, talk)
        then = draw(st.lists(events(family, talk), min_size=3, max_size=14))
        if not draw(st.integers(0, 2)):
            at = draw(st.integers(0, len(then)))
            then[at:at] = [
                draw(st.builds(Killed, CHANGES, st.booleans())),
                *handshake(family, talk),
            ]
        steps += then
    return steps


@st.composite
def relabelled(draw: st.DrawFn) -> list[Step]:
    """Of one connection that is opened where that is allowed, and of loads that change labels after."""
    family, talk = draw(st.sampled_from((4, 6))), draw(PODS_TALKS)
    allowed = [name for name, both in ONE_WAY.items() if (talk.one, talk.other) in both]
    steps: list[Step] = [Change(draw(st.sampled_from(sorted(allowed))), is_moved=False)]
    steps += handshake(family, talk)
    for _ in range(draw(st.integers(1, 3))):
        load = draw(RELABELS)
        is_killed = not draw(st.integers(0, 3))
        steps.append(Killed(load, draw(st.booleans())) if is_killed else load)
        steps += draw(st.lists(events(family, talk), min_size=3, max_size=8))
    return steps


def events(family: int, talk: Talk) -> st.SearchStrategy[Step]:
    """What happens beside loads: mostly a packet."""
    return st.one_of(
        packets(family, talk),
        packets(family, talk),
        packets(family, talk),
        st.builds(Silence, st.sampled_from(PORTS)),
        st.builds(Eviction, st.sampled_from(PORTS)),
    )


def words_of(name: str) -> list[tuple[str, str, tuple[tuple[int, int], ...]]]:
    everything = ((0, 0xFFFFFFFF),)
    return [(src, dst, everything) for src, dst in ONE_WAY[name]]


@dataclass(frozen=True)
class InForce:
    """A policy, and the labels that it is applied to."""

    words: str = ""
    labels: Labels = field(default_factory=dict)

    def after(self, load: Change | Relabel) -> "InForce":
        if isinstance(load, Change):
            return replace(self, words=load.words)
        return replace(self, labels={**self.labels, load.pod: load.as_pod})


def may_open(now: InForce, family: int, packet: Packet) -> bool:
    """Every end that is a pod of this node allows it; what the node opens is allowed."""
    who = who_is(family, is_moved=False)
    names = {host.address(family): name for name, host in HOSTS.items()}
    src, dst = (now.labels.get(names[at], names[at]) for at in (packet.src, packet.dst))
    if src == "node":
        return True
    every = words_of(now.words)
    return (
        not who.get(packet.src, _NOBODY).device or allows(every, "egress", src, dst, packet)
    ) and (not who.get(packet.dst, _NOBODY).device or allows(every, "ingress", dst, src, packet))


_NOBODY = who_is(4, is_moved=False)[HOSTS["node"].ip4]


@dataclass
class Watched:
    """Something that lets packets pass, under the monitor."""

    change: Callable[[InForce, int], None]
    kill: Callable[[InForce, int, bool], None]
    forget: Callable[[Silence | Eviction, int], None]
    passes: Callable[[Sent], bool]

    def faults(self, steps: list[Step]) -> str:
        """The first thing that passed and should not have."""
        family = next((step.packet.family for step in steps if isinstance(step, Sent)), 4)
        monitor, now = Monitor(lambda _: False), InForce()
        for at, step in enumerate(steps):
            monitor.may_open = partial(may_open, now, family)
            if isinstance(step, Change | Relabel):
                now = now.after(step)
                self.change(now, family)
            elif isinstance(step, Killed):
                self.kill(now.after(step.load), family, step.is_after)
                now = now.after(step.load) if step.is_after else now
            elif isinstance(step, Silence | Eviction):
                self.forget(step, family)
            elif self.passes(step) and step.came_in != "":  # what the node sends passes (A22)
                if fault := monitor.faults(step.packet):
                    return f"step {at}: {fault}: {step}"
            elif step.came_in == "":
                monitor.faults(step.packet)
        return ""


def watched_kernel(node: NodeUnderTest) -> Watched:
    kernel = Kernel(node)
    node.unload()

    def forget(step: Silence | Eviction, family: int) -> None:
        if isinstance(step, Silence):
            node.expire_connections(family, {step.port})
        else:
            node.evict_connections(family, {step.port})

    def change(now: InForce, _: int) -> None:
        kernel.change(words_of(now.words), is_moved=False, labels=now.labels)

    def kill(then: InForce, _: int, is_after: bool) -> None:
        killed(partial(kernel.change_and_die, words_of(then.words), then.labels, is_after))
        node.n_bundles += 1

    return Watched(change, kill, forget, partial(passes_kernel, node))


def watched_model(model: Model) -> Watched:
    def change(now: InForce, family: int) -> None:
        kill(now, family, is_after=True)

    def kill(then: InForce, family: int, is_after: bool) -> None:
        how = model.change if is_after else model.die_in_change
        who = who_is(family, is_moved=False, labels=then.labels)
        how(partial(allows, words_of(then.words)), who, model.version + 1)

    def forget(step: Silence | Eviction, _: int) -> None:
        if isinstance(step, Silence):
            model.expire(step.port)
            return
        for key, each in list(model.connections.items()):
            if step.port in (each.opened.src.port, each.opened.dst.port):
                del model.connections[key]

    return Watched(change, kill, forget, lambda sent: bool(tell(model, sent)))


ALL = st.one_of(histories(), relabelled())


def answers_late(family: int) -> list[Step]:
    """The world's SYN reaches `a` under other labels, and is answered under those of before."""
    talk = Talk("a", "world", TCP, (1000, 80))

    def says(flags: int, is_back: bool) -> Sent:
        return sent(replace(talk.packet(family, 0, is_back=is_back), flags=flags))

    return [
        Change("a and world", is_moved=False),
        *handshake(family, talk),
        Relabel("a", "b"),
        says(ACK, is_back=True),
        says(SYN, is_back=True),
        Relabel("a", "a"),
        says(SYN | ACK, is_back=False),
        says(ACK, is_back=True),
    ]


@pytest.mark.parametrize("family", [4, 6])
def test_the_syn_ack_to_a_syn_that_is_now_denied_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    """The SYN passed under other labels. The SYN-ACK does not belong to a connection of the client."""
    assert not watched_kernel(node).faults(answers_late(family))


def test_the_model_drops_the_syn_ack_to_a_syn_that_is_now_denied() -> None:
    assert not watched_model(Model()).faults(answers_late(4))


@settings(GIVEN_A_NODE, max_examples=examples(60))
@given(steps=histories())
def test_the_kernel_passes_nothing_of_a_connection_that_may_not_be_opened(
    node: NodeUnderTest, steps: list[Step]
) -> None:
    assert not watched_kernel(node).faults(steps)


@settings(GIVEN_A_NODE, max_examples=examples(40))
@given(steps=relabelled())
def test_the_kernel_passes_nothing_of_a_connection_that_other_labels_deny(
    node: NodeUnderTest, steps: list[Step]
) -> None:
    assert not watched_kernel(node).faults(steps)


@pytest.mark.slow
@settings(GIVEN_A_NODE, max_examples=2000)
@given(steps=ALL)
def test_the_kernel_passes_nothing_of_a_denied_connection_in_many_histories(
    node: NodeUnderTest, steps: list[Step]
) -> None:
    assert not watched_kernel(node).faults(steps)


@settings(max_examples=examples(400, 4), deadline=None)
@given(steps=ALL)
def test_the_model_passes_nothing_of_a_connection_that_may_not_be_opened(steps: list[Step]) -> None:
    assert not watched_model(Model()).faults(steps)


# --- what the monitor finds -----------------------------------------------------------------------


class Unmoved(Model):
    """Continues connections that another policy decided."""

    def _find(self, packet: Packet) -> Found:
        found = super()._find(packet)
        return replace(found, is_fresh=found.connection is not None)


class TakesTheMiddle(Model):
    """Takes a packet of an unknown connection for the first one of its own direction."""

    def _open(self, packet: Packet, meets: Connection | None = None, is_told: bool = False) -> bool:
        src, dst = self._ends(packet.conversation)
        if not self._is_allowed(src, dst, packet):
            return False
        self._remember(packet, src, dst)
        return True


class TakesAnything(Model):
    """Takes any packet for one of a connection that a SYN has just begun."""

    def _open(self, packet: Packet, meets: Connection | None = None, is_told: bool = False) -> bool:
        passes = super()._open(packet, meets, is_told)
        made = self._any(packet.conversation)
        if made:
            made.opening = False
        return passes


class TurnsAtOnce(Model):
    """Lets a SYN against a connection take its place before it is answered."""

    def _find(self, packet: Packet) -> Found:
        found = super()._find(packet)
        return Found() if found.meets else found

    def _open(self, packet: Packet, meets: Connection | None = None, is_told: bool = False) -> bool:
        passes = super()._open(packet, meets, is_told)
        made = self._any(packet.conversation)
        if made and passes and packet.is_opening:
            made.opening = False
        return passes


class HalfLoaded(Model):
    """Goes over to the policy of a load that was killed before its switch."""

    die_in_change = Model.change


class KeepsEnds(Model):
    """Decides a known connection by the labels that its ends had when it was decided before."""

    def _ends(self, conversation: Conversation) -> tuple[Who, Who]:
        known = self._any(conversation)
        if known is None:
            return super()._ends(conversation)
        ends = known.src, known.dst
        return ends if known.opened == conversation else ends[::-1]


class KeepsVersion(Model):
    """Keeps earlier decisions when a load changes labels."""

    def change(self, allows: Allows, who: dict[str, Who], version: int) -> None:
        is_relabelled = bool(self.who) and who != self.who
        super().change(allows, who, self.version if is_relabelled else version)


FAULTY = [
    *((each, histories(), 60) for each in (Unmoved, TakesTheMiddle, TakesAnything, TurnsAtOnce)),
    (HalfLoaded, histories(), 60),
    (KeepsEnds, relabelled(), 40),
    (KeepsVersion, relabelled(), 40),
]


@pytest.mark.parametrize(
    ("wrong", "steps", "n"),
    [
        pytest.param(*each, id=each[0].__name__, marks=pytest.mark.slow if at % 2 else ())
        for at, each in enumerate(FAULTY)
    ],
)
def test_the_monitor_finds_a_model_with_a_known_fault(
    wrong: type[Model], steps: st.SearchStrategy[list[Step]], n: int
) -> None:
    """It needs no more histories than one run sends to the kernel."""
    found = 0

    @settings(max_examples=n, deadline=None, derandomize=True, database=None)
    @given(steps=steps)
    def look(steps: list[Step]) -> None:
        nonlocal found
        found += bool(watched_model(wrong()).faults(steps))

    look()
    assert found
