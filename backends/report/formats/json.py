# SPDX-License-Identifier: Apache-2.0
"""Results as JSON, each with a versioned schema in docs/schemas."""

from policyc.backends.report.flows import flow_json
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.region_json import region_json
from policyc.backends.report.verdicts import span_json, verdict_json
from policyc.ir.policy import Policy
from policyc.ir.printable import json_text
from policyc.ir.results.check import CheckResult, ConfigUsed
from policyc.ir.results.common import Evidence, Finding, OpaquePart, Place, UniverseUsed, Witness
from policyc.ir.results.coverage import Coverage, percent
from policyc.ir.results.diff import Counts, Difference, DiffResult, n_regions
from policyc.ir.results.failure import Failure, FailureKind
from policyc.ir.results.objects import ObjectChanges
from policyc.ir.results.verify import IntentAnswer, VerifyResult

FORMAT = "json"


def document(schema: str, **values: object) -> str:
    """A JSON document that names its schema, `policyc.dev/NAME/vN`."""
    return json_text({"schema": f"policyc.dev/{schema}", **values}, indent=2)


def diff_json(result: DiffResult, _options: ReportOptions) -> str:
    """docs/schemas/diff-v1.schema.json."""
    return document(
        "diff/v1",
        result=result.outcome.value,
        **({"undecided": result.undecided} if result.undecided else {}),
        before=result.before,
        after=result.after,
        objects=objects_json(result.objects),
        universe=universe_json(result.universe),
        evidence=evidence_json(result.evidence),
        differences=[_difference(difference) for difference in result.differences],
        counts=counts_json(result.counts),
        omitted=n_regions(result.omitted),
        **_possible_json(result),
        **({"groups": [list(each) for each in result.groups]} if result.groups else {}),
        notes=list(result.notes),
    )


def objects_json(changes: ObjectChanges) -> dict[str, object]:
    """The changed policies by what happened, and the sentences of the summary."""
    return {
        "summary": list(changes.summary),
        "added": [_policy(policy) for policy in changes.added],
        "removed": [_policy(policy) for policy in changes.removed],
        "changed": [_policy(after) for _, after in changes.changed],
        "renamed": [
            {**_policy(after), "from": before.qualified_name} for before, after in changes.renamed
        ],
        "reordered": [_policy(after) for _, after in changes.reordered],
    }


def _policy(policy: Policy) -> dict[str, object]:
    names = {"kind": policy.kind, "namespace": policy.namespace, "name": policy.name}
    return {**names, **span_json(policy.origin.span)}


def _possible_json(result: DiffResult) -> dict[str, object]:
    """The possible differences, and the opaque rules; nothing if there are none."""
    if not result.opaque:
        return {}
    return {
        "possible": [_difference(difference) for difference in result.possible],
        "possible_counts": counts_json(result.possible_counts),
        "opaque": [opaque_json(part) for part in result.opaque],
    }


def opaque_json(part: OpaquePart) -> dict[str, object]:
    """An opaque rule, and its undecidable requirement; `side` in comparisons only."""
    side = {"side": part.side} if part.side else {}
    return {**side, "place": place_json(part.place), "asks": list(part.asks)}


def _opaque(parts: tuple[OpaquePart, ...]) -> dict[str, object]:
    return {"opaque": [opaque_json(part) for part in parts]} if parts else {}


def counts_json(counts: Counts) -> dict[str, object]:
    """The number of regions of each kind, and whether the search was complete."""
    return {
        each.kind.value: {"regions": each.number, "complete": each.is_complete} for each in counts
    }


def difference_json(difference: Difference) -> dict[str, object]:
    """One region, with its witness."""
    direction = difference.direction
    shown: dict[str, object] = {
        "kind": difference.kind.value,
        "key": difference.key,
        "from": difference.src,
        "to": difference.dst,
        "services": list(difference.services),
        "direction": None if direction is None else direction.value,
        "witness": witness_json(difference.witness),
        "before": [place_json(place) for place in difference.before],
        "after": [place_json(place) for place in difference.after],
    }
    if difference.n_pairs is not None:
        shown["pairs"] = difference.n_pairs
    return shown


def _difference(difference: Difference) -> dict[str, object]:
    """One region in words and as data, which may number groups of this document."""
    parts = difference.parts
    data = {} if parts is None else {"region": region_json(parts)}
    return {**difference_json(difference), **data}


