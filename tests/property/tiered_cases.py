# SPDX-License-Identifier: Apache-2.0
"""Random policy sets of several tiers: both modes, every action, both values of `unmatched`.

Built on tests/property/cases.py. What NetworkPolicy cannot say: PASS, DENY and REJECT rules, policies
with rules in directions they do not isolate, cluster-scoped subjects, rules without peers or ports, the
same policy name in several tiers, empty tiers, no tier at all, blocks at the edges of the address space.
"""

import random
from dataclasses import replace
from ipaddress import ip_address, ip_network

from policyc.ir.policy import (
    Action,
    AddressPeer,
    AnyPeer,
    AnyService,
    Direction,
    EndpointSelector,
    Peer,
    Policy,
    PolicySet,
    Ports,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import Universe
from tests.property import cases
from tests.property.cases import NAMESPACES, Case

EDGES = (
    "0.0.0.0/32", "255.255.255.255/32", "128.0.0.0/1", "0.0.0.0/1", "10.0.0.2/31",
    "::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "8000::/1", "::/1", "fd00::2/127",
    "fd00::/64", "::ffff:0:0/96",
)  # fmt: skip
NETWORKS = (*cases.NETWORKS, *EDGES)
OUTSIDE = (
    *cases.OUTSIDE, "0.0.0.0", "127.255.255.255", "128.0.0.0", "255.255.255.254",
    "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "8000::", "fd00:0:0:1::", "fd00::ffff:ffff:ffff:ffff", "::ffff:10.0.0.5",
)  # fmt: skip


class TieredCase(Case):
    """A case whose addresses outside also lie at the edges of the space."""

    def _end(self, rng: random.Random, family: int):
        held = [e for e in self.universe.endpoints if e.address(family) is not None]
        if held and rng.random() < 0.6:
            return rng.choice(held)
        taken = {e.address(family) for e in held}
        return rng.choice(
            [a for a in map(ip_address, OUTSIDE) if a.version == family and a not in taken]
        )


def tiered_case(
    rng: random.Random, *, max_tiers: int = 4, max_policies: int = 4, max_pods: int = 7
) -> TieredCase:
    tiers = []
    for at in range(rng.choice((0, *range(1, max_tiers + 1), *range(1, max_tiers + 1)))):
        mode = rng.choice(tuple(TierMode))
        unmatched = rng.choice((Action.DENY, Action.PASS))
        policies = [
            _policy(rng, f"tier-{at}", index, mode) for index in range(rng.randint(0, max_policies))
        ]
        if mode is TierMode.DENY_WINS:
            policies.sort(key=lambda p: (p.namespace, p.name))
        else:
            rng.shuffle(policies)
        tiers.append(Tier(f"tier-{at}", mode, unmatched, tuple(policies)))
    endpoints = tuple(cases._endpoint(rng, index) for index in range(rng.randint(1, max_pods)))
    if rng.random() < 0.5:  # one behaviour for several pods, and pods of a single family
        endpoints = tuple(
            replace(e, addresses=e.addresses[:1]) if rng.random() < 0.3 else e for e in endpoints
        )
    return TieredCase(
        PolicySet(tuple(tiers)), Universe(tuple(sorted(endpoints, key=lambda e: e.qualified_name)))
    )


def _policy(rng: random.Random, tier: str, index: int, mode: TierMode) -> Policy:
    cluster_wide = rng.random() < 0.4
    namespace = "" if cluster_wide else rng.choice(NAMESPACES)
    name = f"policy-{index}"  # unique in a tier, and not beyond it
    isolates = frozenset(d for d in Direction if rng.random() < 0.5)
    actions = rng.choice((tuple(Action), (Action.ALLOW, Action.PASS), (Action.ALLOW, Action.DENY)))

    def rules(direction: Direction) -> tuple[Rule, ...]:
        return tuple(
            _rule(
                rng, namespace or rng.choice(NAMESPACES), rng.choice(actions),
                Origin(Span(f"{tier}-{name}.yaml", 10 + at, 5), f"spec.{direction.value}[{at}]"),
            )
            for at in range(rng.choice((0, 1, 1, 2, 3)))
        )  # fmt: skip

    if cluster_wide:
        subject = EndpointSelector(None, cases._namespace_selector(rng), cases._selector(rng))
    else:
        subject = EndpointSelector(namespace, labels=cases._selector(rng))
    return Policy(
        "Tiered", namespace, name, subject, isolates,
        rules(Direction.INGRESS), rules(Direction.EGRESS),
        Origin(Span(f"{tier}-{name}.yaml", 1, 1), ""),
    )  # fmt: skip


def _rule(rng: random.Random, namespace: str, action: Action, origin: Origin) -> Rule:
    peers: tuple[Peer, ...] = tuple(
        _peer(rng, namespace) for _ in range(rng.choice((0, 1, 1, 2, 3)))
    )
    if rng.random() < 0.25:
        peers = (*peers, AnyPeer())
    ports: tuple[Ports, ...] = tuple(cases._port(rng) for _ in range(rng.choice((0, 1, 1, 2, 3))))
    if rng.random() < 0.3:
        ports = (*ports, AnyService())
    return Rule(action, peers, ports, origin)


def _peer(rng: random.Random, namespace: str) -> Peer:
    if rng.random() < 0.5:
        return cases._peer(rng, namespace)
    network = ip_network(rng.choice(NETWORKS))
    inside = [n for n in map(ip_network, NETWORKS) if cases._is_strictly_inside(n, network)]
    holes = [rng.choice(inside) for _ in range(rng.choice((0, 0, 1, 2, 3))) if inside]
    return AddressPeer(network, tuple(holes))  # unsorted, nested and repeated excepts
