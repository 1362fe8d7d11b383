# SPDX-License-Identifier: Apache-2.0
"""Results as SARIF 2.1.0, for code scanning: a result for each difference, finding or intent."""

from dataclasses import replace

from policyc.backends.report.flows import flow_json
from policyc.backends.report.formats.json import counts_json
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.sarif_parts import (
    LEVELS,
    Json,
    SarifResult,
    SarifRule,
    invocation,
    log,
    message_lines,
    physical_location,
    result,
    run_properties,
)
from policyc.backends.report.words import (
    DID,
    MAY_BE,
    config_notes,
    left_out_words,
    opaque_notes,
    region_words,
)
from policyc.ir.diagnostics import Note
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Finding
from policyc.ir.results.diff import (
    Difference,
    DifferenceKind,
    DiffOutcome,
    DiffResult,
    n_regions,
)
from policyc.ir.results.failure import Failure
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult

FORMAT = "sarif"

_DIFF_RULES = {
    DifferenceKind.WIDENED: SarifRule(
        "traffic-opened",
        "A change allows traffic that was denied",
        "The region of flows is denied by the old policies and allowed by the new ones. Check the "
        "rule that allows it now, and narrow it if this is not intended.",
        "error",
        "7.5",
    ),
    DifferenceKind.NARROWED: SarifRule(
        "traffic-closed",
        "A change denies traffic that was allowed",
        "The region of flows is allowed by the old policies and denied by the new ones. Connections"
        " that need it will fail. Check what denies it now, or restore the rule that allowed it.",
        "warning",
    ),
    DifferenceKind.CHANGED: SarifRule(
        "effects-changed",
        "A change has other effects on the same traffic",
        "The same flows are allowed, but logs, counters, limits or rejects differ.",
        "note",
    ),
    DifferenceKind.LATENT: SarifRule(
        "latent-difference",
        "A change at one end that the other end hides",
        "The policies of one end change their verdict on the region, but the other end denies it "
        "before and after. The change takes effect once the other end allows it.",
        "note",
    ),
}
_INTENT_RULES = {
    IntentStatus.BROKEN: SarifRule(
        "intent-broken",
        "An intent does not hold",
        "A flow breaks the intent. Check the rules that decide it, or correct the intent.",
        "error",
        "8.0",
    ),
    IntentStatus.VACUOUS: SarifRule(
        "intent-vacuous",
        "An intent is vacuous",
        "No flow can break the intent, or none can satisfy it. A misspelt selector is the usual cause.",
        "warning",
    ),
    IntentStatus.UNDECIDED: SarifRule(
        "intent-undecided",
        "An intent was not decided",
        "The solver gave up. This is not a proof: raise --timeout.",
        "error",
    ),
}


def diff_sarif(diff: DiffResult, options: ReportOptions) -> str:
    """A result for each region, at the deciding place of the new policies, else of the old ones."""
    rules = list(_DIFF_RULES.values())
    made = [result(_difference(each), rules, options) for each in diff.differences]
    made += [result(_possible(each), rules, options) for each in diff.possible]
    undecided = [diff.undecided] if diff.outcome is DiffOutcome.UNDECIDED else []
    omitted = (
        left_out_words(diff.counts, diff.differences),
        left_out_words(diff.possible_counts, diff.possible, MAY_BE),
    )
    properties = run_properties(
        diff.universe,
        diff.evidence,
        result=diff.outcome.value,
        before=diff.before,
        after=diff.after,
        counts=counts_json(diff.counts),
        omitted=n_regions(diff.omitted),
    )
    notes = (*diff.notes, *opaque_notes(diff.opaque), *filter(None, omitted))
    invocations = invocation(undecided, notes)
    return log("diff", rules, made, invocations=invocations, properties=properties)


def _difference(difference: Difference) -> SarifResult:
    rule = _DIFF_RULES[difference.kind]
    places = (*difference.after, *difference.before)
    related = [Note(place.span, f"after: {place.words}") for place in difference.after]
    related += [Note(place.span, f"before: {place.words}") for place in difference.before]
    return SarifResult(
        rule.id,
        rule.level,
        f"{DID[difference.kind]}: {region_words(difference)}",
        places[0] if places else None,
        difference.key,
        difference.witness,
        tuple(related),
        properties={"flow": flow_json(difference.witness.flow)},
    )


