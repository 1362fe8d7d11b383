# SPDX-License-Identifier: Apache-2.0
"""Target policy.networking.k8s.io/v1alpha2: ClusterNetworkPolicies around one tier of NetworkPolicies.

The tier that only allows, and denies the rest, becomes NetworkPolicies where possible. Earlier tiers
become the Admin tier and later tiers the Baseline tier, with their defaults and order as rules. A tier
that denies first and then allows is split into such a tier and one before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from policyc.backends.policies.network_policy import NetworkPolicyWriter, blocks_of, check_plain
from policyc.backends.policies.normal_form import (
    Conjunction,
    PeerWay,
    UnsayableError,
    alternatives,
    conjunctions,
    peer_ways,
    selector_to_api,
    to_kubernetes,
)
from policyc.backends.policies.target import (
    Inexpressible,
    InexpressibleError,
    Names,
    Object,
    of_policy,
    of_rule,
)
from policyc.ir.passes.explicit import (
    DEFAULT,
    allows_apart,
    explicit,
)
from policyc.ir.peers import Network, Where, is_inside
from policyc.ir.policy import (
    NEVER,
    Action,
    AnyService,
    Direction,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Rule,
    Tier,
)
from policyc.ir.selectors import Attribute, AttributeTest, as_condition
from policyc.ir.services import Protocol

MOST_RULES = MOST_ITEMS = 25
"""The CRD's limits: rules a direction, peers and protocols a rule, networks a peer (C40)."""
LAST_PRIORITY = 1000
LONGEST_NAME = 100
ADMIN, BASELINE = "Admin", "Baseline"
_ACTIONS = {Action.ALLOW: "Accept", Action.DENY: "Deny", Action.PASS: "Pass"}
_CANNOT = {
    Action.DENY_OWN_NODE: "deny traffic of the pod's own node",
    Action.REJECT: "reject",
    Action.LOG: "log",
    Action.AUDIT: "audit",
}
_PEERS = {Direction.INGRESS: "from", Direction.EGRESS: "to"}
T = TypeVar("T")


def to_cluster_network_policies(policies: PolicySet) -> list[Object]:
    """ClusterNetworkPolicies and NetworkPolicies with the same meaning; or InexpressibleError.

    Of the possible placements of the tiers, the first that can be written; else the faults of the first.
    """
    tiers = [part for tier in policies.tiers if tier.policies for part in allows_apart(tier)]
    first: list[Inexpressible] = []
    for before, objects, after in _placements(tiers):
        names = Names()
        admin, baseline = _SlotWriter(ADMIN, names), _SlotWriter(BASELINE, names)
        out = [*admin.tiers(before), *objects, *baseline.tiers(after)]
        found = [*admin.found, *baseline.found]
        if not found:
            return out
        first = first or found
    raise InexpressibleError(first)


def _placements(tiers: list[Tier]) -> Iterator[tuple[list[Tier], list[Object], list[Tier]]]:
    """(Admin, NetworkPolicies, Baseline): around a tier that NetworkPolicies can express, or without."""
    for at in range(len(tiers) - 1, -1, -1):
        writer = NetworkPolicyWriter()
        objects = writer.tier(tiers[at])
        if not writer.found:
            yield tiers[:at], objects, tiers[at + 1 :]
    for at in range(len(tiers), -1, -1):
        yield tiers[:at], [], tiers[at:]


class _SlotWriter:
    """Writes tiers into Admin or Baseline, by ascending priority."""

    def __init__(self, slot: str, names: Names) -> None:
        self.found: list[Inexpressible] = []
        self._slot = slot
        self._names = names
        self._priority = 0

    def tiers(self, tiers: list[Tier]) -> list[Object]:
        """The tiers in sequence: only the last may pass flows on."""
        for tier in tiers[:-1]:
            for policy in tier.policies:
                for rule in (*policy.ingress, *policy.egress):
                    if rule.action is Action.PASS:
                        why = f"it passes to a tier that would stand in {self._slot} with its own"
                        self.found.append(of_rule(policy, rule, why))
        return [
            each
            for tier in tiers
            for policy in explicit(tier).policies
            for each in self._policy(policy)
        ]

    def _policy(self, policy: Policy) -> Iterator[Object]:
        if policy.hosts != NEVER:
            self.found.append(of_policy(policy, "it selects host interfaces"))
        rules = {d: self._rules(policy, d) for d in Direction}
        try:
            subjects = conjunctions(as_condition(policy.subject))
        except UnsayableError as failure:
            self.found.append(of_policy(policy, f"in its subject, {failure}"))
            return
        for subject in subjects:
            for ingress, egress in _pages(rules[Direction.INGRESS], rules[Direction.EGRESS]):
                yield self._object(policy, subject, {"ingress": ingress, "egress": egress})

    def _object(
        self, policy: Policy, subject: Conjunction, rules: dict[str, list[Object]]
    ) -> Object:
        if self._priority > LAST_PRIORITY:
            self.found.append(of_policy(policy, "there are more policies than priorities"))
        spec: Object = {
            "tier": self._slot,
            "priority": min(self._priority, LAST_PRIORITY),
            "subject": _selected(subject),
        }
        self._priority += 1
        return {
            "apiVersion": "policy.networking.k8s.io/v1alpha2",
            "kind": "ClusterNetworkPolicy",
            "metadata": {"name": self._names.cluster_name(policy)},
            "spec": spec | {name: found for name, found in rules.items() if found},
        }

    def _rules(self, policy: Policy, direction: Direction) -> list[Object]:
        out: list[Object] = []
        for rule in policy.rules(direction):
            try:
                out += _rule(rule, direction)
            except UnsayableError as failure:
                self.found.append(_refused(policy, rule, str(failure)))
        return out


