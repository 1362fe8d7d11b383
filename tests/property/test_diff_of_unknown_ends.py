# SPDX-License-Identifier: Apache-2.0
"""The diff over clusters where much is unknown, or changes: whatever a flow can show is found.

Templates without addresses and nodes, hostNetwork pods, nodes with interfaces and several addresses;
and a second cluster, whose labels, ports, addresses, nodes and workloads are others. Flows are made by
giving every unknown one value; the reference semantics says how their verdicts change.
"""

import random
from dataclasses import replace
from ipaddress import ip_address
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyc.ir.policy import Policy, PolicySet
from policyc.ir.results.diff import DifferenceKind, DiffOutcome
from policyc.ir.selectors import ALWAYS
from policyc.ir.semantics import as_seen, is_between_neighbours, is_from_its_node, verdict
from policyc.ir.universe import Address, End, Endpoint, Flow, HostInterface, Node, Universe
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.diff.symbolic import diff_symbolic
from policyc.verifier.symbolic.differences import kind_between
from tests.property import cases
from tests.property.cluster_flows import (
    known,
)
from tests.property.length import examples
from tests.property.policy_mutations import (
    mutated,
    with_notes,
)
from tests.property.tiered_cases import OUTSIDE, _condition, tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)
FREE = (
    *OUTSIDE, "10.0.0.77", "10.0.0.4", "10.0.0.6", "10.1.2.3", "192.0.2.77",
    "fd00::77", "fd00::4", "fd00::6", "2001:db8::77",
)  # fmt: skip


def on_hosts(rng: random.Random, policies: PolicySet) -> PolicySet:
    """Some policies select hosts, too."""

    def of(policy: Policy) -> Policy:
        if rng.random() < 0.65:
            return policy
        return replace(policy, hosts=rng.choice((ALWAYS, _condition(rng))))

    return PolicySet(tuple(replace(t, policies=tuple(map(of, t.policies))) for t in policies.tiers))


def obscured(rng: random.Random, universe: Universe, has_hosts: bool) -> Universe:
    """Some pods become templates or hostNetwork pods; nodes get interfaces and more addresses."""
    guarded, safe = rng.random() < 0.5, rng.random() < 0.5
    nodes = []
    for node in universe.nodes:
        if has_hosts and rng.random() < 0.8:
            node = replace(node, host=HostInterface("eth0", cases._labels(rng), guarded, safe))
        if rng.random() < 0.2:
            more = ip_address(f"10.0.0.{150 + int(node.name[1:])}")
            node = replace(node, addresses=(*node.addresses, more))
        nodes.append(node)
    by_name = {node.name: node for node in nodes}
    pods = []
    for pod in universe.endpoints:
        pod = replace(pod, its_node=by_name.get(pod.node, pod.its_node))
        kind = rng.random()
        if kind < 0.3:
            pod = replace(
                pod, addresses=(), addresses_known=False, is_template=True, node="", its_node=None
            )
        elif kind < 0.4 and pod.its_node is not None:
            pod = replace(pod, host_network=True, addresses=pod.its_node.addresses)
        elif kind < 0.5:
            pod = replace(pod, node="", its_node=None)
        pods.append(pod)
    return Universe(tuple(pods), tuple(nodes))


def evolved(rng: random.Random, universe: Universe) -> Universe:
    """The cluster some time later."""
    nodes = [node for node in universe.nodes if rng.random() < 0.8]
    nodes = [replace(n, labels=cases._labels(rng)) if rng.random() < 0.3 else n for n in nodes]
    if rng.random() < 0.4:
        nodes.append(Node("n0", cases._labels(rng), (ip_address("10.0.0.199"),)))
    rng.shuffle(nodes)
    by_name = {node.name: node for node in nodes}
    team, where = rng.choice("xz"), rng.choice((*cases.NAMESPACES, ""))
    pods = []
    for at, pod in enumerate(universe.endpoints):
        if rng.random() < 0.15 or (pod.host_network and pod.node not in by_name):
            continue
        pod = _later(rng, at, pod)
        if pod.namespace == where:
            pod = replace(pod, namespace_labels={**pod.namespace_labels, "team": team})
        if pod.node:
            pod = replace(pod, its_node=by_name.get(pod.node) or Node(pod.node))
        pods.append(pod)
    return Universe(tuple(pods), tuple(nodes))


