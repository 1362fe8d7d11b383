# SPDX-License-Identifier: Apache-2.0
"""The kernel and the model of `connection_model.py`, driven by the same random sequences.

Hosts and ports are few, so that packets meet each other's connections: repeated openings, replies
before and after a change of policy, resets, reused ports, pods that move and addresses that change
their pod. Both give each packet the same verdict and hold the same connections in the end.
"""

from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.support.connection_kernel import (
    Kernel,
    Words,
    allows,
    described,
    who_is,
)
from tests.kernel.support.connection_model import (
    INIT,
    Connection,
    Found,
    Model,
    Packet,
    Who,
)
from tests.kernel.support.connection_sequences import (
    GIVEN_A_NODE,
    PORTS,
    Change,
    Sent,
    Silence,
    Talk,
    passes_kernel,
    tell,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    GRE,
    ICMP,
    ICMP6,
    SCTP,
    TCP,
    UDP,
)
from tests.kernel.support.table_policy import (
    ANY,
    PING4,
    PING6,
    sctp_port,
    service,
    tcp_port,
    udp_port,
)
from tests.property.length import examples

pytestmark = pytest.mark.kernel
SEQUENCES = examples(40, 3)

WORDS: dict[str, Words] = {
    "nothing": [],
    "a may ask": [("a", "b", (tcp_port(80), udp_port(80), sctp_port(80), PING4, PING6)),
                  ("a", "world", (ANY,))],
    "b may ask": [("b", "a", (tcp_port(80), service(5, GRE))), ("c", "b", (udp_port(80),))],
    "all": [(src, dst, (ANY,)) for src in ("a", "b", "c", "world") for dst in ("a", "b", "c", "world")],
    "into a": [("world", "a", (tcp_port(80), PING4, PING6)), ("b", "a", (udp_port(1000),))],
}  # fmt: skip


Step = Sent | Change | Silence


# --- what is drawn --------------------------------------------------------------------------------

PROTOCOLS = (TCP, TCP, TCP, UDP, SCTP, ICMP, GRE)


TALKS = st.builds(
    Talk,
    st.sampled_from(("a", "a", "b", "c", "world", "node")),
    st.sampled_from(("b", "b", "a", "world", "node")),
    st.sampled_from(PROTOCOLS),
    st.sampled_from(((1000, 80), (80, 1000), (80, 80))),
)


@st.composite
def errors(draw: st.DrawFn, family: int, talk: Talk) -> Packet:
    """An ICMP error of a host about a packet, not always sent to the right end."""
    is_back = draw(st.booleans())
    quoted = talk.packet(family, draw(st.integers(0, 20)), is_back=is_back)
    addresses = [quoted.dst, quoted.src]
    if not draw(st.integers(0, 4)):
        addresses[draw(st.integers(0, 1))] = HOSTS[draw(st.sampled_from("abc"))].address(family)
    proto, kind = (ICMP, 3) if family == 4 else (ICMP6, 1)
    return Packet(family, *addresses, proto, kind=kind, quoted=quoted)


@st.composite
def sendings(draw: st.DrawFn, family: int, talks: tuple[Talk, ...]) -> Sent:
    """A packet of a talk, or an error about one, where it would pass; now and then elsewhere."""
    talk = draw(st.sampled_from(talks))
    if draw(st.integers(0, 7)):
        packet = talk.packet(family, draw(st.integers(0, 20)), is_back=draw(st.booleans()))
    else:
        packet = draw(errors(family, talk))
    names = {host.address(family): name for name, host in HOSTS.items()}
    src, dst = names[packet.src], names[packet.dst]
    is_odd = not draw(st.integers(0, 5))
    if src in LOCAL and (dst not in LOCAL or draw(st.booleans())):
        pod, mac_of = (
            draw(st.sampled_from(((src, "a"), (src, "b"), ("a", src), ("b", src))))
            if is_odd
            else (src, src)
        )
        return Sent(packet, pod, None, HOSTS[mac_of].mac)
    pod = draw(st.sampled_from(sorted(LOCAL))) if is_odd or dst not in LOCAL else dst
    came_in = "" if src == "node" else LOCAL.get(src, UPLINK)
    if is_odd:
        came_in = draw(st.sampled_from((UPLINK, *LOCAL.values(), "")))
    return Sent(packet, pod, came_in, NODE.mac)


@st.composite
def quiet_steps(draw: st.DrawFn, family: int, talks: tuple[Talk, ...]) -> Step:
    """A packet, or now and then silence."""
    if draw(st.integers(0, 29)):
        return draw(sendings(family, talks))
    return Silence(draw(st.sampled_from((*PORTS, 7))))


