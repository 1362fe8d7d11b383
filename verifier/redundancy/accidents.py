# SPDX-License-Identifier: Apache-2.0
"""Rules that are valid and probably not meant, found in the Policy IR alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, Network, NodePeer, Where
from policyc.ir.policy import (
    EVERYTHING,
    NETWORK_POLICY,
    Action,
    Direction,
    NamedPort,
    Operator,
    PolicySet,
    Rule,
)
from policyc.ir.services import kind_span
from policyc.ir.universe import Address
from policyc.verifier.cluster.rows import RuleId, services_of


@dataclass(frozen=True, slots=True)
class Permissive:
    """A rule for every peer that makes other rules of its policy, for some peers, pointless."""

    rule: RuleId
    pointless: tuple[int, ...]


def all_rules(policies: PolicySet) -> Iterator[RuleId]:
    """Every rule, tier by tier."""
    for tier, each in enumerate(policies.tiers):
        for policy in each.policies:
            for direction in Direction:
                for index in range(len(policy.rules(direction))):
                    yield RuleId(tier, policy, direction, index)


def permissive_rules(policies: PolicySet) -> Iterator[Permissive]:
    """Rules for every peer beside rules for some peers, of policies that only allow."""
    for rule in all_rules(policies):
        others = rule.policy.rules(rule.direction)
        if not _is_for_all(rule.rule) or any(r.action is not Action.ALLOW for r in others):
            continue
        pointless = [
            index
            for index, other in enumerate(others)
            if index != rule.index
            and other.opaque is None
            and not _is_for_all(other)
            and _covers(rule.rule, other)
        ]
        if pointless:
            yield Permissive(rule, tuple(pointless))


def whole_families(policies: PolicySet) -> Iterator[tuple[RuleId, Network]]:
    """Rules that allow a block of every address of a family, without excepts."""
    for rule in all_rules(policies):
        if rule.rule.action is Action.ALLOW:
            for peer in rule.rule.peers:
                if isinstance(peer, AddressPeer) and _is_whole(peer):
                    yield rule, peer.network


def split_peers(policies: PolicySet) -> Iterator[tuple[RuleId, int]]:
    """NetworkPolicy rules whose peer N selects whole namespaces, and N + 1 pods of the own namespace.

    Most often one peer with both selectors is meant: in YAML one dash more or less.
    """
    for rule in all_rules(policies):
        if rule.policy.kind != NETWORK_POLICY:
            continue
        peers = rule.rule.peers
        for at, (first, second) in enumerate(pairwise(peers)):
            if isinstance(first, EndpointPeer) and isinstance(second, EndpointPeer):
                of_namespaces, of_pods = first.selector, second.selector
                is_whole = of_namespaces.namespace is None and of_namespaces.labels == EVERYTHING
                is_own = of_pods.namespace == rule.policy.namespace and of_pods.labels != EVERYTHING
                if is_whole and of_namespaces.namespace_labels != EVERYTHING and is_own:
                    yield rule, at


def named_by_label(policies: PolicySet) -> Iterator[tuple[RuleId, str]]:
    """Rules with a peer that asks namespaces for the label `name`, and the wanted value.

    The API server sets no such label: it sets `kubernetes.io/metadata.name`.
    """
    for rule in all_rules(policies):
        for peer in rule.rule.peers:
            if isinstance(peer, EndpointPeer):
                for each in peer.selector.namespace_labels.requirements:
                    if each.key == "name" and each.operator is Operator.IN:
                        for value in each.values:
                            yield rule, value


def denies_of_nodes(policies: PolicySet, nodes: tuple[Address, ...]) -> Iterator[RuleId]:
    """Ingress rules that deny every peer, every address, remote nodes, or blocks with one of `nodes`."""
    for rule in all_rules(policies):
        is_deny = rule.direction is Direction.INGRESS and rule.rule.action.is_deny
        if is_deny and any(_means_nodes(peer, nodes) for peer in rule.rule.peers):
            yield rule


def _means_nodes(peer: object, nodes: tuple[Address, ...]) -> bool:
    match peer:
        case AnyPeer():
            return True
        case NodePeer(where=where):
            return where is not Where.LOCAL
        case AddressPeer(network, excepts):
            return _is_whole(peer) or any(
                node in network and not any(node in hole for hole in excepts)
                for node in nodes
                if node.version == network.version
            )
        case _:
            return False


def _is_whole(peer: AddressPeer) -> bool:
    return peer.network.prefixlen == 0 and not peer.excepts


def _is_for_all(rule: Rule) -> bool:
    return any(isinstance(peer, AnyPeer) for peer in rule.peers) and isinstance(rule.own, AnyPeer)


def _covers(rule: Rule, other: Rule) -> bool:
    """Every service of the other rule is one of this rule, whatever destinations declare."""
    if rule.source_ports is not None or rule.except_ports:
        return False
    mine, theirs = (services_of(each, lambda _: ()) for each in (rule, other))
    names = {port for port in other.ports if isinstance(port, NamedPort)} - set(rule.ports)
    return not theirs - mine and not any(kind_span(n.protocol.kind) - mine for n in names)