def _later(rng: random.Random, at: int, pod: Endpoint) -> Endpoint:
    if rng.random() < 0.3:
        pod = replace(pod, labels=cases._labels(rng))
    if rng.random() < 0.3:
        pod = replace(pod, ports=cases._ports(rng))
    if rng.random() < 0.3 and not pod.host_network:
        moved = {4: f"192.0.2.{30 + at}", 6: f"fd00::{0x50 + at:x}"}
        pod = replace(pod, addresses=tuple(ip_address(moved[a.version]) for a in pod.addresses))
    if rng.random() < 0.2:
        pod = replace(pod, service_account=rng.choice(("default", "robot")))
    return pod


def concrete(rng: random.Random, end: End, nodes: tuple[Node, ...], family: int,
             taken: set[Address]) -> End | None:  # fmt: skip
    """One thing that an end can be; None where it has no address of the family."""
    match end:
        case Endpoint():
            if not end.addresses_known:
                free = [a for a in map(ip_address, FREE) if a.version == family and a not in taken]
                end = replace(end, addresses=(rng.choice(free),), addresses_known=True)
            if end.its_node is None and not end.node:
                node = rng.choice((*nodes, Node("elsewhere"), Node("fresh", cases._labels(rng))))
                end = replace(end, node=node.name, its_node=node)
            return end if end.address(family) else None
        case Node():
            mine = [a for a in end.addresses if a.version == family]
            return replace(end, addresses=(rng.choice(mine),), speaks=False) if mine else None
        case _:
            return end


def afterwards(rng: random.Random, end: End, made: End, later: Universe, family: int,
               taken: set[Address]) -> End | None:  # fmt: skip
    """The same end in the later cluster, as much like it was as can be; None: it is not there."""
    nodes = {node.name: node for node in later.nodes}
    if isinstance(end, Node):
        found = nodes.get(end.name)
        if found is None or found.addresses != end.addresses or not isinstance(made, Node):
            return None
        return replace(found, addresses=made.addresses, speaks=False)
    if not isinstance(end, Endpoint) or not isinstance(made, Endpoint):
        return end
    now = next((e for e in later.endpoints if e.qualified_name == end.qualified_name), None)
    if now is None:
        return None
    if not now.addresses_known:
        now = replace(now, addresses=made.addresses, addresses_known=True)
    if not now.node:
        if not (made.node in nodes or made.node in ("elsewhere", "fresh")):
            return None
        node = nodes.get(made.node) or made.its_node
        now = replace(now, node=made.node, its_node=node)
    return now if now.address(family) else None


def flows(
    rng: random.Random, before: Universe, after: Universe, count: int
) -> list[tuple[Flow, Flow]]:
    """Flows before and after, of ends that are on both sides and are not one end."""
    ends = [e for u in (before, after) for e in (*u.endpoints, *u.nodes)]
    held = {address for end in ends for address in end.addresses}
    found = []
    for _ in range(count):
        family = rng.choice((4, 6))
        some: list[End] = [*before.endpoints, *before.nodes]
        some += [a for a in map(ip_address, OUTSIDE) if a.version == family and a not in held][:3]
        src, dst = rng.choice(some), rng.choice(some)
        taken = set(held)
        was = [concrete(rng, src, before.nodes, family, taken)]
        if isinstance(was[0], Endpoint) and was[0].address(family):
            taken.add(was[0].address(family))  # type: ignore[arg-type]
        was.append(concrete(rng, dst, before.nodes, family, taken))
        if None in was or _are_one(src, dst, was):
            continue
        now = was
        if after is not before:
            now = [afterwards(rng, e, made, after, family, taken)  # type: ignore[arg-type]
                   for e, made in zip((src, dst), was, strict=True)]  # fmt: skip
        if None in now:
            continue
        service = cases.random_service(rng, family)
        port = rng.choice((1, 53, 1023, 40000)) if service.number in (6, 17, 132) else None
        one, two = (Flow(*each, service, family, port) for each in (was, now))  # type: ignore[misc,arg-type]
        settled = is_from_its_node(one.src, one.dst) or is_from_its_node(two.src, two.dst)
        if not (settled or is_between_neighbours(one)):
            found.append((one, two))
    return found


