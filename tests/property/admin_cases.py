# SPDX-License-Identifier: Apache-2.0
"""Random policy sets of the shape that ClusterNetworkPolicies have around NetworkPolicies."""

import random
from dataclasses import replace
from ipaddress import ip_network

from policyc.ir.policy import (
    Action,
    AddressPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    NamedPort,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import Protocol
from policyc.ir.spans import Origin, Span
from tests.property import cases
from tests.property.cases import random_case


def admin_case(rng: random.Random, *, max_policies: int = 3) -> PolicySet:
    """Ordered tiers before and behind the one of NetworkPolicies; each may be empty."""
    (middle,) = random_case(rng, max_policies=max_policies).policies.tiers
    before, after = (_tier(rng, name, max_policies) for name in ("before", "after"))
    return PolicySet((before, middle, after))


def _tier(rng: random.Random, name: str, max_policies: int) -> Tier:
    policies = tuple(_policy(rng, f"{name}-{at}") for at in range(rng.randint(0, max_policies)))
    return Tier(name, TierMode.FIRST_MATCH, Action.PASS, policies)


def _policy(rng: random.Random, name: str) -> Policy:
    subject = EndpointSelector(None, cases._namespace_selector(rng), cases._selector(rng))
    if rng.random() < 0.2:
        subject = replace(subject, namespace=rng.choice(cases.NAMESPACES))

    def rules(direction: Direction) -> tuple[Rule, ...]:
        return tuple(
            _rule(rng, direction, Origin(Span(f"{name}.yaml", 10 + at, 5), f"spec.{at}"))
            for at in range(rng.choice((0, 1, 2, 30)))
        )

    return Policy(
        "Admin", "", name, subject, frozenset(), rules(Direction.INGRESS), rules(Direction.EGRESS),
        Origin(Span(f"{name}.yaml", 1, 1), ""),
    )  # fmt: skip


def _rule(rng: random.Random, direction: Direction, origin: Origin) -> Rule:
    action = rng.choice((Action.ALLOW, Action.DENY, Action.PASS))
    peers = tuple(_peer(rng, direction) for _ in range(rng.randint(0, 3)))
    is_at_pods = all(isinstance(peer, EndpointPeer) for peer in peers)
    ports = [port for _ in range(rng.randint(0, 2)) for port in _ports(rng, is_at_pods)]
    return Rule(action, peers, tuple(ports) or (AnyService(),), origin)


def _peer(rng: random.Random, direction: Direction) -> Peer:
    if direction is Direction.EGRESS and rng.random() < 0.5:
        network = ip_network(rng.choice(cases.NETWORKS))
        inside = [n for n in map(ip_network, cases.NETWORKS)
                  if cases._is_strictly_inside(n, network)]  # fmt: skip
        return AddressPeer(network, tuple(rng.sample(inside, min(len(inside), rng.randint(0, 1)))))
    labels = cases._namespace_selector(rng)
    return EndpointPeer(EndpointSelector(None, labels, cases._selector(rng)))


def _ports(rng: random.Random, may_be_named: bool) -> tuple[Ports, ...]:
    """Named ports are of every protocol, and of pods."""
    if may_be_named and rng.random() < 0.3:
        name = rng.choice(cases.PORT_NAMES)
        return tuple(NamedPort(protocol, name) for protocol in Protocol)
    lo = rng.choice(cases.NUMBERS)
    return (PortRange(rng.choice(tuple(Protocol)), lo, min(65535, lo + rng.choice((0, 0, 10)))),)
