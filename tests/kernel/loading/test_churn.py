# SPDX-License-Identifier: Apache-2.0
"""Endpoints of Services change 200 times a second while packets are sent to them."""

import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
    tcp,
)
from tests.kernel.support.service_frames import (
    GATEWAY,
    SECOND,
    answer,
    as_to,
    to_vip,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    service,
    slices,
    web,
)

pytestmark = [pytest.mark.kernel, pytest.mark.fresh]
RATE = 200
"""Changes a second that the watch tells of."""
PATIENCE = 60.0
"""Seconds until what was told must be in force."""
STEADY = range(4000, 4040)
"""Ports of the connections to a Service whose endpoints stay."""
FIRST_PORT = 10_000


@dataclass(frozen=True)
class Opened:
    """A connection to a Service: from which version of its endpoints on there is none without them."""

    port: int
    service: int
    endpoint: Host
    version: int


@dataclass
class Acknowledged:
    """What the follower has said is in force; another thread reads it."""

    follower: Follower
    events: int = 0
    at: float = 0.0
    is_single: bool = True
    """Nothing was written anew."""
    batches: int = 0

    def read(self, events: int) -> None:
        while self.events < events:
            applied = self.follower.acknowledged()
            self.is_single = self.is_single and not applied["whole"]
            self.batches += 1
            self.at = time.monotonic()
            self.events += applied["events"]  # last: a reader that sees it sees the rest


@dataclass
class Churn:
    """The Services, each with all versions of its endpoints, and the event that sent each version."""

    node: NodeUnderTest
    acknowledged: Acknowledged
    versions: list[list[tuple[int, frozenset[Host]]]]
    opened: list[Opened] = field(default_factory=list)
    n_told: int = 0

    def tell(self, number: int, endpoints: list[Host]) -> None:
        there = [(each, {"ready": True}) for each in endpoints]
        self.n_told += 1
        self.versions[number].append((self.n_told, frozenset(endpoints)))
        self.acknowledged.follower.tell(*told(slices(there, name_of(number))[:1], "MODIFIED"))

    def possible(self, number: int) -> frozenset[Host]:
        """Endpoints that may be in force: those of the last version that is, and of later ones."""
        versions, known = self.versions[number], self.acknowledged.events
        in_force = max(at for at, (event, _) in enumerate(versions) if event <= known)
        return frozenset().union(*(endpoints for _, endpoints in versions[in_force:]))

    def open(self, number: int) -> None:
        """A new connection goes to an endpoint that may be in force, and to no other."""
        port = FIRST_PORT + len(self.opened)
        possible, version = self.possible(number), len(self.versions[number]) - 1
        sent = self.node.leaves("a", to_service(number, tcp(port, PORT, SYN)))
        by_frame = {as_to(each, tcp(port, TARGET, SYN)): each for each in possible}
        assert sent in by_frame, "a packet goes to a dead endpoint, or to none"
        first = max(0, version - self._behind(number))
        self.opened.append(Opened(port, number, by_frame[sent], first))
        self.node.arrives("a", answer(by_frame[sent], tcp(TARGET, port, SYN | ACK)))

    def _behind(self, number: int) -> int:
        """Versions that were sent and are perhaps not in force yet."""
        return sum(event > self.acknowledged.events for event, _ in self.versions[number])

    def go_on(self, which: Opened) -> bool:
        """Whether a connection continues: never to a dead endpoint, always to one that stays."""
        possible = self.possible(which.service)
        sent = self.node.leaves("a", to_service(which.service, tcp(which.port, PORT, ACK)))
        if sent is None:
            since = self.versions[which.service][which.version :]
            assert any(which.endpoint not in each for _, each in since), "an endpoint that stays"
            return False
        assert sent == as_to(which.endpoint, tcp(which.port, TARGET, ACK))
        assert which.endpoint in possible, "a packet to a dead endpoint"
        return True


def name_of(number: int) -> str:
    return f"service-{number}"


