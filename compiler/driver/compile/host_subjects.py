# SPDX-License-Identifier: Apache-2.0
"""Hosts as subjects of the tables: host policies are lowered to policies that isolate an endpoint.

A host has a row as a pod has. Its row is that of an endpoint in the namespace without a name, with the
labels of its host interface, on its node. No pod is in that namespace, and no rule selects a host as
such a peer: as a peer, a node stays a node, or an address. The node makes the row when it loads the
bundle, from the host interfaces in hosts.json (`runtime/policy/host_policy.py`). The datapath handles
failsafe ports.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from policyc.backends.policies.normal_form import as_condition
from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.frontend.cilium.hosts import guards_nodes
from policyc.ir.errors import InternalError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.hosts import HostEndpoint
from policyc.ir.matching import requirement_holds
from policyc.ir.peers import EndpointPeer, NodePeer, Peer
from policyc.ir.policy import (
    NEVER,
    NO_ENDPOINT,
    Action,
    Direction,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.selectors import (
    ALWAYS,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
)
from policyc.ir.spans import Origin

HOSTS_FILE = "hosts.json"
HOSTS_SCHEMA = "policyc.dev/hosts/v1"
UNMATCHED_TIER = "host endpoints"
"""After all other tiers: undecided flows of a host with default deny are denied (D43)."""

_IS_HOST: Condition = AttributeTest(Attribute.NAMESPACE, Requirement("", Operator.IN, ("",)))
_IS_POD: Condition = Not(_IS_HOST)
_OF_PODS = (
    Attribute.NAMESPACE,
    Attribute.NAMESPACE_LABEL,
    Attribute.SERVICE_ACCOUNT,
    Attribute.SERVICE_ACCOUNT_LABEL,
)


@dataclass(frozen=True)
class Hosts:
    """The nodes that are subjects: those with an interface here; with `every_node` all others, too."""

    interfaces: tuple[HostEndpoint, ...] = ()
    every_node: bool = False

    def __bool__(self) -> bool:
        """Whether any node may be a subject."""
        return bool(self.interfaces) or self.every_node

    def to_text(self) -> str:
        """hosts.json (docs/bundle-format.md)."""
        value: dict[str, Any] = {
            "schema": HOSTS_SCHEMA,
            "every_node": self.every_node,
            "interfaces": [_interface_json(each) for each in self.interfaces],
        }
        return json_text(value)


NO_HOSTS = Hosts()


def hosts_of(hosts: Iterable[HostEndpoint], policies: PolicySet) -> Hosts:
    """The host interfaces that were given, by name; every node if Cilium's policies select nodes."""
    return Hosts(tuple(sorted(hosts, key=lambda host: host.name)), guards_nodes(policies))


def _interface_json(host: HostEndpoint) -> dict[str, Any]:
    return {
        "name": host.name,
        "node": host.node,
        "interface": host.interface,
        "labels": dict(sorted(host.labels.items())),
        "addresses": [str(address) for address in host.addresses],
        "failsafes": True,
    }


def with_hosts_as_subjects(policies: PolicySet, hosts: Hosts) -> PolicySet:
    """The same policies, about endpoints alone. Without hosts they need no change."""
    if not hosts:
        return PolicySet(tuple(_without_hosts(tier) for tier in policies.tiers))
    tiers = [
        replace(tier, policies=tuple(map(_with_host, tier.policies))) for tier in policies.tiers
    ]
    guarded = tuple(_unmatched(host) for host in hosts.interfaces if host.is_guarded)
    if guarded:
        tiers.append(Tier(UNMATCHED_TIER, TierMode.FIRST_MATCH, Action.DENY, guarded))
    return PolicySet(tuple(tiers))


def _without_hosts(tier: Tier) -> Tier:
    if all(policy.hosts == NEVER for policy in tier.policies):
        return tier
    return replace(tier, policies=tuple(replace(policy, hosts=NEVER) for policy in tier.policies))


def _with_host(policy: Policy) -> Policy:
    ways: list[Condition] = []
    if policy.subject != NO_ENDPOINT:
        ways.append(AllOf((_IS_POD, as_condition(policy.subject))))
    if policy.hosts == NEVER:
        subject = _of_pods(policy.subject)
    else:
        ways.append(AllOf((_IS_HOST, _as_host(policy.hosts))))
        subject = EndpointSelector(condition=OneOf(tuple(ways)))
    return replace(
        policy,
        subject=subject,
        hosts=NEVER,
        ingress=tuple(_with_own(policy, rule) for rule in policy.ingress),
        egress=tuple(_with_own(policy, rule) for rule in policy.egress),
    )


def _with_own(policy: Policy, rule: Rule) -> Rule:
    """A rule's own side never matches a host as an endpoint."""
    return replace(rule, own=_own(policy, rule.own))


def _own(policy: Policy, peer: Peer) -> Peer:
    match peer:
        case EndpointPeer(selector):
            return EndpointPeer(_of_pods(selector))
        case NodePeer() if policy.hosts != NEVER:  # no front end gives it
            raise InternalError(f"{policy.title} tests whether its subject is a node")
        case AllOf(parts):
            return AllOf(tuple(_own(policy, part) for part in parts))
        case OneOf(parts):
            return OneOf(tuple(_own(policy, part) for part in parts))
        case Not(part):
            return Not(_own(policy, part))
        case _:
            return peer


def _of_pods(selector: EndpointSelector) -> EndpointSelector:
    """The selector, restricted so that it never selects a host."""
    if selector.namespace is not None or selector == NO_ENDPOINT:
        return selector
    if selector.condition == ALWAYS:
        return replace(selector, condition=_IS_POD)
    return replace(selector, condition=AllOf((_IS_POD, selector.condition)))


def _as_host(condition: Condition) -> Condition:
    """A condition on a node, tested on its endpoint: attributes that only pods have are absent."""
    match condition:
        case AttributeTest(attribute, requirement):
            if attribute not in _OF_PODS:
                return condition
            return ALWAYS if requirement_holds(requirement, {}) else NEVER
        case AllOf(parts):
            return AllOf(tuple(map(_as_host, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(_as_host, parts)))
        case Not(part):
            return Not(_as_host(part))


def _unmatched(host: HostEndpoint) -> Policy:
    """A policy that isolates one host, and allows nothing."""
    on_node = AttributeTest(Attribute.NODE, Requirement("", Operator.IN, (host.node,)))
    return Policy(
        kind="HostEndpoint",
        namespace="",
        name=host.name,
        subject=EndpointSelector(condition=AllOf((_IS_HOST, on_node))),
        isolates=frozenset(Direction),
        ingress=(),
        egress=(),
        origin=Origin(host.span, "spec"),
    )
