# SPDX-License-Identifier: Apache-2.0
"""Flows to try on a scenario: between all its ends, and at the borders of what its objects name.

The selection depends only on the draw's salt, so an example is the same each time.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from ipaddress import IPv6Address, ip_address

from policyc.compiler.fuzz.aim import aimed, at_borders, targets_of
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.policy import PolicySet, PortRange
from policyc.ir.services import Protocol, Service
from policyc.ir.universe import FAMILIES, Address, End, Endpoint, Flow
from policyc.ir.vocabulary import vocabulary_of

OUTSIDE = (
    "10.9.9.9", "192.0.2.1", "203.0.113.9", "255.255.255.254", "1.0.0.1",
    "2001:db8::1", "fd00:1::1", "fe80::1", "ff02::1:ff00:5",
)  # fmt: skip
PORTS = (1, 53, 80, 443, 8080, 65535)
_ICMP = ((0, 0), (3, 4), (8, 0), (13, 0), (128, 0), (129, 0), (135, 0), (255, 255))
_OTHERS = (47, 50, 89)
_AIMED = 0.7
"""The number of flows aimed at a rule."""


def flows_of(scenario: Scenario, count: int) -> tuple[Flow, ...]:
    """Up to `count` different flows, each with a pod to which policies apply."""
    rng = random.Random(scenario.draw.salt)
    ends = {family: _ends(scenario, family) for family in FAMILIES}
    targets = targets_of(scenario.policies, scenario.universe.endpoints)
    ports = _ports(scenario)
    found: dict[Flow, None] = {}
    for _ in range(4 * count):
        if len(found) >= count:
            break
        family = rng.choice(FAMILIES)
        service = _service(rng, family, ports)
        flow = None
        if targets and rng.random() < _AIMED:
            flow = aimed(rng, rng.choice(targets), ends[family], family, service)
        flow = flow or _between_any(rng, ends[family], service, family)
        if flow is not None and not _is_mapped(flow.src) and not _is_mapped(flow.dst):
            found[flow] = None
    return tuple(found)


def _between_any(
    rng: random.Random, ends: Sequence[End], service: Service, family: int
) -> Flow | None:
    """A pod and any end, in either direction."""
    pods = [end for end in ends if _is_subject(end)]
    if not pods:
        return None
    one, other = rng.choice(pods), rng.choice(ends)
    src, dst = (one, other) if rng.random() < 0.5 else (other, one)
    return Flow(src, dst, service, family)


def _is_subject(end: End) -> bool:
    return isinstance(end, Endpoint) and not end.host_network


def _ends(scenario: Scenario, family: int) -> Sequence[End]:
    """Pods, nodes that speak, nodes of which only the address is known, and unheld addresses."""
    universe = scenario.universe
    held: list[End] = [end for end in universe.endpoints if end.address(family) is not None]
    nodes = [node for node in universe.nodes if node.address(family) is not None]
    taken = {end.address(family) for end in universe.endpoints}
    taken |= {node.address(family) for node in nodes}
    outside = [a for a in _addresses(scenario.policies, family) if a not in taken]
    return [*held, *nodes, *(replace(node, speaks=False) for node in nodes), *outside]


def _addresses(policies: PolicySet, family: int) -> list[Address]:
    """Some unheld addresses, and those at both sides of every border that a rule draws."""
    found: dict[Address, None] = {}
    for text in OUTSIDE:
        address = ip_address(text)
        if address.version == family:
            found[address] = None
    for block in vocabulary_of(policies).blocks:
        found |= dict.fromkeys(at_borders(block, family))
    return [address for address in found if not _is_mapped(address)]


def _is_mapped(address: End) -> bool:
    """An IPv4 address written as IPv6, which no packet has."""
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _ports(scenario: Scenario) -> Sequence[int]:
    """The numbers that pods declare and rules name, and their neighbours."""
    numbers = {*PORTS, *(p.number for e in scenario.universe.endpoints for p in e.ports)}
    numbers.update(_ports_of_rules(scenario.policies))
    near = {number + step for number in numbers for step in (-1, 0, 1)}
    return sorted(number for number in near if 1 <= number <= 65535)


def _ports_of_rules(policies: PolicySet) -> Iterable[int]:
    for tier in policies.tiers:
        for policy in tier.policies:
            for rule in (*policy.ingress, *policy.egress):
                for entry in (*rule.ports, *rule.except_ports):
                    if isinstance(entry, PortRange):
                        yield from (entry.lo, entry.hi)


def _service(rng: random.Random, family: int, ports: Sequence[int]) -> Service:
    kind = rng.random()
    if kind < 0.8:
        return Service(rng.choice(tuple(Protocol)).value, rng.choice(ports))
    if kind < 0.93:
        icmp_type, code = rng.choice(_ICMP)
        return Service(1 if family == 4 else 58, icmp_type << 8 | code)
    return Service(rng.choice(_OTHERS))