@st.composite
def sequences(draw: st.DrawFn, changes: int) -> list[Step]:
    """So many changes of policy or pods, and packets after each."""
    family = draw(st.sampled_from((4, 6)))
    talks = tuple(draw(st.lists(TALKS, min_size=1, max_size=4)))
    steps = st.lists(quiet_steps(family, talks), min_size=20, max_size=100)
    out: list[Step] = []
    for _ in range(1 + changes):
        words = draw(st.sampled_from(("all", *sorted(WORDS))))
        out += [Change(words, is_moved=not draw(st.integers(0, 4))), *draw(steps)]
    return out


# --- both sides -----------------------------------------------------------------------------------


def family_of(steps: list[Step]) -> int:
    return next((step.packet.family for step in steps if isinstance(step, Sent)), 4)


def compare(kernel: Kernel, steps: list[Step]) -> None:
    """Drive both. They agree on every packet and on the entries in the end."""
    family, model = family_of(steps), Model()
    kernel.node.unload()
    for at, step in enumerate(steps):
        if isinstance(step, Change):
            words = WORDS[step.words]
            version = kernel.change(words, step.is_moved)
            model.change(partial(allows, words), who_is(family, step.is_moved), version)
            continue
        expected = tell(model, step)
        if isinstance(step, Silence):
            kernel.node.expire_connections(family, {step.port})
        else:
            passes = passes_kernel(kernel.node, step)
            assert passes == expected, f"step {at}: the kernel says {passes} of {step}"
    assert sorted(kernel.remembered(family)) == sorted(map(described, model.connections.values()))


@settings(GIVEN_A_NODE, max_examples=SEQUENCES)
@given(steps=sequences(changes=2))
def test_kernel_and_model_agree(node: NodeUnderTest, steps: list[Step]) -> None:
    compare(Kernel(node), steps)


@pytest.mark.slow
@settings(GIVEN_A_NODE, max_examples=2000)
@given(steps=sequences(changes=4))
def test_kernel_and_model_agree_for_long(node: NodeUnderTest, steps: list[Step]) -> None:
    compare(Kernel(node), steps)


# --- what the sequences would find ------------------------------------------------------------------


class Unmoved(Model):
    """Continues connections that another policy decided."""

    def _find(self, packet: Packet) -> Found:
        found = super()._find(packet)
        return replace(found, is_fresh=found.connection is not None)


class BothWays(Model):
    """Takes an opening for a packet of an existing connection, also of an ended or reversed one."""

    def _find(self, packet: Packet) -> Found:
        return super()._find(replace(packet, flags=packet.flags | ACK, kind=packet.kind % INIT))


class Immortal(Model):
    """Never forgets."""

    def expire(self, port: int) -> None:
        pass


class Credulous(Model):
    """Looks at addresses, and not at MACs."""

    @staticmethod
    def _is_from(sender: Who, device: str, mac: str) -> bool:
        return sender.device == device


class Talkative(Model):
    """Passes any error about any connection."""

    def _is_related(self, packet: Packet, own: bool) -> bool:
        return packet.quoted is not None and self._any(packet.quoted.conversation) is not None


class Grabbing(Model):
    """Takes whatever the node says for the beginning of a connection of its own."""

    def _node_opens(self, packet: Packet) -> bool:
        return True


class Forgiving(Model):
    """Forgets denied connections."""

    def _again(self, known: Connection, packet: Packet, is_reply: bool) -> bool:
        passes = super()._again(known, packet, is_reply)
        known.denied, known.version = False, self.version
        return passes


def verdicts(model: Model, steps: list[Step]) -> list[bool | None]:
    out, version = list[bool | None](), 0
    for step in steps:
        if isinstance(step, Change):
            version += 1
            who = who_is(family_of(steps), step.is_moved)
            model.change(partial(allows, WORDS[step.words]), who, version)
        else:
            out.append(tell(model, step))
    return out


@cache
def drawn() -> list[tuple[list[Step], list[bool | None]]]:
    """As many sequences as one run sends to the kernel, each with the model's verdicts."""
    found = []

    @settings(max_examples=SEQUENCES, deadline=None, derandomize=True, database=None)
    @given(steps=sequences(changes=2))
    def draw(steps: list[Step]) -> None:
        found.append((steps, verdicts(Model(), steps)))

    draw()
    return found


@pytest.mark.parametrize(
    "wrong", [Unmoved, BothWays, Immortal, Credulous, Talkative, Grabbing, Forgiving]
)
def test_the_model_detects_a_wrong_datapath(wrong: type[Model]) -> None:
    assert any(verdicts(wrong(), steps) != right for steps, right in drawn())