def _refused(policy: Policy, rule: Rule, why: str) -> Inexpressible:
    """The rule; for a default, the policy whose default it is."""
    if rule.origin != policy.origin:
        return of_rule(policy, rule, why)
    named = replace(policy, name=policy.name.removesuffix(f"-{DEFAULT}"))
    return of_policy(named, f"its default denies unmatched traffic, and there {why}")


def _pages(
    ingress: list[Object], egress: list[Object]
) -> Iterator[tuple[list[Object], list[Object]]]:
    """Rules in portions that one object can hold; the priorities keep their order."""
    for at in range(0, max(len(ingress), len(egress)), MOST_RULES):
        yield ingress[at : at + MOST_RULES], egress[at : at + MOST_RULES]


def _chunks(items: Sequence[T]) -> Iterator[list[T]]:
    for at in range(0, len(items), MOST_ITEMS):
        yield list(items[at : at + MOST_ITEMS])


def _selected(found: Conjunction) -> Object:
    """A subject or a peer: pods of namespaces, or whole namespaces."""
    namespaces = selector_to_api(found.namespace_labels)
    if not found.labels:
        return {"namespaces": namespaces}
    pods: Object = {"namespaceSelector": namespaces} if namespaces else {}
    return {"pods": pods | {"podSelector": selector_to_api(found.labels)}}


def _rule(rule: Rule, direction: Direction) -> Iterator[Object]:
    """The rule, as several if it has too many peers or ports; none if it matches no flow."""
    check_plain(rule)
    if rule.action not in _ACTIONS:
        raise UnsayableError(f"ClusterNetworkPolicies cannot {_CANNOT[rule.action]}")
    peers = [peer for way in peer_ways(rule.peers) for peer in _peers(way, direction)]
    protocols = _protocols(rule)
    if protocols is not None and not protocols:
        return
    is_named = any("destinationNamedPort" in each for each in protocols or ())
    if is_named and any(not {"namespaces", "pods"} & each.keys() for each in peers):
        raise UnsayableError("it matches named ports at addresses or nodes")
    for some_peers in _chunks(peers):
        for some in [None] if protocols is None else _chunks(protocols):
            out: Object = {"name": rule.name[:LONGEST_NAME]} if rule.name else {}
            out |= {"action": _ACTIONS[rule.action], _PEERS[direction]: some_peers}
            yield out if some is None else out | {"protocols": some}


def _peers(way: PeerWay, direction: Direction) -> Iterator[Object]:
    if way.selector is not None:
        if way.inside or way.outside:
            raise UnsayableError("it matches pods inside (or outside) an address block")
        yield from map(_selected, conjunctions(way.selector))
        return
    if direction is Direction.INGRESS:
        raise UnsayableError("its sources are not only pods, but ingress peers must be pods")
    if way.not_selected or way.not_nodes:
        raise UnsayableError("it distinguishes external addresses from those of pods or nodes")
    if way.node:
        yield from _nodes(way)
        return
    networks = [part for found, holes in blocks_of(way) for part in _without(found, holes)]
    yield from ({"networks": [str(n) for n in some]} for some in _chunks(networks))


def _without(network: Network, holes: tuple[Network, ...]) -> list[Network]:
    """CIDRs that cover a network without the holes."""
    parts: list[Network] = [network]
    for hole in holes:
        kept: list[Network] = []
        for part in parts:
            if not part.overlaps(hole):
                kept.append(part)
            elif not is_inside(part, hole):
                kept += part.address_exclude(hole)  # type: ignore[arg-type]
        parts = kept
    return sorted(parts, key=lambda part: (int(part.network_address), part.prefixlen))


def _nodes(way: PeerWay) -> Iterator[Object]:
    """Nodes by their labels; several peers conjoined are one condition."""
    if way.inside or way.outside or any(peer.where is not Where.ANYWHERE for peer in way.node):
        raise UnsayableError(
            "it distinguishes the subject's own node from others, or nodes by address"
        )
    (peer, *others) = way.node
    if others:
        raise UnsayableError("it has several conditions on one node")
    for literals in alternatives(peer.condition):
        requirements = []
        for test, is_wanted in literals:
            assert isinstance(test, AttributeTest)
            if test.attribute is not Attribute.NODE_LABEL:
                raise UnsayableError(f"it selects nodes by {test.attribute.value}")
            requirements.append(to_kubernetes(test.requirement, is_wanted))
        yield {"nodes": selector_to_api(tuple(requirements))}


def _protocols(rule: Rule) -> list[Object] | None:
    """The protocol entries; None is every service."""
    if rule.except_ports:
        raise UnsayableError("it excludes ports from a wider set")
    if any(isinstance(ports, AnyService) for ports in rule.ports):
        return None
    return [*_numbered(rule), *_named(rule)]


def _numbered(rule: Rule) -> Iterator[Object]:
    for ports in rule.ports:
        match ports:
            case PortRange(protocol, lo, hi) if lo > 0:
                port: Object = {"number": lo} if lo == hi else {"range": {"start": lo, "end": hi}}
                yield {protocol.name.lower(): {"destinationPort": port}}
            case NamedPort():
                continue
            case _:
                raise UnsayableError(
                    "ClusterNetworkPolicies cannot express every port of a protocol, port 0, ICMP "
                    "and other protocols"
                )


def _named(rule: Rule) -> Iterator[Object]:
    """A named port applies to every protocol there, so the rule must mean all three."""
    named = [ports for ports in rule.ports if isinstance(ports, NamedPort)]
    for name in dict.fromkeys(port.name for port in named):
        if {port.protocol for port in named if port.name == name} != set(Protocol):
            raise UnsayableError(f"it matches the port name {name!r} for one protocol only")
        yield {"destinationNamedPort": name}
