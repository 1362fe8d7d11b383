# SPDX-License-Identifier: Apache-2.0
"""Random policy sets, universes and flows, made from a seed: small enough to collide often.

Few label keys and values, few CIDRs that nest, few ports: so that selectors overlap, blocks contain pod
addresses, and named ports differ between pods. `hypothesis` draws the seed and shrinks towards 0.
"""

import random
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    Action,
    AddressPeer,
    AnyPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    LabelSelector,
    NamedPort,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import Protocol, Service
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import ContainerPort, End, Endpoint, Flow, Universe

NAMESPACES = ("a", "b", "c")
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
KEYS = ("app", "tier")
VALUES = ("", "x", "z")
OF_LABEL_SELECTORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
PORT_NAMES = ("http", "dns", "admin")
NUMBERS = (1, 53, 80, 81, 443, 8080, 65535)
NETWORKS = (
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.0.4/30",
    "10.0.0.5/32",
    "192.0.2.0/25",
    "::/0",
    "fd00::/16",
    "fd00::/120",
    "fd00::5/128",
    "2001:db8::/33",
)
OUTSIDE = (
    "10.9.9.9",
    "192.0.2.1",
    "192.0.2.200",
    "255.255.255.255",
    "fd00:1::1",
    "2001:db8::1",
    "::1",
)


@dataclass(frozen=True)
class Case:
    """One random policy set with a universe to try it in."""

    policies: PolicySet
    universe: Universe

    def flows(self, rng: random.Random, count: int) -> list[Flow]:
        """Random flows between endpoints and addresses, at the ports that rules talk about."""
        return [self._flow(rng) for _ in range(count)]

    def _flow(self, rng: random.Random) -> Flow:
        while True:
            family = rng.choice((4, 6))
            src, dst = self._end(rng, family), self._end(rng, family)
            if isinstance(src, Endpoint) or isinstance(dst, Endpoint):
                return Flow(src, dst, random_service(rng, family), family)

    def _end(self, rng: random.Random, family: int) -> End:
        held = [e for e in self.universe.endpoints if e.address(family) is not None]
        if held and rng.random() < 0.7:
            return rng.choice(held)
        return rng.choice([a for a in map(ip_address, OUTSIDE) if a.version == family])


def random_service(rng: random.Random, family: int) -> Service:
    """TCP, UDP and SCTP near the numbers in use; ICMP of the family; another protocol."""
    kind = rng.random()
    if kind < 0.75:
        protocol = rng.choice(tuple(Protocol))
        near = rng.choice(NUMBERS) + rng.choice((-1, 0, 0, 0, 1))
        return Service(protocol.value, min(max(near, 0), 65535))
    if kind < 0.9:
        return Service(1 if family == 4 else 58, rng.choice((0x0800, 0x8000, 0x0D00)))
    return Service(rng.choice((47, 50, 89)))


def random_case(rng: random.Random, *, max_policies: int = 8, max_pods: int = 8) -> Case:
    """A policy set of up to `max_policies` NetworkPolicies and a universe of up to `max_pods`."""
    count = rng.randint(0, max_policies)
    policies = tuple(_policy(rng, index) for index in range(count))
    ordered = tuple(sorted(policies, key=lambda p: (p.namespace, p.name)))
    tier = Tier(NETWORK_POLICY_TIER, TierMode.DENY_WINS, Action.DENY, ordered)
    endpoints = tuple(_endpoint(rng, index) for index in range(rng.randint(1, max_pods)))
    return Case(
        PolicySet((tier,)), Universe(tuple(sorted(endpoints, key=lambda e: e.qualified_name)))
    )


def _endpoint(rng: random.Random, index: int) -> Endpoint:
    namespace = rng.choice(NAMESPACES)
    addresses: list[IPv4Address | IPv6Address] = []
    if rng.random() < 0.9:
        addresses.append(IPv4Address(f"10.0.0.{index + 2}"))
    if rng.random() < 0.7 or not addresses:
        addresses.append(IPv6Address(f"fd00::{index + 2:x}"))
    return Endpoint(
        namespace,
        f"pod-{index}",
        _labels(rng),
        {NAMESPACE_LABEL: namespace, "team": "x" if namespace == "a" else "z"},
        _ports(rng),
        tuple(addresses),
    )


def _labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.7}


