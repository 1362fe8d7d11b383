# SPDX-License-Identifier: Apache-2.0
"""A valid Calico policy -> Policy IR (semantics D41 to D44)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.destinations import destinations
from policyc.compiler.frontend.calico.labels import (
    endpoint_selector,
    on_namespaces,
    on_service_accounts,
    on_workloads,
)
from policyc.compiler.frontend.calico.peers import (
    EVERY_ADDRESS,
    all_of,
    entity_peer,
)
from policyc.compiler.frontend.calico.policy import (
    DELETE,
    IGNORE,
    INGRESS,
    CalicoPolicy,
)
from policyc.compiler.frontend.calico.rule import Rule
from policyc.compiler.frontend.calico.scalars import Selector
from policyc.compiler.frontend.calico.services import (
    Backends,
    backends,
    excepted_ports,
    named_source_ports,
    rule_ports,
    source_ports,
)
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.lowered import CalicoSlot, Lowered, Surroundings
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.tiers import (
    BUILT_IN_CALICO_TIERS,
    CALICO_DEFAULT_TIER,
)
from policyc.compiler.frontend.unsupported import (
    UnsupportedPart,
    fail_closed,
    refuse_subject,
    text_of,
)
from policyc.ir import policy as ir
from policyc.ir.diagnostics import Report
from policyc.ir.spans import Origin

GROUP = "projectcalico.org"
_ACTIONS = {
    "Allow": ir.Action.ALLOW,
    "Deny": ir.Action.DENY,
    "Log": ir.Action.LOG,
    "Pass": ir.Action.PASS,
}
_SWITCHES = {
    "doNotTrack": "untracked traffic of hosts (doNotTrack)",
    "preDNAT": "traffic of hosts before DNAT (preDNAT)",
}
_ON_FORWARD = "applyOnForward"


def lower_calico_policy(policy: CalicoPolicy, surroundings: Surroundings) -> Iterable[Lowered]:
    """The policy in its tier; None for a staged one that is to be deleted or ignored."""
    if policy.staged_action in (DELETE, IGNORE):
        return
    if not _has_tier(policy, surroundings):
        return
    for name in sorted(policy.switches & _SWITCHES.keys()):
        where = f"spec.{name}"
        part = UnsupportedPart(policy.spec.span_of(name), where, _SWITCHES[name])
        refuse_subject(part, surroundings.report)
    if policy.switches == {_ON_FORWARD} and _hosts(policy) != ir.NEVER:
        where = f"spec.{_ON_FORWARD}"
        finding = codes.NOT_ON_FORWARD.at(policy.spec.span_of(_ON_FORWARD), where, where=where)
        surroundings.report.add(finding.help("for pods alone, add `namespaceSelector: all()`"))
    slot = CalicoSlot(policy.tier, policy.order)
    yield Lowered(_policy(policy, surroundings), slot, bool(policy.staged_action))


def _has_tier(policy: CalicoPolicy, surroundings: Surroundings) -> bool:
    """Whether the tier exists, and the policy's name does not suggest another tier."""
    given = (tier.name for tier in surroundings.found.tiers)
    known = {tier.name for tier in BUILT_IN_CALICO_TIERS} | set(given)
    if policy.tier not in known:
        where = "spec.tier"
        finding = codes.TIER_UNKNOWN.at(
            policy.spec.span_of("tier"), where, where=where, name=quoted(policy.tier)
        )
        surroundings.report.add(finding.help(did_you_mean(policy.tier, known)))
        return False
    prefix, dot, _ = policy.metadata.name.partition(".")
    if dot and not policy.tier_given and prefix in known - {CALICO_DEFAULT_TIER}:
        where = "metadata.name"
        finding = codes.TIER_IN_NAME.at(policy.metadata.span, where, where=where, tier=prefix)
        surroundings.report.add(finding.help(f"write `tier: {prefix}`, or `tier: default`"))
        return False
    return _has_plain_name(policy, surroundings)


