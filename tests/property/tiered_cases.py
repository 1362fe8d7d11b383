# SPDX-License-Identifier: Apache-2.0
"""Random policy sets of several tiers: both modes, every action, both values of `unmatched`.

Built on tests/property/cases.py. What NetworkPolicy cannot say: PASS, DENY and REJECT rules, policies
with rules in directions they do not isolate, cluster-scoped subjects, rules without peers or ports, the
same policy name in several tiers, empty tiers, no tier at all, blocks at the edges of the address space;
conditions, negated and conjoined peers, nodes near and far, what a rule asks of its own side, ICMP
types, protocol numbers and excepted ports.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network

from policyc.ir.policy import (
    Action,
    AddressPeer,
    AllOf,
    AnyPeer,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    IcmpType,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Peer,
    Policy,
    PolicySet,
    Ports,
    ProtocolNumber,
    Requirement,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.services import Kind
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import Endpoint, Node, Universe
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
        nodes = [n for n in self.universe.nodes if n.address(family) is not None]
        if nodes and rng.random() < 0.5:
            return rng.choice(nodes)
        taken = {e.address(family) for e in (*held, *nodes)}
        return rng.choice(
            [a for a in map(ip_address, OUTSIDE) if a.version == family and a not in taken]
        )


def tiered_case(
    rng: random.Random,
    *,
    max_tiers: int = 4,
    max_policies: int = 4,
    max_pods: int = 7,
    with_notes: bool = False,
) -> TieredCase:
    """A random case; `with_notes`: some rules make notes, or have an effect."""
    tiers = []
    for at in range(rng.choice((0, *range(1, max_tiers + 1), *range(1, max_tiers + 1)))):
        mode = rng.choice(tuple(TierMode))
        unmatched = rng.choice((Action.DENY, Action.PASS))
        policies = [
            _policy(rng, f"tier-{at}", index, mode) for index in range(rng.randint(0, max_policies))
        ]
        if with_notes:
            policies = [_noting(rng, policy) for policy in policies]
        if mode is TierMode.DENY_WINS:
            policies.sort(key=lambda p: (p.namespace, p.name))
        else:
            rng.shuffle(policies)
        tiers.append(Tier(f"tier-{at}", mode, unmatched, tuple(policies)))
    nodes = tuple(_node(rng, name) for name in ("n1", "n2", "n3") if rng.random() < 0.8)
    endpoints = tuple(
        _on_a_node(rng, cases._endpoint(rng, index), nodes)
        for index in range(rng.randint(1, max_pods))
    )
    if rng.random() < 0.5:  # one behaviour for several pods, and pods of a single family
        endpoints = tuple(
            replace(e, addresses=e.addresses[:1]) if rng.random() < 0.3 else e for e in endpoints
        )
    return TieredCase(
        PolicySet(tuple(tiers)),
        Universe(tuple(sorted(endpoints, key=lambda e: e.qualified_name)), nodes),
    )


def _node(rng: random.Random, name: str) -> Node:
    """A node with one address a family at most, some inside the blocks that rules name."""
    number = int(name[1:])
    addresses = [ip_address(rng.choice((f"10.0.0.{100 + number}", f"192.0.2.{10 + number}")))]
    if rng.random() < 0.7:
        addresses.append(ip_address(f"fd00::{100 + number:x}"))
    if len(addresses) > 1 and rng.random() < 0.2:
        del addresses[0]
    return Node(name, cases._labels(rng), tuple(addresses))


def _on_a_node(rng: random.Random, endpoint: Endpoint, nodes: tuple[Node, ...]) -> Endpoint:
    """Somewhere, under one of two service accounts; or on a node of which only the name is known."""
    account = rng.choice(("default", "robot"))
    endpoint = replace(endpoint, service_account=account, service_account_labels=cases._labels(rng))
    if not nodes or rng.random() < 0.2:
        return replace(endpoint, node=rng.choice(("", "elsewhere")))
    node = rng.choice(nodes)
    return replace(endpoint, node=node.name, its_node=node)


def _policy(rng: random.Random, tier: str, index: int, mode: TierMode) -> Policy:
    cluster_wide = rng.random() < 0.4
    namespace = "" if cluster_wide else rng.choice(NAMESPACES)
    name = f"policy-{index}"  # unique in a tier, and not beyond it
    isolates = frozenset(d for d in Direction if rng.random() < 0.5)
    deciding = tuple(action for action in Action if not action.goes_on)
    actions = rng.choice((deciding, (Action.ALLOW, Action.PASS), (Action.ALLOW, Action.DENY)))

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
    if rng.random() < 0.2:
        subject = replace(subject, condition=_condition(rng))
    return Policy(
        "Tiered", namespace, name, subject, isolates,
        rules(Direction.INGRESS), rules(Direction.EGRESS),
        Origin(Span(f"{tier}-{name}.yaml", 1, 1), ""),
    )  # fmt: skip


def _noting(rng: random.Random, policy: Policy) -> Policy:
    """The policy with other rules before some of its rules, which make notes, and logs."""

    def rules(given: tuple[Rule, ...]) -> Iterator[Rule]:
        for rule in given:
            if rng.random() < 0.3:
                action = rng.choice((Action.LOG, Action.LOG, Action.AUDIT))
                origin = replace(rule.origin, path=f"{rule.origin.path}.before")
                like = rng.choice(given)
                yield replace(like, action=action, origin=origin)
            yield replace(rule, log=rng.random() < 0.2)

    return replace(policy, ingress=tuple(rules(policy.ingress)), egress=tuple(rules(policy.egress)))


def _rule(rng: random.Random, namespace: str, action: Action, origin: Origin) -> Rule:
    peers: tuple[Peer, ...] = tuple(
        _peer(rng, namespace) for _ in range(rng.choice((0, 1, 1, 2, 3)))
    )
    if rng.random() < 0.25:
        peers = (*peers, AnyPeer())
    ports: tuple[Ports, ...] = tuple(cases._port(rng) for _ in range(rng.choice((0, 1, 1, 2, 3))))
    if rng.random() < 0.3:
        ports = (*ports, AnyService())
    if rng.random() < 0.2:
        ports = (*ports, _odd_service(rng))
    rule = Rule(action, peers, ports, origin)
    if rng.random() < 0.2:
        rule = replace(rule, own=_tree(rng, namespace, 2))
    if rng.random() < 0.2:
        excepted = rng.choice((cases._port, _odd_service))
        rule = replace(rule, except_ports=tuple(excepted(rng) for _ in range(rng.randint(1, 2))))
    return rule


def _odd_service(rng: random.Random) -> Ports:
    if rng.random() < 0.5:
        return ProtocolNumber(rng.choice((1, 6, 17, 47, 50, 58, 132)))
    kind = rng.choice((Kind.ICMP, Kind.ICMPV6))
    icmp_type = rng.choice((None, 0, 8, 13, 128))
    return IcmpType(kind, icmp_type, None if icmp_type is None else rng.choice((None, 0, 3)))


def _condition(rng: random.Random, depth: int = 2) -> Condition:
    """A small tree over every attribute and operator."""
    kind = rng.randrange(7) if depth else 3
    if kind < 3:
        parts = tuple(_condition(rng, depth - 1) for _ in range(rng.choice((0, 1, 2, 2))))
        return (AllOf(parts), OneOf(parts), Not(_condition(rng, depth - 1)))[kind]
    attribute = rng.choice(tuple(Attribute))
    names = {
        Attribute.NAMESPACE: NAMESPACES,
        Attribute.SERVICE_ACCOUNT: ("default", "robot"),
        Attribute.NODE: ("n1", "n2", "elsewhere"),
    }
    if attribute in names:
        key, values = "", names[attribute]
    elif attribute is Attribute.NAMESPACE_LABEL:
        key, values = "team", cases.VALUES
    else:
        key, values = rng.choice(cases.KEYS), cases.VALUES
    operator = rng.choice(tuple(Operator))
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return AttributeTest(attribute, Requirement(key, operator))
    if operator in (Operator.IN, Operator.NOT_IN):
        chosen = tuple(sorted(rng.sample(values, rng.randint(1, 2))))
        return AttributeTest(attribute, Requirement(key, operator, chosen))
    text = rng.choice((rng.choice(values), rng.choice(values)[:1], rng.choice(values)[1:]))
    return AttributeTest(attribute, Requirement(key, operator, (text,)))


def _tree(rng: random.Random, namespace: str, depth: int) -> Peer:
    """Peers conjoined, negated, and either."""
    kind = rng.randrange(5) if depth else 4
    if kind < 3:
        parts = tuple(_tree(rng, namespace, depth - 1) for _ in range(rng.choice((0, 1, 2, 2))))
        return (AllOf(parts), OneOf(parts), Not(_tree(rng, namespace, depth - 1)))[kind]
    if kind == 3 or rng.random() < 0.2:
        return NodePeer(_condition(rng, 1), rng.choice(tuple(Where)))
    if rng.random() < 0.2:
        return EndpointPeer(EndpointSelector(condition=_condition(rng)))
    return AnyPeer() if rng.random() < 0.1 else _plain_peer(rng, namespace)


def _peer(rng: random.Random, namespace: str) -> Peer:
    return _tree(rng, namespace, 2) if rng.random() < 0.4 else _plain_peer(rng, namespace)


def _plain_peer(rng: random.Random, namespace: str) -> Peer:
    if rng.random() < 0.5:
        return cases._peer(rng, namespace)
    network = ip_network(rng.choice(NETWORKS))
    inside = [n for n in map(ip_network, NETWORKS) if cases._is_strictly_inside(n, network)]
    holes = [rng.choice(inside) for _ in range(rng.choice((0, 0, 1, 2, 3))) if inside]
    return AddressPeer(network, tuple(holes))  # unsorted, nested and repeated excepts
