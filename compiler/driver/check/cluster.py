# SPDX-License-Identifier: Apache-2.0
"""Useless rules over a cluster, certified, and findings that need a cluster."""

from collections.abc import Iterator
from dataclasses import replace

from policyc.compiler.driver.check.answers import (
    Answers,
    CheckOptions,
)
from policyc.compiler.driver.check.codes import UNDECLARED_PORT
from policyc.compiler.driver.check.findings import (
    place_of,
    selects_nothing,
)
from policyc.compiler.driver.compare.diff import (
    DiffOptions,
    diff_sides,
)
from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
)
from policyc.ir.bits import members, union
from policyc.ir.errors import InternalError
from policyc.ir.matching import selects
from policyc.ir.policy import NEVER, Direction, NamedPort, Policy
from policyc.ir.results.common import Evidence, Finding
from policyc.ir.results.diff import DiffOutcome
from policyc.ir.results.places import key_of_rule
from policyc.ir.universe import Endpoint, Universe
from policyc.verifier.cluster.reads import Reads, policies_of
from policyc.verifier.cluster.redundancy import Redundancy
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.cluster.sites import sites_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.redundancy.accidents import all_rules

_NAMED = 3
"""The number of pods that a finding names; it counts the others."""


def useless_in_cluster(
    read: Read, options: CheckOptions, progress: Progress
) -> tuple[Answers, Redundancy]:
    """The rules that change nothing in the cluster; their joint removal is compared and certified."""
    policies = read.policies.policies
    universe = universe_of(read)
    nodes = read.cluster.nodes if read.cluster is not None else ()
    said = [network for node in nodes for network in node.pod_cidrs]
    networks = tuple(dict.fromkeys([*options.pod_networks, *said]))
    progress("checking every rule on the cluster's pods")
    reads = Reads.of((policies,))
    tried = Redundancy(Space(sites_of(universe, universe, reads, networks), reads), policies)
    useless = tried.useless()
    progress(f"finding which of {len(useless)} rules can be removed together")
    together = tried.together(useless)
    evidence, undecided = _certified(read, tried, together, options, progress)
    kept = () if undecided else tuple(together)
    return Answers(tuple(useless), kept, evidence, undecided), tried


def universe_of(read: Read) -> Universe:
    """The ends of the cluster."""
    return read.cluster.universe if read.cluster is not None else Universe()


def _certified(
    read: Read,
    tried: Redundancy,
    together: list[RuleId],
    options: CheckOptions,
    progress: Progress,
) -> tuple[Evidence, tuple[str, ...]]:
    """The policies compared with those without all removable rules."""
    less = replace(read.policies, policies=tried.without(together))
    how = DiffOptions(
        False,
        pod_networks=options.pod_networks,
        timeout_ms=options.timeout_ms,
        solver=options.solver,
    )
    found = diff_sides(read, replace(read, policies=less), how, progress)
    if found.outcome is DiffOutcome.UNDECIDED:
        return found.evidence, (
            f"can {len(together)} rules be removed together? {found.undecided}",
        )
    if found.outcome is not DiffOutcome.EQUAL:
        raise InternalError(
            "check found rules that change nothing, but verdicts differ without them"
        )
    method = (
        f"exhaustive over the cluster's atoms; without the removable rules: {found.evidence.method}"
    )
    return replace(found.evidence, method=method), ()


def cluster_findings(read: Read, tried: Redundancy) -> Iterator[Finding]:
    """Policies that select nothing, and named ports that no pod declares."""
    idle = {
        id(policy) for policy in policies_of((tried.policies,)) if _is_idle(policy, read, tried)
    }
    for policy in policies_of((tried.policies,)):
        if id(policy) in idle:
            yield _idle(policy, universe_of(read))
    for rule in all_rules(tried.policies):
        if id(rule.policy) not in idle:
            yield from _undeclared(rule, tried)


def _is_idle(policy: Policy, read: Read, tried: Redundancy) -> bool:
    view = tried.space.after
    if view.pods.selected(policy.subject):
        return False
    if policy.hosts != NEVER and view.nodes.condition(policy.hosts):
        return False
    return not any(  # pods that do not run yet are not among the sites
        selects(policy.subject, end) and not end.host_network for end in universe_of(read).endpoints
    )


def _idle(policy: Policy, universe: Universe) -> Finding:
    only_hosts = [
        end.qualified_name
        for end in universe.endpoints
        if end.host_network and selects(policy.subject, end)
    ]
    why = "No pod, workload or host of the given cluster matches its selector."
    if only_hosts:
        named = ", ".join(only_hosts[:_NAMED])
        if len(only_hosts) > _NAMED:
            named += f" and {len(only_hosts) - _NAMED} more"
        why = (
            f"It selects pods in the host's network only ({named}):"
            " policies do not apply to them (A21)."
        )
    return selects_nothing(policy, why)


def _undeclared(rule: RuleId, tried: Redundancy) -> Iterator[Finding]:
    code, place = UNDECLARED_PORT, place_of(rule)
    for entry in rule.rule.ports:
        if isinstance(entry, NamedPort) and not _is_declared(rule, entry, tried):
            shown = code.at(
                place.span, rule=place.words, protocol=entry.protocol.name, name=entry.name
            )
            whose = (
                "the pods that the policy selects"
                if rule.direction is Direction.INGRESS
                else "the pods among the rule's peers"
            )
            yield Finding(
                code.name,
                code.severity,
                shown.message,
                f"A named port is looked up among the container ports of {whose} (A19), and none of them"
                " has this name.",
                place,
                key_of_rule(rule.policy, rule.direction, rule.index, entry.name),
                hint="use the name that the containers declare, or the port's number",
            )


def _is_declared(rule: RuleId, port: NamedPort, tried: Redundancy) -> bool:
    view = tried.space.after
    if rule.direction is Direction.INGRESS:
        ends = (view.ends[at] for at in members(view.pods.selected(rule.policy.subject)))
        return any(
            isinstance(end, Endpoint) and end.named_ports(port.name, port.protocol) for end in ends
        )
    declaring = union(view.declaring(port).values())
    return bool(declaring & union(view.peer(peer, "") for peer in rule.rule.peers))