def check_json(result: CheckResult, _options: ReportOptions) -> str:
    """docs/schemas/check-v1.schema.json."""
    return document(
        "check/v1",
        result="undecided" if result.undecided else "findings" if result.findings else "clean",
        universe=universe_json(result.universe),
        evidence=evidence_json(result.evidence),
        policies=result.n_policies,
        rules=result.n_rules,
        findings=[finding_json(finding) for finding in result.findings],
        suppressed=[
            {
                "finding": finding_json(quiet.finding),
                "reason": quiet.reason,
                "by": place_json(quiet.by),
            }
            for quiet in result.suppressed
        ],
        removable_together=[place_json(place) for place in result.removable_together],
        undecided=list(result.undecided),
        **_opaque(result.opaque),
        **_config(result.config),
        **_coverage(result.coverage),
        notes=list(result.notes),
    )


def _coverage(coverage: Coverage | None) -> dict[str, object]:
    """The isolation of a cluster's workloads; nothing without a cluster."""
    if coverage is None:
        return {}
    said: dict[str, object] = {
        each.direction.value: {
            "isolated": coverage.n_workloads - len(each.open),
            "percent": percent(coverage.n_workloads - len(each.open), coverage.n_workloads),
            "not_isolated": list(each.open),
        }
        for each in coverage.directions
    }
    said["workloads"] = coverage.n_workloads
    said["host_network"] = list(coverage.host_network)
    return {"coverage": said}


def _config(config: ConfigUsed | None) -> dict[str, object]:
    """The configuration and the findings it hides; nothing if there is none."""
    if config is None:
        return {}
    said = {
        "file": config.file,
        "severities": dict(config.severities),
        "hidden": dict(config.hidden),
    }
    return {"config": said}


def finding_json(finding: Finding) -> dict[str, object]:
    """One finding with its place, reasons and witness."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "key": finding.key,
        "message": finding.message,
        "explanation": finding.explanation,
        "place": place_json(finding.place),
        "notes": [{**span_json(note.span), "message": note.text} for note in finding.notes],
        "help": finding.hint,
        "witness": None if finding.witness is None else witness_json(finding.witness),
    }


def verify_json(result: VerifyResult, _options: ReportOptions) -> str:
    """docs/schemas/verify-v1.schema.json."""
    return document(
        "verify/v1",
        universe=universe_json(result.universe),
        evidence=evidence_json(result.evidence),
        intents=[_intent(intent) for intent in result.intents],
        **_opaque(result.opaque),
        notes=list(result.notes),
    )


def _intent(intent: IntentAnswer) -> dict[str, object]:
    return {
        "status": intent.status.value,
        "title": intent.title,
        "key": intent.key,
        "words": intent.words,
        "reason": intent.reason,
        "explanation": intent.explanation,
        "place": place_json(intent.place),
        "witness": None if intent.witness is None else witness_json(intent.witness),
        "responsible": [place_json(place) for place in intent.responsible],
    }


def failure_json(failure: Failure, _options: ReportOptions) -> str:
    """docs/schemas/diagnostics-v1.schema.json for wrong input, else error-v1.schema.json."""
    if failure.kind is FailureKind.INPUT:
        findings = [finding.to_json() for finding in failure.findings]
        return document("diagnostics/v1", diagnostics=findings)
    codes = {"code": failure.findings[0].code} if failure.findings else {}
    return document(
        "error/v1",
        kind=failure.kind.value,
        message=failure.message,
        **codes,
        help=failure.hint,
        exit_code=failure.exit_code,
    )


def universe_json(universe: UniverseUsed) -> dict[str, object]:
    """The universe of an answer."""
    return {"kind": universe.kind, "words": universe.words}


def evidence_json(evidence: Evidence) -> dict[str, object]:
    """The certification of an answer."""
    return {
        "method": evidence.method,
        "solvers": [{"name": name, "version": version} for name, version in evidence.solvers],
        "queries": evidence.queries,
        "replayed_witnesses": evidence.replayed_witnesses,
    }


def place_json(place: Place) -> dict[str, object]:
    """A rule or policy; `end_column` is exclusive, and 0 if it is not known."""
    end = {"end_column": place.span.end_column}
    return {"words": place.words, "path": place.path, **span_json(place.span), **end}


def witness_json(witness: Witness) -> dict[str, object]:
    """A flow, its verdict under each label, and the steps to it."""
    return {
        "flow": flow_json(witness.flow),
        "verdicts": [
            {"label": label, **verdict_json(verdict)} for label, verdict in witness.verdicts
        ],
        "steps": [
            {
                "text": step.text,
                "place": None if step.place is None else place_json(step.place),
            }
            for step in witness.steps
        ],
    }


RENDERERS = {
    DiffResult: diff_json,
    CheckResult: check_json,
    VerifyResult: verify_json,
    Failure: failure_json,
}
