# SPDX-License-Identifier: Apache-2.0
"""`limit N/s burst M` bounds the new connections of each source, by packets and on the wire."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.children import call
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import status
from tests.kernel.support import packets
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    run_frame,
)
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
)

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {{name: web}}
spec:
  tier: 500
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      allow tcp/80 from any limit 1/s burst 5
      allow tcp/81 from any limit 1/s burst 3
      allow tcp/82 from any limit 200/s burst 1
      allow tcp/83 from any{unlimited}
    egress:
      allow tcp/90 to any limit 1/s burst 2
      allow udp to any limit 1/s
"""
PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(("web", "cart"), 11)
}
OUTSIDE_MAC = "02:00:00:00:00:ee"
FAMILIES = (4, 6)


def outside(number: int) -> Host:
    return Host(
        OUTSIDE_MAC, f"198.51.{100 + number // 250}.{1 + number % 250}", f"2001:db8::{number + 1:x}"
    )


@dataclass
class Limiting:
    """A lab whose node can be given the policy again: every limit begins anew then."""

    lab: Lab
    folder: Path
    sport: int = 10000

    @property
    def node(self) -> LabNode:
        return self.lab.node

    def load(self, bundle: str = "bundle") -> None:
        def enforce() -> None:
            load(
                LoadRequest(
                    bundle=self.folder / bundle,
                    endpoints=self.folder / "endpoints.json",
                    bpffs=self.node.bpffs,
                    state_root=self.folder / "state",
                )
            )

        self.node.run_in(enforce)

    def host(self, name: str) -> Host:
        pod = next(pod for pod in self.node.pods if pod.endpoint.name == name)
        return Host(pod.mac, str(pod.endpoint.ipv4), str(pod.endpoint.ipv6))

    def syn(self, source: Host, port: int, family: int = 4) -> bytes:
        """A SYN to web that no other has the ports of."""
        self.sport += 1
        return packets.frame(
            source, self.host("web"), packets.tcp(self.sport, port, SYN), family=family
        )

    def accept(self, source: Host, port: int) -> None:
        """Web answers a SYN that has come from the port."""
        answer = packets.frame(self.host("web"), source, packets.tcp(80, port, SYN | ACK))
        assert self.passed([answer], "pc_from_pod") == [True]

    def passed(self, frames: list[bytes], hook: str = "pc_to_pod", pause: float = 0) -> list[bool]:
        """Which of the frames pass web's hook, `pause` seconds apart."""
        device = next(p.interface for p in self.node.pods if p.endpoint.name == "web")

        def work() -> list[bool]:
            at = socket.if_nametoindex(device)
            came_in = at if hook == "pc_from_pod" else socket.if_nametoindex(self.node.uplink)
            found = []
            with bpf_syscall.obj_get(Pins(self.node.bpffs).hook(hook)) as fd:
                for frame in frames:
                    verdict = run_frame(fd, frame, at, came_in).verdict
                    assert verdict in (NEXT, DROP)
                    found.append(verdict == NEXT)
                    time.sleep(pause)
            return found

        return self.node.run_in(work)

    def drops(self) -> dict[str, int]:
        def ask() -> dict[str, int]:
            found = status(bpffs=self.node.bpffs, state_root=self.folder / "state")
            assert found is not None
            return found.drops

        return self.node.run_in(ask)


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Limiting]:
    folder = tmp_path_factory.mktemp("limit")
    for name, unlimited in (("bundle", ""), ("changed", ' as "changed"')):
        policy = POLICY.format(unlimited=unlimited)
        compiled(folder, policy, "--backend", request.param, name=name)
    with Lab(tuple(PODS.values())) as built:
        records = {
            pod.key: {"namespace": "shop", "name": pod.name, "labels": {"app": pod.name}}
            for pod in PODS.values()
        }
        built.node.write_endpoints(folder / "endpoints.json", records)
        yield Limiting(built, folder)


@pytest.fixture
def limiting(lab: Limiting) -> Limiting:
    lab.load()
    return lab


@pytest.mark.parametrize("family", FAMILIES)
def test_a_burst_passes_and_connections_above_it_are_dropped_and_counted(
    limiting: Limiting, family: int
) -> None:
    before = limiting.drops().get("limit", 0)
    frames = [limiting.syn(outside(1), 80, family) for _ in range(12)]
    assert limiting.passed(frames) == [True] * 5 + [False] * 7
    assert limiting.drops()["limit"] == before + 7


