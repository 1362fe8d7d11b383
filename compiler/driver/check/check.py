# SPDX-License-Identifier: Apache-2.0
"""Check: rules that never decide, that repeat others, or that are probably not meant."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from policyc.compiler.driver.check.answers import (
    Answers,
    CheckOptions,
)
from policyc.compiler.driver.check.cluster import (
    cluster_findings,
    universe_of,
    useless_in_cluster,
)
from policyc.compiler.driver.check.codes import (
    ADOPTED,
    CLUSTER_ONLY,
    RULES,
    SELECTS_NOTHING,
    UNDECLARED_PORT,
)
from policyc.compiler.driver.check.config import (
    DEFAULTS,
    CheckConfig,
)
from policyc.compiler.driver.check.coverage import coverage
from policyc.compiler.driver.check.findings import (
    findings_of,
    impossible_subjects,
    place_of,
)
from policyc.compiler.driver.check.ignores import (
    apply_ignores,
    read_ignores,
)
from policyc.compiler.driver.check.input import ToCheck
from policyc.compiler.driver.check.lints import (
    accidents,
    adopted,
    dns_findings,
    namespace_traps,
    node_addresses,
    node_denials,
)
from policyc.compiler.driver.check.opaque import useless_rules
from policyc.compiler.driver.check.symbolic import useless_anywhere
from policyc.compiler.driver.check.whole_policies import (
    UselessPolicies,
    findings_of_policies,
    useless_policies,
)
from policyc.compiler.driver.compare.diff_opaque import with_policies
from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
)
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.ir.bounds import opaque_rules
from policyc.ir.counts import cluster_words
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.policy import NamedPort, Policy, PolicySet
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Evidence, Finding, UniverseUsed
from policyc.ir.results.opaque import part_of
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.redundancy import Redundancy, Useless, Uselessness
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.smt.solvers import versions_of

_ORDER = [Severity.ERROR, Severity.WARNING, Severity.NOTE]


@dataclass(frozen=True, slots=True)
class Checked:
    """The result, and the front end's findings that are not part of it.

    `together` and `deletable` are the rules and policies that may be removed together, proved. They
    include those whose findings are suppressed or off.
    """

    result: CheckResult
    others: tuple[Diagnostic, ...]
    together: tuple[RuleId, ...] = ()
    deletable: tuple[Policy, ...] = ()


def check(
    given: ToCheck,
    options: CheckOptions,
    progress: Progress,
    config: CheckConfig = DEFAULTS,
) -> Checked:
    """Run every check of `RULES`. Raises InputError for comments with mistakes."""
    ignores = read_ignores(given.texts)
    read = given.read
    with collector_relaxed():
        find = partial(_useless, options=options, progress=progress)
        answers, tried = useless_rules(read, find)
        universe = _universe_used(read, options)
        whole = useless_policies(read, answers, tried, options, progress)
        if whole.found:  # what is said about rules must hold after the policies are deleted
            n_before = answers.evidence.queries
            answers, _ = useless_rules(with_policies(read, whole.left), find)
            whole = replace(whole, queries=whole.queries + n_before)
        found = list(_findings(read, answers, tried, whole, universe, options))
    rules = config.rules(
        rule for rule in RULES if not (options.is_symbolic and rule.code in CLUSTER_ONLY)
    )
    looked_for = {rule.code for rule in rules}
    kept, quiet = apply_ignores(config.findings(found), ignores, looked_for)
    shown = [each for each in config.findings(kept) if each.code in looked_for]
    shown.sort(key=lambda each: (each.place.span, each.code, each.key))
    policies = read.policies.policies
    every = list(policies_of((policies,)))
    result = CheckResult(
        tuple(shown),
        universe,
        _evidence(answers, whole, options),
        tuple(quiet),
        tuple(place_of(rule) for rule in answers.together),
        (*_notes(read, given), *whole.notes),
        (*answers.undecided, *whole.undecided),
        len(every),
        sum(len(p.ingress) + len(p.egress) for p in every),
        rules,
        tuple(map(part_of, opaque_rules(policies))),
        config.used(found),
        None if options.is_symbolic else coverage(policies, universe_of(read).endpoints),
    )
    others = tuple(each for each in read.findings if each.code not in ADOPTED)
    deletable = tuple(each.policy for each in whole.found)
    return Checked(_with_replayed(result), others, answers.together, deletable)


def _useless(read: Read, options: CheckOptions, progress: Progress) -> tuple[Answers, Redundancy]:
    """The useless rules in the given universe; no rule is opaque."""
    if options.is_symbolic:
        return useless_anywhere(read.policies.policies, options, progress)
    return useless_in_cluster(read, options, progress)


def _findings(
    read: Read,
    answers: Answers,
    tried: Redundancy,
    whole: UselessPolicies,
    universe: UniverseUsed,
    options: CheckOptions,
) -> Iterator[Finding]:
    policies = read.policies.policies
    yield from adopted(read.policies.findings)
    yield from accidents(policies)
    yield from namespace_traps(policies, _names_by_label(read))
    yield from dns_findings(tried, options.is_symbolic)
    idle = _never_asked(answers.useless)
    nodes = () if options.is_symbolic else node_addresses(tried)
    for finding in node_denials(policies, nodes):
        if finding.place not in idle:
            yield finding
    about_all = list(
        impossible_subjects(policies) if options.is_symbolic else cluster_findings(read, tried)
    )
    idle_policies = {each.place.span for each in about_all if each.code == SELECTS_NOTHING.name}
    deleted = [each for each in whole.found if each.policy.origin.span not in idle_policies]
    yield from about_all
    yield from findings_of_policies(replace(whole, found=tuple(deleted)), options.pod_networks)
    yield from findings_of(_not_said(answers.useless, about_all), universe.words)


def _evidence(answers: Answers, whole: UselessPolicies, options: CheckOptions) -> Evidence:
    """The certification, with the proofs about whole policies."""
    if not whole.queries:
        return answers.evidence
    method = answers.evidence.method.removesuffix("; no solver query")
    return replace(
        answers.evidence,
        method=f"{method}; one proof for each policy that changes nothing",
        solvers=versions_of(options.solver),
        queries=answers.evidence.queries + whole.queries,
    )


def _names_by_label(read: Read) -> frozenset[str] | None:
    """The values of the label `name` of the cluster's namespaces; None without a cluster."""
    if read.cluster is None:
        return None
    return frozenset(
        each.labels["name"] for each in read.cluster.namespaces if "name" in each.labels
    )


