# SPDX-License-Identifier: Apache-2.0
"""The report on a change, or on one policy set: each question is asked as its own command asks it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.codes import ADOPTED
from policyc.compiler.driver.check.config import DEFAULTS, CheckConfig
from policyc.compiler.driver.check.input import ToCheck
from policyc.compiler.driver.compare import diff, listing
from policyc.compiler.driver.compare.diff import DiffOptions, diff_sides
from policyc.compiler.driver.compare.listing import ListOptions, list_cluster
from policyc.compiler.driver.compare.sides import both_findings
from policyc.compiler.driver.compile.compile import Progress, Read
from policyc.compiler.driver.prove import verify
from policyc.compiler.driver.prove.verify import ToVerify, VerifyOptions
from policyc.compiler.driver.report.excerpts import excerpts_of
from policyc.compiler.driver.report.texts import Texts
from policyc.compiler.driver.suppressed import without_suppressed
from policyc.compiler.frontend.read_intents import IntentInput
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Place
from policyc.ir.results.diff import DiffResult
from policyc.ir.results.places import place_of_policy
from policyc.ir.results.report import Report
from policyc.ir.results.verify import VerifyResult
from policyc.verifier.intents.intents import Asking


@dataclass(frozen=True, slots=True)
class Asked:
    """What a report asks beside the comparison; `intents` None: no intents are given."""

    options: DiffOptions
    texts: Texts
    intents: IntentInput | None = None
    severities: CheckConfig = DEFAULTS


def report_of_change(
    old: Read, new: Read, asked: Asked, progress: Progress, names: tuple[str, str]
) -> Report:
    """The report on a change. `check` and the intents are about the new side."""
    found = diff_sides(old, new, asked.options, progress, names)
    report = Report(
        *names,
        check=_checked(new, asked, progress),
        diff=found,
        intents=_verified(new, asked, progress),
        reading=_reading(both_findings(old, new)),
    )
    return _with_excerpts(report, asked.texts)


def report_of_set(read: Read, asked: Asked, progress: Progress, name: str) -> Report:
    """The report on one set: with a cluster also the allowed connections."""
    connections = None
    if not asked.options.is_symbolic:
        options = ListOptions(
            exposure=True,
            lines=0,
            pod_networks=asked.options.pod_networks,
            timeout_ms=asked.options.timeout_ms,
            solver=asked.options.solver,
            audit=asked.options.audit,
        )
        connections = list_cluster(read, options, progress)
    report = Report(
        "",
        name,
        check=_checked(read, asked, progress),
        listing=connections,
        intents=_verified(read, asked, progress),
        policies=tuple(_policies(read.policies.policies)),
        reading=_reading(read.findings),
    )
    return _with_excerpts(report, asked.texts)


def exit_code_of(report: Report, fail_on: str = "any") -> int:
    """That of `diff` and of `verify`, 1 before 3; for one set 3 also if the list is undecided."""
    codes = set[int]()
    if report.diff is not None:
        codes.add(diff.exit_code_of(report.diff, fail_on))
    if report.listing is not None:
        codes.add(listing.exit_code_of(report.listing))
    if report.intents is not None:
        codes.add(verify.exit_code_of(report.intents))
    return next((code for code in (1, 3) if code in codes), 0)


def _checked(read: Read, asked: Asked, progress: Progress) -> CheckResult:
    options = asked.options
    how = CheckOptions(
        options.is_symbolic,
        options.pod_networks,
        options.timeout_ms,
        options.solver,
        options.jobs,
        options.executor,
    )
    files = (each.origin.span.file for each in _policies(read.policies.policies))
    given = ToCheck(read, asked.texts.contents(files))
    return check(given, how, progress, asked.severities).result


def _verified(read: Read, asked: Asked, progress: Progress) -> VerifyResult | None:
    if asked.intents is None:
        return None
    options = asked.options
    how = VerifyOptions(
        options.is_symbolic, options.pod_networks, Asking(options.solver, options.timeout_ms)
    )
    return verify.verify(ToVerify(read, asked.intents), how, progress)


def _policies(policies: PolicySet) -> Iterator[Policy]:
    return (policy for tier in policies.tiers for policy in tier.policies)


def _reading(findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings that `check` does not report, too, without those that comments suppress."""
    kept, _ = without_suppressed([each for each in findings if each.code not in ADOPTED])
    return tuple(kept)


def _with_excerpts(report: Report, texts: Texts) -> Report:
    return replace(report, excerpts=excerpts_of(places_of(report), texts))


def places_of(report: Report) -> Iterator[Place]:
    """Every rule and policy that the answers name."""
    if report.diff is not None:
        yield from _diff_places(report.diff)
    for each in report.listing.exposures or () if report.listing is not None else ():
        yield from (*each.isolated_by, *each.selected_by)
    yield from (finding.place for finding in report.check.findings)
    yield from (part.place for part in report.check.opaque)
    yield from map(place_of_policy, report.policies)
    for intent in report.intents.intents if report.intents is not None else ():
        yield from (intent.place, *intent.responsible)


def _diff_places(found: DiffResult) -> Iterator[Place]:
    for each in (*found.differences, *found.possible):
        yield from (*each.before, *each.after)
    yield from (part.place for part in found.opaque)
    objects = found.objects
    pairs = (*objects.changed, *objects.renamed, *objects.reordered)
    policies = (*objects.removed, *objects.added, *chain.from_iterable(pairs))
    yield from map(place_of_policy, policies)