@pytest.mark.parametrize("family", FAMILIES)
def test_each_source_and_each_rule_has_a_limit_of_its_own(limiting: Limiting, family: int) -> None:
    for source in (1, 2):
        frames = [limiting.syn(outside(source), 80, family) for _ in range(6)]
        assert limiting.passed(frames) == [True] * 5 + [False]
        frames = [limiting.syn(outside(source), 81, family) for _ in range(4)]
        assert limiting.passed(frames) == [True] * 3 + [False]
        assert all(limiting.passed([limiting.syn(outside(source), 83, family) for _ in range(50)]))


def test_tokens_return_at_the_rate_of_the_limit(limiting: Limiting) -> None:
    """The rate is 200/s and the burst 1: after 5 ms there is 1 token, and after a longer wait no
    more.
    """
    frames = [limiting.syn(outside(1), 82) for _ in range(10)]
    assert all(limiting.passed(frames, pause=0.006))
    time.sleep(0.1)
    started = time.monotonic()
    found = limiting.passed([limiting.syn(outside(1), 82) for _ in range(400)])
    most = 1 + 200 * (time.monotonic() - started)
    assert 1 <= sum(found) <= most


def test_packets_of_an_existing_connection_take_no_token(limiting: Limiting) -> None:
    source, web = outside(1), limiting.host("web")
    started = time.monotonic()
    (opened,) = limiting.passed([packets.frame(source, web, packets.tcp(900, 80, SYN))])
    assert opened
    limiting.accept(source, 900)
    goes_on = packets.frame(source, web, packets.tcp(900, 80, ACK))
    assert all(limiting.passed([goes_on] * 20))
    found = limiting.passed([limiting.syn(source, 80) for _ in range(5)])
    assert all(found[:4]) and sum(found) <= 4 + (time.monotonic() - started), "1/s, burst 5"
    assert all(limiting.passed([goes_on] * 20))


def test_a_connection_decided_again_after_a_load_takes_no_token(limiting: Limiting) -> None:
    source, web = outside(1), limiting.host("web")
    ports = range(700, 705)
    opening = [packets.frame(source, web, packets.tcp(port, 80, SYN)) for port in ports]
    assert all(limiting.passed(opening))
    for port in ports:
        limiting.accept(source, port)
    limiting.load("changed")
    assert all(
        limiting.passed([packets.frame(source, web, packets.tcp(p, 80, ACK)) for p in ports] * 3)
    )
    assert sum(limiting.passed([limiting.syn(source, 80) for _ in range(10)])) == 5


def test_a_limit_applies_to_connections_that_a_pod_opens(limiting: Limiting) -> None:
    web = limiting.host("web")
    to = [outside(number) for number in range(4)]
    frames = [packets.frame(web, each, packets.tcp(5000, 90, SYN)) for each in to]
    assert limiting.passed(frames, "pc_from_pod") == [True, True, False, False]
    frames = [packets.frame(web, each, packets.udp(5000, 53)) for each in to]
    assert limiting.passed(frames, "pc_from_pod") == [True, False, False, False]


@pytest.mark.slow
def test_a_flood_of_sources_is_bounded_in_memory_and_lifts_no_limit_of_an_active_source(
    limiting: Limiting,
) -> None:
    """More sources than the table holds send, while one source continues to send and stays limited."""
    steady, before = outside(3), limiting.drops().get("limit", 0)
    assert sum(limiting.passed([limiting.syn(steady, 80) for _ in range(10)])) == 5
    sender = Host(OUTSIDE_MAC, "11.0.0.0", "::")
    sent = packets.frame(sender, limiting.host("web"), packets.tcp(1, 80, SYN))
    started, got_in = time.monotonic(), 0
    for first in range(0, 80_000, 4_000):
        # The hooks read no checksum.
        frames = [
            sent[:26] + (0x0B000000 + number).to_bytes(4, "big") + sent[30:]
            for number in range(first, first + 4_000)
        ]
        assert all(limiting.passed(frames))
        got_in += sum(limiting.passed([limiting.syn(steady, 80) for _ in range(4)]))
    assert got_in <= 1 + time.monotonic() - started
    assert limiting.drops()["limit"] > before


def test_the_limit_holds_for_real_connections(limiting: Limiting) -> None:
    address = limiting.host("web").ip4

    def open_nine() -> None:
        for _ in range(9):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as each:
                each.setblocking(False)
                each.connect_ex((address, 80))
                time.sleep(0.02)

    before, began = limiting.drops().get("limit", 0), time.monotonic()
    call(open_nine, namespace=limiting.lab.ends["external"].namespace)
    got_back = int(time.monotonic() - began) + 1  # one a second
    assert 4 - got_back <= limiting.drops()["limit"] - before <= 4