def _never_asked(useless: Iterable[Useless]) -> set[object]:
    idle = (Uselessness.DEAD, Uselessness.SHADOWED)
    return {place_of(each.rule) for each in useless if each.why in idle}


def _not_said(useless: Iterable[Useless], said: Iterable[Finding]) -> Iterator[Useless]:
    """Without dead rules of policies that select nothing, or whose ports no pod declares."""
    idle = {each.place.span for each in said if each.code == SELECTS_NOTHING.name}
    ports = Counter(each.place for each in said if each.code == UNDECLARED_PORT.name)
    for each in useless:
        rule = each.rule
        names = [port for port in rule.rule.ports if isinstance(port, NamedPort)]
        is_named = len(names) == len(rule.rule.ports) == ports[place_of(rule)] > 0
        is_said = rule.policy.origin.span in idle or is_named
        if not (each.why is Uselessness.DEAD and is_said):
            yield each


def _with_replayed(result: CheckResult) -> CheckResult:
    """Count the witnesses of the findings: the reference semantics confirmed each."""
    count = sum(each.witness is not None for each in result.findings)
    replayed = result.evidence.replayed_witnesses + count
    return replace(result, evidence=replace(result.evidence, replayed_witnesses=replayed))


def _universe_used(read: Read, options: CheckOptions) -> UniverseUsed:
    if options.is_symbolic:
        among = ", ".join(map(str, options.pod_networks))
        where = f", with pod addresses in {among}" if among else ""
        return UniverseUsed("symbolic", f"every pod, node and address that could exist{where}")
    universe = universe_of(read)
    return UniverseUsed("cluster", cluster_words(universe, "every external address"))


def _notes(read: Read, given: ToCheck) -> tuple[str, ...]:
    notes = []
    if not _has_policies(read.policies.policies):
        notes.append("the input has no policy: nothing was checked")
    if not given.texts:
        notes.append("a bundle has no comments: nothing is ignored")
    return tuple(notes)


def _has_policies(policies: PolicySet) -> bool:
    return any(tier.policies for tier in policies.tiers)


def exit_code_of(result: CheckResult, fail_on: str = "warning") -> int:
    """1 if a finding is as severe as `fail_on`, else 3 if something is undecided, else 0."""
    bar = [s for s in _ORDER if fail_on != "none" and s in _ORDER[: _bar(fail_on)]]
    if any(each.severity in bar for each in result.findings):
        return 1
    return 3 if result.undecided else 0


def _bar(fail_on: str) -> int:
    return 1 + [severity.value for severity in _ORDER].index(fail_on)
