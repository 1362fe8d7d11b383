# SPDX-License-Identifier: Apache-2.0
"""A valid policy of policy.networking.k8s.io -> Policy IR (B29 to B36, C37 to C39).

Policies of this API never isolate: a flow that no rule matches passes to the next tier.
"""

from collections.abc import Iterable, Iterator

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.admin.policy import (
    AdminPeer,
    AdminPolicy,
    AdminRule,
    DomainNames,
    EmptyPortName,
    Networks,
    NodesOf,
    PodsOf,
)
from policyc.compiler.frontend.kubernetes.selectors import lower_selector
from policyc.compiler.frontend.lowered import Lowered, Pending, Surroundings
from policyc.compiler.frontend.unsupported import fail_closed, text_of
from policyc.ir import policy as ir
from policyc.ir.spans import Origin


def pending_admin_policy(policy: AdminPolicy) -> Pending:
    """The policy, to be lowered after everything is read."""
    return Pending(policy.metadata, lambda around: _lowered(policy, around))


def _lowered(policy: AdminPolicy, around: Surroundings) -> Iterable[Lowered]:
    yield Lowered(lower_admin_policy(policy, around), policy.slot)


def lower_admin_policy(policy: AdminPolicy, around: Surroundings) -> ir.Policy:
    """One policy; unsupported parts of a rule are reported to `around.report`."""
    meta = policy.metadata
    return ir.Policy(
        kind=policy.kind,
        namespace="",
        name=meta.name,
        subject=_endpoints(policy.subject),
        isolates=frozenset(),
        ingress=tuple(_rule(rule, around) for rule in policy.ingress),
        egress=tuple(_rule(rule, around) for rule in policy.egress),
        origin=Origin(meta.span, "metadata.name"),
    )


def _rule(rule: AdminRule, around: Surroundings) -> ir.Rule:
    peers = tuple(peer for found in rule.peers for peer in _peers(found))
    ports: tuple[ir.Ports, ...] = (ir.AnyService(),)
    if rule.ports is not None:
        ports = tuple(port for port in rule.ports if not isinstance(port, EmptyPortName))
    lowered = ir.Rule(rule.action, peers, ports, Origin(rule.node.span, rule.path), name=rule.name)
    lowered = _without_empty_names(rule, lowered, around)
    parts = [peer.part for peer in rule.peers if isinstance(peer, DomainNames)]
    return fail_closed(lowered, parts, around.unsupported, around.report, text=text_of(rule.node))


def _without_empty_names(rule: AdminRule, lowered: ir.Rule, around: Surroundings) -> ir.Rule:
    """An entry that names no port counts as one without a known field: it opens nothing (B35)."""
    empty = [port for port in rule.ports or () if isinstance(port, EmptyPortName)]
    is_allow = rule.action is ir.Action.ALLOW
    outcome = "it allows nothing" if is_allow else "the rule denies everything"
    for port in empty:
        found = codes.EMPTY_PORT_NAME.at(port.span, port.path, where=port.path, outcome=outcome)
        around.report.add(found.help("write the name of a container port"))
    if not empty or is_allow:
        return lowered
    return ir.Rule(
        ir.Action.DENY, (ir.ANY_PEER,), (ir.AnyService(),), lowered.origin, name=rule.name
    )


def _peers(peer: AdminPeer) -> Iterator[ir.Peer]:
    """B33: networks match every holder of the address, nodes only addresses that no pod holds."""
    match peer:
        case PodsOf():
            yield ir.EndpointPeer(_endpoints(peer))
        case NodesOf(nodes):
            labels = lower_selector(nodes)
            tests = (ir.AttributeTest(ir.Attribute.NODE_LABEL, r) for r in labels.requirements)
            yield ir.NodePeer(ir.AllOf(tuple(tests)))
        case Networks(networks):
            yield from (ir.AddressPeer(network) for network in networks)
        case DomainNames():
            return


def _endpoints(pods: PodsOf) -> ir.EndpointSelector:
    """B32: host network pods are their nodes, which no selector selects (A21)."""
    return ir.EndpointSelector(None, lower_selector(pods.namespaces), lower_selector(pods.pods))