def _has_plain_name(policy: CalicoPolicy, surroundings: Surroundings) -> bool:
    """At most one dot, as a tier's name may come first; Kubernetes' policies begin with two words.

    Calico writes policies of Kubernetes and of OpenStack into NetworkPolicies of its own.
    """
    name = policy.metadata.name
    is_written = name.startswith(("knp.default.", "ossg.default.")) and not policy.is_global
    if name.count(".") <= 1 or is_written:
        return True
    where, value = "metadata.name", quoted(policy.metadata.name)
    problem = "Calico takes one dot in a policy's name, after that of a tier"
    surroundings.report.add(
        codes.NAME.at(policy.metadata.span, where, where=where, value=value, problem=problem)
    )
    return False


def _policy(policy: CalicoPolicy, surroundings: Surroundings) -> ir.Policy:
    meta = policy.metadata
    directions = frozenset(
        ir.Direction.INGRESS if name == INGRESS else ir.Direction.EGRESS for name in policy.types
    )

    def rules(direction: ir.Direction, given: tuple[Rule, ...]) -> tuple[ir.Rule, ...]:
        if direction not in directions:
            return ()
        lowered = (_rules(rule, direction, meta.namespace, surroundings) for rule in given)
        return tuple(rule for each in lowered for rule in each)

    return ir.Policy(
        kind=f"{policy.kind}.{GROUP}",
        namespace=meta.namespace,
        name=meta.name,
        subject=endpoint_selector(
            on_workloads(_condition(policy.selector)),
            on_namespaces(_condition(policy.namespace_selector)),
            on_service_accounts(_condition(policy.service_account_selector)),
            namespace=meta.namespace or None,
        ),
        isolates=directions,
        ingress=rules(ir.Direction.INGRESS, policy.ingress),
        egress=rules(ir.Direction.EGRESS, policy.egress),
        origin=Origin(meta.span, "metadata.name"),
        hosts=_hosts(policy),
    )


def _condition(selector: Selector | None) -> ir.Condition:
    return ir.ALWAYS if selector is None else selector.condition


def _hosts(policy: CalicoPolicy) -> ir.Condition:
    """Host endpoints have no namespace and no service account, so those selectors exclude them."""
    if not policy.is_global:
        return ir.NEVER
    if policy.namespace_selector is not None or policy.service_account_selector is not None:
        return ir.NEVER
    return _condition(policy.selector)


def _rules(
    rule: Rule, direction: ir.Direction, namespace: str, surroundings: Surroundings
) -> Iterator[ir.Rule]:
    """One rule, or several if the port names apply to fewer endpoints than the port numbers."""
    report = surroundings.report
    for part, destination in destinations(rule, namespace, surroundings):
        lowered = _rule(part, destination, direction, namespace, surroundings, report)
        if lowered is None:
            return
        yield lowered
        report = Report()  # the rule's mistakes were reported


def _rule(
    rule: Rule,
    destination: ir.Peer,
    direction: ir.Direction,
    namespace: str,
    surroundings: Surroundings,
    report: Report,
) -> ir.Rule | None:
    """The peer is the source on ingress, the destination on egress; the other side is the subject."""
    source = entity_peer(rule.source, namespace, surroundings)
    theirs, peer, own = rule.source, source, destination
    if direction is ir.Direction.EGRESS:
        theirs, peer, own = rule.destination, destination, source
    names = list(named_source_ports(rule.source))
    parts = [*names]
    if rule.has_http:
        where = f"{rule.path}.http"
        parts.append(UnsupportedPart(rule.node.span_of("http"), where, "HTTP requests"))
    peers = [peer]
    served = None
    if theirs.services is not None:
        found = backends(theirs.services, theirs, namespace, surroundings)
        if found is None:
            return None
        if isinstance(found, Backends):
            peers = [found.peer]
            served = found.ports if direction is ir.Direction.EGRESS else None
        else:
            parts.append(found)
    if rule.ip_version is not None:
        peers.append(ir.AddressPeer(EVERY_ADDRESS[rule.ip_version]))
    ports = rule_ports(rule, served)
    lowered = ir.Rule(
        _ACTIONS[rule.action],
        (all_of([peer for peer in peers if peer != ir.ANY_PEER]),) if ports else (),
        ports or (ir.AnyService(),),
        Origin(rule.node.span, rule.path),
        own=own,
        except_ports=excepted_ports(rule),
        source_ports=source_ports(rule),
    )
    return fail_closed(
        lowered,
        parts,
        surroundings.unsupported,
        report,
        text=text_of(rule.node),
        widest=replace(lowered, source_ports=None) if names else None,
    )