def _ports(rng: random.Random) -> tuple[ContainerPort, ...]:
    found = {
        ContainerPort(name, rng.choice(tuple(Protocol)).name, rng.choice(NUMBERS))
        for name in PORT_NAMES
        for _ in range(rng.choice((0, 1, 1, 2)))
    }
    return tuple(sorted(found))


def _policy(rng: random.Random, index: int) -> Policy:
    namespace = rng.choice(NAMESPACES)
    isolates = frozenset(d for d in Direction if rng.random() < 0.7) or frozenset(
        {Direction.INGRESS}
    )
    name = f"policy-{index}"

    def rules(direction: Direction) -> tuple[Rule, ...]:
        if direction not in isolates:
            return ()
        return tuple(
            _rule(
                rng,
                namespace,
                Origin(Span(f"{name}.yaml", 10 + at, 5), f"spec.{direction.value}[{at}]"),
            )
            for at in range(rng.choice((0, 1, 1, 2, 3)))
        )

    subject = EndpointSelector(namespace, labels=_selector(rng))
    origin = Origin(Span(f"{name}.yaml", 1, 1), "")
    return Policy(
        "NetworkPolicy", namespace, name, subject, isolates,
        rules(Direction.INGRESS), rules(Direction.EGRESS), origin,
    )  # fmt: skip


def _rule(rng: random.Random, namespace: str, origin: Origin) -> Rule:
    peers: tuple[Peer, ...] = (AnyPeer(),)
    if rng.random() < 0.85:
        peers = tuple(_peer(rng, namespace) for _ in range(rng.randint(1, 3)))
    ports: tuple[Ports, ...] = (AnyService(),)
    if rng.random() < 0.7:
        ports = tuple(_port(rng) for _ in range(rng.randint(1, 3)))
    return Rule(Action.ALLOW, peers, ports, origin)


def _peer(rng: random.Random, namespace: str) -> Peer:
    match rng.randrange(5):
        case 0:
            return EndpointPeer(EndpointSelector(namespace, labels=_selector(rng)))
        case 1:
            return EndpointPeer(EndpointSelector(None, _namespace_selector(rng)))
        case 2:
            return EndpointPeer(EndpointSelector(None, _namespace_selector(rng), _selector(rng)))
        case _:
            return _block(rng)


def _block(rng: random.Random) -> AddressPeer:
    network = ip_network(rng.choice(NETWORKS))
    inside = [n for n in map(ip_network, NETWORKS) if _is_strictly_inside(n, network)]
    holes = rng.sample(inside, min(len(inside), rng.choice((0, 0, 1, 2))))
    return AddressPeer(network, tuple(sorted(holes, key=str)))


def _is_strictly_inside(inner: object, outer: object) -> bool:
    try:
        return inner != outer and inner.subnet_of(outer)  # type: ignore[attr-defined,no-any-return]
    except TypeError:  # of another family
        return False


def _selector(rng: random.Random) -> LabelSelector:
    found = {_requirement(rng, rng.choice(KEYS)) for _ in range(rng.choice((0, 1, 1, 2)))}
    return LabelSelector(tuple(sorted(found, key=lambda r: (r.key, r.operator.value, r.values))))


def _namespace_selector(rng: random.Random) -> LabelSelector:
    if rng.random() < 0.2:
        return LabelSelector()
    if rng.random() < 0.5:
        names = tuple(sorted(rng.sample(NAMESPACES, rng.randint(1, 2))))
        return LabelSelector(
            (Requirement(NAMESPACE_LABEL, rng.choice((Operator.IN, Operator.NOT_IN)), names),)
        )
    return LabelSelector((_requirement(rng, "team"),))


def _requirement(rng: random.Random, key: str) -> Requirement:
    operator = rng.choice(OF_LABEL_SELECTORS)
    if operator in (Operator.IN, Operator.NOT_IN):
        return Requirement(key, operator, tuple(sorted(rng.sample(VALUES, rng.randint(1, 2)))))
    return Requirement(key, operator)


def _port(rng: random.Random) -> Ports:
    protocol = rng.choice(tuple(Protocol))
    match rng.randrange(4):
        case 0:
            return EveryPort(protocol)
        case 1:
            return NamedPort(protocol, rng.choice(PORT_NAMES))
        case _:
            lo, hi = sorted((rng.choice(NUMBERS), rng.choice(NUMBERS)))
            return (
                PortRange(protocol, lo, hi) if rng.random() < 0.5 else PortRange(protocol, lo, lo)
            )
