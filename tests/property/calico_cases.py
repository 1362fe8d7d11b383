# SPDX-License-Identifier: Apache-2.0
"""Random policy sets that Calico can express, near the limits of its API.

Those of tests/property/tiered_cases.py, where rejects are denies, nodes are pods, and CIDRs are such as
its API takes; with logs, source ports, port 0 and tiers by the names that Calico keeps.
"""

import random
from dataclasses import replace
from ipaddress import ip_network

from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, EndpointPeer, NodePeer, Peer
from policyc.ir.policy import Action, Policy, PolicySet, PortRange, Rule, Tier
from policyc.ir.selectors import (
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
    Requirement,
)
from policyc.ir.services import Protocol
from tests.property.tiered_cases import tiered_case

TIER_NAMES = ("default", "networkpolicy", "kube-admin", "kube-baseline", "extended-1e+06", "a.b")
SOURCE_PORTS = ((0, 0), (0, 1023), (80, 80), (1024, 65535), (5, 9), (0, 65535))
MAPPED = ip_network("::ffff:0:0/96")
LEGAL = ip_network("64:ff9b::/96")
_ACCOUNTS = {"n1": "default", "n2": "robot", "elsewhere": "other"}


def calico_case(rng: random.Random) -> PolicySet:
    """A policy set; a few have a rule that leaves out too much for one of Calico's."""
    policies = tiered_case(rng, max_tiers=3, max_policies=3, max_pods=1).policies
    return PolicySet(tuple(_tier(rng, tier) for tier in policies.tiers))


def _tier(rng: random.Random, tier: Tier) -> Tier:
    name = rng.choice((tier.name, *TIER_NAMES))
    return replace(tier, name=name, policies=tuple(_policy(rng, p) for p in tier.policies))


def _policy(rng: random.Random, policy: Policy) -> Policy:
    return replace(
        policy,
        subject=_selector(policy.subject),
        ingress=tuple(_rule(rng, rule) for rule in policy.ingress),
        egress=tuple(_rule(rng, rule) for rule in policy.egress),
    )


def _rule(rng: random.Random, rule: Rule) -> Rule:
    rule = replace(
        rule,
        action=Action.DENY if rule.action is Action.REJECT else rule.action,
        own=_peer(rule.own),
        peers=tuple(map(_peer, rule.peers)),
        log=rng.random() < 0.1,
    )
    if rng.random() < 0.05:
        rule = replace(rule, action=Action.LOG)
    if rng.random() < 0.15:
        spans = rng.sample(SOURCE_PORTS, rng.randint(0, 2))
        rule = replace(rule, source_ports=IntervalSet.of(spans))
    if rng.random() < 0.1:
        low = PortRange(rng.choice(tuple(Protocol)), 0, rng.choice((0, 79, 65535)))
        if rng.random() < 0.5:
            return replace(rule, ports=(*rule.ports, low))
        return replace(rule, except_ports=(low,))
    return rule


def _peer(peer: Peer) -> Peer:
    match peer:
        case EndpointPeer(selector):
            return EndpointPeer(_selector(selector))
        case NodePeer(condition):
            return EndpointPeer(EndpointSelector(condition=_condition(condition)))
        case AddressPeer(network, excepts):
            holes = tuple(hole for hole in excepts if hole != MAPPED)
            return AddressPeer(LEGAL if network == MAPPED else network, holes)
        case AllOf(parts):
            return AllOf(tuple(map(_peer, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(_peer, parts)))
        case Not(part):
            return Not(_peer(part))
        case _:
            return peer


def _selector(selector: EndpointSelector) -> EndpointSelector:
    return replace(selector, condition=_condition(selector.condition))


def _condition(condition: Condition) -> Condition:
    """Nodes and their labels as service accounts and theirs."""
    match condition:
        case AttributeTest(Attribute.NODE, Requirement(key, operator, values)):
            names = tuple(sorted(_ACCOUNTS.get(value, value) for value in values))
            return AttributeTest(Attribute.SERVICE_ACCOUNT, Requirement(key, operator, names))
        case AttributeTest(Attribute.NODE_LABEL, requirement):
            return AttributeTest(Attribute.SERVICE_ACCOUNT_LABEL, requirement)
        case AllOf(parts):
            return AllOf(tuple(map(_condition, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(_condition, parts)))
        case Not(part):
            return Not(_condition(part))
        case _:
            return condition