def vip_of(number: int) -> Host:
    return Host(GATEWAY, f"10.100.{number >> 8}.{number & 255}", f"fd96:2::{number + 1:x}")


def to_service(number: int, payload: Payload) -> bytes:
    return to_vip(payload, vip=vip_of(number))


def stranger(number: int) -> Host:
    return Host("", f"10.200.{number >> 8}.{number & 255}", f"fd98::{number + 1:x}")


def churning(n: int) -> list[JsonValue]:
    """As many Services with one endpoint each."""
    found = []
    for number in range(n):
        found.append(service(name_of(number), vip_of(number)))
        found += slices([stranger(number)], name_of(number))
    return found


def steady_connections(node: NodeUnderTest) -> dict[int, Host]:
    """Connections by their ports, each with its endpoint."""
    found = {}
    for port in STEADY:
        sent = node.leaves("a", to_vip(tcp(port, PORT, SYN)))
        found[port] = SECOND if sent == as_to(SECOND, tcp(port, TARGET, SYN)) else C
        assert sent == as_to(found[port], tcp(port, TARGET, SYN))
        assert node.arrives("a", answer(found[port], tcp(TARGET, port, SYN | ACK)))
    return found


@pytest.mark.parametrize(
    ("services", "changes"),
    [(200, 400), pytest.param(5000, 2000, marks=pytest.mark.slow)],
)
def test_connections_survive_and_removed_endpoints_receive_nothing_under_churn(
    node: NodeUnderTest, follower: Follower, services: int, changes: int
) -> None:
    """A connection to an endpoint that stays never breaks. Once the removal of an endpoint is
    acknowledged, it receives no packet: neither of an open connection nor of a new one.
    """
    dice = random.Random(1)
    follower.tell(*told([*churning(services), *web(SECOND, C)]))
    assert follower.acknowledged()["whole"]
    by_port = steady_connections(node)
    acknowledged = Acknowledged(follower)
    first = [[(0, frozenset({stranger(number)}))] for number in range(services)]
    churn = Churn(node, acknowledged, first)
    reader = threading.Thread(target=acknowledged.read, args=(changes + 2,), daemon=True)
    reader.start()
    began = next_at = time.monotonic()
    for _ in range(changes):
        churn.tell(dice.randrange(services), [stranger(n) for n in dice.sample(range(60_000), 3)])
        churn.open(dice.randrange(services))
        churn.go_on(dice.choice(churn.opened))
        port = dice.choice(STEADY)
        sent = node.leaves("a", to_vip(tcp(port, PORT, ACK)))
        assert sent == as_to(by_port[port], tcp(port, TARGET, ACK)), "an endpoint that stays"
        next_at += 1 / RATE
        time.sleep(max(0, next_at - time.monotonic()))
    follower.tell(*told(slices([SECOND]), "MODIFIED"))
    telling = time.monotonic() - began
    reader.join(PATIENCE)
    assert acknowledged.events == changes + 2
    assert acknowledged.is_single and acknowledged.batches > 1
    assert acknowledged.at - began <= 2 * telling, "in force at half the pace that the watch has"
    outcomes = [churn.go_on(each) for each in churn.opened]
    assert any(outcomes) and not all(outcomes), "some endpoints have gone, and some have stayed"
    for number in range(services):
        churn.open(number)
    assert_gone(node, by_port)
    assert follower.end() == (0, "")


def assert_gone(node: NodeUnderTest, by_port: dict[int, Host]) -> None:
    """Of the steady Service's two endpoints one has stayed: nothing goes to the other."""
    for port in STEADY:
        sent = node.leaves("a", to_vip(tcp(port, PORT, ACK)))
        assert sent == (as_to(SECOND, tcp(port, TARGET, ACK)) if by_port[port] == SECOND else None)
        again = node.leaves("a", to_vip(tcp(port + 1000, PORT, SYN)))
        assert again == as_to(SECOND, tcp(port + 1000, TARGET, SYN))
