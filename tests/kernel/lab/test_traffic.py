# SPDX-License-Identifier: Apache-2.0
"""Traffic in a lab without policy arrives. The probe distinguishes dropped from refused packets."""

import asyncio
import itertools
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from policyc.runtime.lab import traffic
from policyc.runtime.lab.children import LabError
from policyc.runtime.lab.probes import Family, Observation, Outcome, Probe, Protocol
from policyc.runtime.lab.run import run_lab
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from policyc.runtime.lab.traffic import Round, send

pytestmark = pytest.mark.kernel

ENDPOINTS = [
    LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:10:244:1::{n}"))
    for n, name in enumerate(("web", "cart", "db"), 11)
]
SERVICES = [
    (Protocol.TCP, 80),
    (Protocol.TCP, 5432),
    (Protocol.UDP, 53),
    (Protocol.UDP, 8125),
    (Protocol.ICMP, 0),
]
FAMILIES: tuple[Family, ...] = (4, 6)


LARGE = [
    LabEndpoint(
        "load", f"pod-{n}", IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:10:244:1::{n}")
    )
    for n in range(20, 35)
]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(ENDPOINTS) as lab:
        yield lab


def matrix(ends: list[str]) -> list[Probe]:
    return [
        Probe(source, destination, family, protocol, port)
        for source, destination in itertools.product(ends, ends)
        for family in FAMILIES
        for protocol, port in SERVICES
    ]


def replace_route(node: LabNode, endpoint: LabEndpoint, kind: str) -> None:
    """Make the node drop (`blackhole`) or refuse (`prohibit`, `local`) packets to a pod."""

    def work() -> None:
        for address in (endpoint.ipv4, endpoint.ipv6):
            assert address is not None
            route = ["ip", f"-{address.version}", "route"]
            subprocess.run([*route, "del", str(address)], check=True)
            device = ["dev", "lo"] if kind == "local" else []
            subprocess.run([*route, "add", kind, str(address), *device], check=True)

    node.run_in(work)


def test_without_policy_everything_arrives(lab: Lab) -> None:
    probes = matrix(list(lab.ends))
    seen = send(lab.ends, probes)
    assert len(seen) == 5 * 5 * 2 * 5  # three pods, the client and the node
    assert {str(p): str(o) for p, o in seen.items() if o.outcome is not Outcome.ALLOWED} == {}


@pytest.mark.slow
def test_a_matrix_of_sixteen_ends_has_the_expected_outcomes() -> None:
    """Half of the probes are dropped: many wait at once, beside many that get an answer."""
    ends = [endpoint.key for endpoint in LARGE] + ["external"]
    dropped = LARGE[:4]
    lost = {endpoint.key for endpoint in dropped}
    expected = {
        probe: Outcome.DENIED
        if probe.source != probe.destination and lost & {probe.source, probe.destination}
        else Outcome.ALLOWED
        for probe in matrix(ends)
    }

    def drop(node: LabNode) -> None:
        for endpoint in dropped:
            replace_route(node, endpoint, "blackhole")

    result = run_lab(LARGE, expected, expected, drop)
    assert [str(difference) for difference in result.comparison.differences] == []
    assert 0.3 < result.comparison.total.n_allowed / len(expected) < 0.7


def test_a_slow_machine_is_not_taken_for_a_drop(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the event loop takes longer than the whole wait of a probe."""
    serve = traffic._serve

    def stall() -> None:
        time.sleep(0.2)
        asyncio.get_running_loop().call_soon(stall)

    async def serve_slowly(*arguments: Any) -> None:
        await serve(*arguments)
        stall()

    monkeypatch.setattr(traffic, "_serve", serve_slowly)
    replace_route(lab.node, ENDPOINTS[2], "blackhole")
    seen = send(lab.ends, matrix(["shop/web", "shop/cart", "shop/db"]), rounds=[Round((0.1,), 256)])
    for probe, observation in seen.items():
        lost = probe.source != probe.destination and "shop/db" in (probe.source, probe.destination)
        expected = Outcome.DENIED if lost else Outcome.ALLOWED
        assert observation == Observation(expected), f"{probe}: {observation}"


def test_a_drop_is_denied(lab: Lab) -> None:
    replace_route(lab.node, ENDPOINTS[2], "blackhole")
    for probe, observation in send(lab.ends, matrix(["shop/web", "shop/db", "external"])).items():
        lost = probe.source != probe.destination and "shop/db" in (probe.source, probe.destination)
        expected = Outcome.DENIED if lost else Outcome.ALLOWED
        assert observation == Observation(expected), f"{probe}: {observation}"


def test_a_reset_or_a_closed_port_is_refused(lab: Lab) -> None:
    """The node takes the pod's address for its own, and no process listens there."""
    replace_route(lab.node, ENDPOINTS[2], "local")
    probes = [
        probe
        for probe in matrix(["shop/web", "shop/db", "external"])
        if probe.destination == "shop/db" != probe.source and probe.protocol is not Protocol.ICMP
    ]
    for probe, observation in send(lab.ends, probes).items():
        expected = Observation(Outcome.REFUSED, "Connection refused")
        assert observation == expected, f"{probe}: {observation}"


@pytest.mark.parametrize("service", SERVICES, ids=str)
def test_an_icmp_unreachable_is_refused(lab: Lab, service: tuple[Protocol, int]) -> None:
    """Few at once: the kernel sends five a second to one host because of a prohibiting route."""
    replace_route(lab.node, ENDPOINTS[2], "prohibit")
    probes = [Probe("shop/web", "shop/db", family, *service) for family in FAMILIES]
    for probe, observation in send(lab.ends, probes).items():
        assert observation.outcome is Outcome.REFUSED, f"{probe}: {observation}"


def test_an_end_must_exist_and_have_the_family(lab: Lab) -> None:
    with pytest.raises(LabError, match="no end called shop/none"):
        send(lab.ends, [Probe("shop/none", "shop/web", 4, Protocol.TCP, 80)])
    old = Lab([LabEndpoint("shop", "old", IPv4Address("10.244.1.9"))])
    with old, pytest.raises(LabError, match="shop/old has no IPv6 address"):
        send(old.ends, [Probe("external", "shop/old", 6, Protocol.TCP, 80)])


def test_only_probes_without_an_answer_are_repeated(lab: Lab) -> None:
    """Without a second round, the first answer is final."""
    replace_route(lab.node, ENDPOINTS[2], "blackhole")
    probes = matrix(["shop/web", "shop/db"])
    brief = [Round((0.1,), 64)]
    assert send(lab.ends, probes, rounds=brief) == send(lab.ends, probes)


def test_a_run_reports_differences_where_the_node_drops() -> None:
    probes = matrix(["shop/web", "shop/cart"])
    result = run_lab(
        ENDPOINTS,
        probes,
        dict.fromkeys(probes, Outcome.ALLOWED),
        lambda node: replace_route(node, ENDPOINTS[1], "blackhole"),
    )
    different = {(d.probe.source, d.probe.destination) for d in result.comparison.differences}
    assert different == {("shop/web", "shop/cart"), ("shop/cart", "shop/web")}
    assert result.comparison.total.n_differences == 20