def _possible(difference: Difference) -> SarifResult:
    """A region that may differ because of opaque rules."""
    found = _difference(difference)
    words = f"undecided: {MAY_BE[difference.kind]}: {region_words(difference)}"
    properties = {**(found.properties or {}), "undecided": True}
    return replace(found, message=words, key=f"possible|{found.key}", properties=properties)


def check_sarif(check: CheckResult, options: ReportOptions) -> str:
    """A result for each finding; findings that the input suppresses are marked so."""
    quiet = [each.finding for each in check.suppressed]
    rules = _rules_of(check, [*check.findings, *quiet])
    made = [result(_finding(finding), rules, options) for finding in check.findings]
    made += [
        result(_finding(each.finding, each.reason), rules, options) for each in check.suppressed
    ]
    together = [place.words for place in check.removable_together]
    properties = run_properties(check.universe, check.evidence, removableTogether=together)
    notes = (*config_notes(check.config), *check.notes, *opaque_notes(check.opaque))
    invocations = invocation(check.undecided, notes)
    return log("check", rules, made, invocations=invocations, properties=properties)


def _rules_of(check: CheckResult, findings: list[Finding]) -> list[SarifRule]:
    """The kinds of findings that were checked for, and other kinds found, in the order of codes."""
    rules = {
        rule.code: SarifRule(rule.code, rule.title, rule.help, LEVELS[rule.severity])
        for rule in check.rules
    }
    for finding in findings:
        help_ = " ".join(filter(None, (finding.explanation, finding.hint)))
        rules.setdefault(
            finding.code,
            SarifRule(finding.code, finding.message, help_, LEVELS[finding.severity]),
        )
    return [rules[code] for code in sorted(rules)]


def _finding(finding: Finding, suppressed: str = "") -> SarifResult:
    parts = [finding.message, finding.explanation, finding.hint and f"Fix: {finding.hint}"]
    return SarifResult(
        finding.code,
        LEVELS[finding.severity],
        message_lines(*parts),
        finding.place,
        f"{finding.code}|{finding.key}",
        finding.witness,
        finding.notes,
        suppressed,
    )


def verify_sarif(verify: VerifyResult, options: ReportOptions) -> str:
    """A result for each intent that does not hold."""
    rules = list(_INTENT_RULES.values())
    made = [
        result(_intent(intent), rules, options)
        for intent in verify.intents
        if intent.status is not IntentStatus.HOLDS
    ]
    undecided = [
        f"{intent.title}: {intent.explanation}"
        for intent in verify.intents
        if intent.status is IntentStatus.UNDECIDED
    ]
    properties = run_properties(verify.universe, verify.evidence)
    invocations = invocation(undecided, (*verify.notes, *opaque_notes(verify.opaque)))
    return log("verify", rules, made, invocations=invocations, properties=properties)


def _intent(intent: IntentAnswer) -> SarifResult:
    rule = _INTENT_RULES[intent.status]
    parts = [f"{intent.title}: {intent.words}", intent.explanation, intent.reason]
    related = (Note(place.span, f"decided by {place.words}") for place in intent.responsible)
    return SarifResult(
        rule.id,
        rule.level,
        message_lines(*parts),
        intent.place,
        f"{rule.id}|{intent.key}",
        intent.witness,
        tuple(related),
    )


def failure_sarif(failure: Failure, options: ReportOptions) -> str:
    """A run that did not succeed: its findings, or its message, as notifications."""
    said: list[Json] = []
    for finding in failure.findings:
        where = physical_location(finding.span, options)
        notification: Json = {
            "level": LEVELS[finding.severity],
            "descriptor": {"id": finding.code},
            "message": {"text": message_lines(finding.message, finding.hint)},
        }
        if where is not None:
            notification["locations"] = [{"physicalLocation": where}]
        said.append(notification)
    if not said:
        text = message_lines(failure.message, failure.hint)
        said = [{"level": "error", "message": {"text": text}}]
    run: Json = {
        "executionSuccessful": False,
        "exitCode": failure.exit_code,
        "toolExecutionNotifications": said,
    }
    return log("failure", [], [], invocations=[run])


RENDERERS = {
    DiffResult: diff_sarif,
    CheckResult: check_sarif,
    VerifyResult: verify_sarif,
    Failure: failure_sarif,
}
