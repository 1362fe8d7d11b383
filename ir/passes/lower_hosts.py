# SPDX-License-Identifier: Apache-2.0
"""LowerHosts: a host becomes an endpoint, and its host policy becomes policy of that endpoint.

A host has a row as a pod has. Its row is that of an endpoint in the namespace without a name, with the
labels of its host interface, on its node. No pod is in that namespace, and no rule selects a host as
such a peer: as a peer, a node stays a node, or an address. The node makes the row when it loads the
bundle, from the host interfaces in hosts.json (`runtime/policy/host_policy.py`). The datapath handles
failsafe ports.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.errors import InternalError
from policyc.ir.hosts import HostEndpoint
from policyc.ir.matching import requirement_holds
from policyc.ir.passes.ir_pass import IrPass, Keeps
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
    as_condition,
)
from policyc.ir.spans import Origin

UNMATCHED_TIER = "host endpoints"
"""Behind all others: what none of them decides is denied at such a host interface (D43)."""

_IS_HOST: Condition = AttributeTest(Attribute.NAMESPACE, Requirement("", Operator.IN, ("",)))
_IS_POD: Condition = Not(_IS_HOST)
_OF_PODS = (
    Attribute.NAMESPACE,
    Attribute.NAMESPACE_LABEL,
    Attribute.SERVICE_ACCOUNT,
    Attribute.SERVICE_ACCOUNT_LABEL,
)


@dataclass(frozen=True)
class LowerHosts(IrPass):
    """The same policies, about endpoints alone: with `interfaces`, or with every node, as endpoints.

    Without either nothing is said of any host.
    """

    name: ClassVar[str] = "lower-hosts"
    keeps: ClassVar[Keeps] = Keeps.ACTIONS_OF_PODS

    interfaces: tuple[HostEndpoint, ...] = ()
    every_node: bool = False

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """Lower every policy, and add a tier that denies what host interfaces leave undecided."""
        if not self.interfaces and not self.every_node:
            return PolicySet(tuple(_without_hosts(tier) for tier in policies.tiers))
        tiers = [
            replace(tier, policies=tuple(map(_with_host, tier.policies))) for tier in policies.tiers
        ]
        denying = tuple(_unmatched(host) for host in self.interfaces if host.denies_unmatched)
        if denying:
            tiers.append(Tier(UNMATCHED_TIER, TierMode.FIRST_MATCH, Action.DENY, denying))
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
    """Its own side never finds a host as an endpoint."""
    return replace(rule, own=_own(policy, rule.own))


def _own(policy: Policy, peer: Peer) -> Peer:
    match peer:
        case EndpointPeer(selector):
            return EndpointPeer(_of_pods(selector))
        case NodePeer() if policy.hosts != NEVER:  # no front end says so, and no row would
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
    """The selector, which a host never meets."""
    if selector.namespace is not None or selector == NO_ENDPOINT:
        return selector
    if selector.condition == ALWAYS:
        return replace(selector, condition=_IS_POD)
    return replace(selector, condition=AllOf((_IS_POD, selector.condition)))


def _as_host(condition: Condition) -> Condition:
    """A condition on a node, asked of its endpoint: what only pods have is absent."""
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
    """Isolates one host, and allows nothing."""
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
