# SPDX-License-Identifier: Apache-2.0
"""Random policy sets, host interfaces among their subjects, and flows at every kind of end.

Built on tests/property/tiered_cases.py, kept to what one cluster can have: what two pods share has one
set of labels. Between them all ends, pods to themselves and nodes to their own pods too.
"""

import random
from dataclasses import replace
from ipaddress import ip_address
from itertools import product

from policyc.ir.policy import NEVER, Policy, PolicySet
from policyc.ir.services import Service
from policyc.ir.universe import (
    FAMILIES,
    End,
    Endpoint,
    Flow,
    HostInterface,
    Node,
    Universe,
    end_address,
)
from policyc.verifier.symbolic.connection_ends import HostRules
from tests.property import cases
from tests.property.policy_mutations import (
    with_notes,
)
from tests.property.tiered_cases import OUTSIDE, TieredCase, _condition, tiered_case

SERVICES = tuple(
    Service(number, value)
    for number, values in (
        (6, (0, 22, 53, 80, 81, 443, 8080, 65535)),
        (17, (53, 68, 81)),
        (132, (80,)),
        (1, (0x0800, 0x0D00)),
        (58, (0x8000, 0x8700, 0x8800)),
        (47, (0,)),
        (50, (0,)),
    )
    for value in values
)
LINKS = ("fe80::1", "ff02::1", "ff02::1:ff00:1")


def connection_case(rng: random.Random, *, max_tiers: int = 3, max_policies: int = 3) -> TieredCase:
    """A policy set with notes and hosts, and a cluster for it."""
    case = tiered_case(rng, max_tiers=max_tiers, max_policies=max_policies, max_pods=5)
    policies = with_notes(rng, case.policies)
    if rng.random() < 0.4:
        policies = _with_hosts(rng, policies)
    guards = HostRules.of([policies]).may_deny_unmatched
    return TieredCase(policies, _sensible(rng, case.universe, guards))


def _with_hosts(rng: random.Random, policies: PolicySet) -> PolicySet:
    def of(policy: Policy) -> Policy:
        return replace(policy, hosts=_condition(rng, 1) if rng.random() < 0.5 else NEVER)

    return PolicySet(tuple(replace(t, policies=tuple(map(of, t.policies))) for t in policies.tiers))


def _sensible(rng: random.Random, universe: Universe, guards: bool) -> Universe:
    """One set of labels for each service account, host interfaces on some nodes."""
    nodes = {node.name: _maybe_host(rng, node, guards) for node in universe.nodes}
    accounts: dict[tuple[str, str], dict[str, str]] = {}
    endpoints = []
    for pod in universe.endpoints:
        key = pod.namespace, pod.service_account
        labels = accounts.setdefault(key, cases._labels(rng))
        on = nodes.get(pod.node)
        endpoints.append(replace(pod, service_account_labels=labels, its_node=on))
    return Universe(tuple(endpoints), tuple(nodes.values()))


def _maybe_host(rng: random.Random, node: Node, guards: bool) -> Node:
    if rng.random() < 0.5:
        return node
    flags = guards and rng.random() < 0.5, guards and rng.random() < 0.5
    return replace(node, host=HostInterface("eth0", cases._labels(rng), *flags))


def ends_of(universe: Universe, family: int) -> list[End]:
    """Every pod, node and some address outside that can take part in a flow of a family."""
    inside: list[End] = [*universe.endpoints, *universe.nodes]
    inside = [end for end in inside if end_address(end, family) is not None]
    taken = {end_address(end, family) for end in inside}
    outside = [a for a in map(ip_address, (*OUTSIDE, *LINKS)) if a.version == family]
    return inside + [a for a in outside if a not in taken]


def flows_of(universe: Universe, rng: random.Random, count: int) -> list[Flow]:
    """Some of all flows between these ends that a cluster can have."""
    found = []
    for family in FAMILIES:
        pairs = [p for p in product(ends_of(universe, family), repeat=2) if _is_seen(*p)]
        for src, dst in rng.sample(pairs, min(len(pairs), count)):
            for service in rng.sample(SERVICES, 6):
                if service.number == (58 if family == 4 else 1):
                    continue
                port = rng.choice((1, 53, 1023, 40000)) if service.number in (6, 17, 132) else None
                found.append(Flow(src, dst, service, family, port))
    return found


def _is_seen(src: End, dst: End) -> bool:
    """Some end is a pod or a node, and no node sends to its own address."""
    inside = isinstance(src, Endpoint | Node) or isinstance(dst, Endpoint | Node)
    return inside and (src != dst or isinstance(src, Endpoint))
