# SPDX-License-Identifier: Apache-2.0
"""Two pods, a server and a forger: no pod gets the SNAT port of a connection that may continue.

Time passes and loads happen. `PortMonitor` watches the kernel and the model. It shares no rule with
either.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from hypothesis import given, settings

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
    SYN,
    TCP,
)
from tests.kernel.support.port_monitor import (
    PortMonitor,
    TakenError,
)
from tests.kernel.support.service_sequences import changed_by
from tests.kernel.support.snat_model import (
    Leaving,
    MasqueradeModel,
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

PORTS = 50001, 50002, 4000
SERVER_PORT = 80
SERVERS_FIN = 100
"""Its sequence number. A pod acknowledges it by one more, and nothing else by that."""
RESTS = 3, 8, 15, 30, 890, 7100


class Node(Protocol):
    """What is watched."""

    def load(self, load: Load) -> None: ...
    def rest(self, seconds: float) -> None: ...
    def leaves(self, packet: Packet, pod: str) -> Packet | None: ...
    def enters(self, packet: Packet) -> Packet: ...


class InKernel(Kernel):
    """The hooks."""

    def leaves(self, packet: Packet, pod: str) -> Packet | None:
        return changed_by(packet, self.goes_out(packet, pod))

    def enters(self, packet: Packet) -> Packet:
        found = changed_by(packet, self.comes_in(packet))
        assert found is not None
        return found


class InModel:
    """Their model, which chooses ports for itself."""

    def __init__(self, family: int) -> None:
        self._family = family
        self._model: MasqueradeModel | None = None

    def load(self, load: Load) -> None:
        here = here_of(load, self._family)
        self._model = self._model or Choosing(here)
        self._model.here = here

    @property
    def model(self) -> MasqueradeModel:
        assert self._model
        return self._model

    def rest(self, seconds: float) -> None:
        self.model.rest(seconds)

    def leaves(self, packet: Packet, pod: str) -> Packet | None:
        return self.model.goes_out(packet, None)

    def enters(self, packet: Packet) -> Packet:
        return self.model.comes_in(packet)


@dataclass
class History:
    """A random sequence by a seed, made while it runs: ends answer the packets that arrived."""

    node: Node
    family: int
    rng: random.Random
    monitor: PortMonitor = field(default_factory=PortMonitor)
    now: float = 0
    got_fin: set[tuple[str, int]] = field(default_factory=set)
    """Pods' ports that the server's FIN has come to."""
    n_left: int = 0
    n_taken: int = 0

    def run(self, steps: int) -> None:
        self.node.load(Load(0, is_excepted=False, is_moved=False))
        for _ in range(steps):
            match self.rng.randrange(20):
                case 0:
                    self.node.load(Load(self.rng.randrange(2), is_excepted=False, is_moved=False))
                case 1 | 2:
                    self._pass(self.rng.choice(RESTS))
                case 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10:
                    self._pod()
                case 11 | 12 | 13 | 14 | 15 | 16:
                    self._server()
                case _:
                    self._forger()

    def _pass(self, steps: int) -> None:
        self.node.rest(STEP * steps)
        self.now += STEP * steps

    def _pod(self) -> None:
        self._pass(1)
        pod, port = self.rng.choice("ab"), self.rng.choice(PORTS)
        flags = self.rng.choice((SYN, SYN, ACK, ACK, FIN | ACK, RST))
        if flags == SYN:
            self.got_fin.discard((pod, port))
        ack = SERVERS_FIN + ((pod, port) in self.got_fin)
        ends = HOSTS[pod].address(self.family), WORLD.address(self.family), TCP, port, SERVER_PORT
        left = self.node.leaves(Packet(self.family, *ends, flags, ack=ack), pod)
        if left is None:
            return
        assert left.src == NODE.address(self.family)
        before = self.monitor.ports.get(left.sport)
        self.monitor.pod_sent(pod, port, left.sport, flags, self.now)
        self.n_left += 1
        self.n_taken += before is not None and before.pod != pod

    def _server(self) -> None:
        """By a port that it knows a connection by."""
        if not self.monitor.ports:
            return
        self._pass(1)
        port = self.rng.choice(sorted(self.monitor.ports))
        flags = self.rng.choice((SYN | ACK, ACK, ACK, FIN | ACK, RST))
        came = self.node.enters(self._from_server(port, flags, SERVERS_FIN))
        if came.dst == NODE.address(self.family):
            return
        (pod,) = (name for name in "ab" if HOSTS[name].address(self.family) == came.dst)
        self.monitor.server_sent(port, flags, pod, self.now)
        if flags & FIN:
            self.got_fin.add((pod, came.dport))

    def _forger(self) -> None:
        """Under the server's address; it does not know the numbers."""
        flags = self.rng.choice((RST, RST | ACK, FIN | ACK, ACK, SYN | ACK))
        number = self.rng.randrange(1000, 1 << 32)
        self.node.enters(self._from_server(self.rng.choice((50000, 50001, 50002)), flags, number))

    def _from_server(self, port: int, flags: int, number: int) -> Packet:
        ends = WORLD.address(self.family), NODE.address(self.family), TCP, SERVER_PORT, port
        return Packet(self.family, *ends, flags, seq=number)


def watched(node: Node, family: int, seed: int, steps: int = 120) -> History:
    history = History(node, family, random.Random(seed))
    history.run(steps)
    return history


@pytest.mark.kernel
@settings(GIVEN_A_NODE, max_examples=N_STORIES)
@given(seed=SEEDS)
def test_no_pod_gets_the_snat_port_of_another_pod_in_the_kernel(
    node: NodeUnderTest, seed: int
) -> None:
    node.unload()
    watched(InKernel(node), 4 if seed % 2 else 6, seed)


@settings(deadline=None)
@given(seed=SEEDS)
def test_no_pod_gets_the_snat_port_of_another_pod_in_the_model(seed: int) -> None:
    watched(InModel(4), 4, seed)


def test_freed_ports_are_reused_in_these_histories() -> None:
    """Without reuse the monitor would check little."""
    histories = [watched(InModel(4), 4, seed) for seed in range(N_STORIES)]
    assert sum(each.n_taken for each in histories) > N_STORIES
    assert sum(each.n_left for each in histories) > 20 * N_STORIES


right = Leaving.idle.fget
assert right


def resetting(leaving: Leaving) -> int:
    """Any RST ends it, forged ones too."""
    return 10 if leaving.has_reset else right(leaving)


def half_closing(leaving: Leaving) -> int:
    """One FIN makes it shorter."""
    return 3600 if leaving.has_closed or leaving.fin is not None else right(leaving)


def believing(leaving: Leaving) -> int:
    """A FIN from outside counts at once."""
    return 120 if leaving.has_closed and leaving.fin is not None else right(leaving)


def short(leaving: Leaving) -> int:
    """It rests for 30 s after FINs both ways."""
    return 30 if leaving.has_closed and leaving.has_finished else right(leaving)


@pytest.mark.parametrize("wrong", [resetting, half_closing, believing, short])
def test_the_monitor_finds_a_port_that_is_free_too_soon(
    wrong: Callable[[Leaving], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leaving, "idle", property(wrong))
    with pytest.raises(TakenError):
        for seed in range(300):
            watched(InModel(4), 4, seed)
