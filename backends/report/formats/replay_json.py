# SPDX-License-Identifier: Apache-2.0
"""A replay as JSON: docs/schemas/replay-v1.schema.json."""

from policyc.backends.report.flows import flow_json
from policyc.backends.report.formats.json import document, universe_json
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.verdicts import decider_json, span_json
from policyc.ir.results.replay import LeftOut, ReplayedFlow, ReplayResult

FORMAT = "json"


def replay_json(result: ReplayResult, _options: ReportOptions) -> str:
    """The tallies, the flows with their deciders, and what was left out."""
    return document(
        "replay/v1",
        file=result.file,
        format=result.form,
        before=result.before or None,
        after=result.after,
        universe=universe_json(result.universe),
        evaluated=result.method,
        records=result.n_records,
        tallies={
            name: {"flows": tally.flows, "observed": tally.observed}
            for name, tally in result.tallies
        },
        findings=result.n_findings,
        flows=[_flow(flow) for flow in result.flows],
        omitted=result.omitted,
        unplaced=[_left_out(each) for each in result.unplaced],
        skipped=[{"why": each.why, "count": each.count} for each in result.skipped],
        not_understood=result.unknown,
    )


def _flow(flow: ReplayedFlow) -> dict[str, object]:
    return {
        "kind": flow.kind.value,
        "finding": flow.is_finding,
        "flow": flow_json(flow.flow),
        "count": flow.count,
        "denied_when_observed": flow.n_denied,
        "first": span_json(flow.span),
        "decided": [
            {
                "policies": each.label or "after",
                "end": each.end,
                "verdict": "deny" if each.is_denied else "allow",
                "by": decider_json(each.decider),
            }
            for each in flow.decided
        ],
        "depends_on": list(flow.depends_on),
    }


def _left_out(each: LeftOut) -> dict[str, object]:
    return {"why": each.why, "count": each.count, "first_line": each.line}


RENDERERS = {ReplayResult: replay_json}