def _are_one(src: End, dst: End, made: list[End | None]) -> bool:
    if not any(isinstance(as_seen(e), Endpoint | Node) for e in made if e is not None):
        return True
    if src is dst:
        return not (isinstance(src, Endpoint) and src.is_template)
    seen = [as_seen(end) for end in made if end is not None]
    return len({end.name for end in seen if isinstance(end, Node)}) == 1 and all(
        isinstance(end, Node) for end in seen
    )


def check(seed: int, is_later: bool) -> int:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3, max_pods=5)
    has_hosts = rng.random() < 0.5
    universe = obscured(rng, known(case.universe), has_hosts)
    policies = on_hosts(rng, case.policies) if has_hosts else case.policies
    before = with_notes(rng, policies)
    after = before
    for _ in range(rng.randrange(3) if before.tiers else 0):
        after = mutated(rng, after)
    later = evolved(rng, universe) if is_later else universe
    ignore = rng.random() < 0.3
    found = diff_cluster(
        Change(before, universe), Change(after, later), ignore_effects=ignore, limit=None
    )
    shown: set[DifferenceKind] = set()
    for one, two in flows(rng, universe, later, 120):
        kind = kind_between(verdict(before, one), verdict(after, two), ignore)
        assert kind is None or kind in found.kinds, f"{kind}: {one}"
        shown |= {kind} if kind else set()
    return len(shown)


@settings(max_examples=examples(100, 3), deadline=None)
@given(SEEDS)
def test_diff_finds_changes_at_any_address_and_node(seed: int) -> None:
    check(seed, is_later=False)


@settings(max_examples=examples(100, 3), deadline=None)
@given(SEEDS)
@example(3769481)  # a replica's node has lost a label
def test_diff_finds_changes_between_two_clusters(seed: int) -> None:
    check(seed, is_later=True)


def test_enough_random_cases_have_differing_flows() -> None:
    """One of ten; no more are counted."""
    asked = examples(80, 2)
    found = (seed for seed in range(asked) if check(seed, is_later=True))
    assert len(list(islice(found, asked // 10))) == asked // 10


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(SEEDS)
def test_diff_of_unknown_ends_at_length(seed: int) -> None:
    check(seed, is_later=bool(seed % 2))


OUTCOMES = {
    DifferenceKind.WIDENED: {DiffOutcome.WIDENED, DiffOutcome.BOTH},
    DifferenceKind.NARROWED: {DiffOutcome.NARROWED, DiffOutcome.BOTH},
    DifferenceKind.CHANGED: set(DiffOutcome) - {DiffOutcome.EQUAL},
    DifferenceKind.LATENT: set(DiffOutcome),
}


def check_symbolic(seed: int) -> None:
    """Policies of hosts: some cluster that could exist shows each difference of one cluster."""
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=2, max_policies=2, max_pods=4)
    universe = obscured(rng, known(case.universe), has_hosts=True)
    before = with_notes(rng, on_hosts(rng, case.policies))
    after = mutated(rng, before) if before.tiers else before
    kinds = diff_cluster(Change(before, universe), Change(after, universe), limit=None).kinds
    found = diff_symbolic(before, after, most=rng.choice((None, 1)))
    for kind in kinds:
        assert found.outcome in OUTCOMES[kind], f"{kind}: {found.outcome}"
        assert found.differences


@settings(max_examples=examples(25, 3), deadline=None)
@given(SEEDS)
def test_the_symbolic_diff_includes_the_diff_of_a_cluster(seed: int) -> None:
    check_symbolic(seed)
