# SPDX-License-Identifier: Apache-2.0
"""A replay as SARIF 2.1.0: a result for each observed flow, at the rule that denies it."""

from policyc.backends.report.entries import Level
from policyc.backends.report.flows import flow_json
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.replay import (
    LEVELS,
    flow_lines,
    flow_places,
    flow_title,
    left_out_lines,
    replay_headline,
)
from policyc.backends.report.sarif_parts import (
    Json,
    SarifResult,
    SarifRule,
    invocation,
    log,
    message_lines,
    result,
)
from policyc.ir.results.replay import ReplayedFlow, ReplayKind, ReplayResult

FORMAT = "sarif"
_TITLES = {
    ReplayKind.DENIED: "The policies deny an observed flow",
    ReplayKind.CLOSED: "The change denies an observed flow",
    ReplayKind.OPENED: "The change allows an observed flow that was denied",
    ReplayKind.UNDECIDED: "The verdict on an observed flow is undecided",
}
_RULES = {
    kind: SarifRule(f"observed-{kind.value}", title, title, LEVELS[kind].value)
    for kind, title in _TITLES.items()
}


def replay_sarif(replayed: ReplayResult, options: ReportOptions) -> str:
    """A result for each flow that is shown."""
    rules = list(_RULES.values())
    made = [result(_result(flow), rules, options) for flow in replayed.flows]
    undecided = [flow_title(f) for f in replayed.flows if f.kind is ReplayKind.UNDECIDED]
    properties: Json = {"result": replay_headline(replayed), "omitted": replayed.omitted}
    invocations = invocation(undecided, tuple(left_out_lines(replayed)))
    return log("replay", rules, made, invocations=invocations, properties=properties)


def _result(flow: ReplayedFlow) -> SarifResult:
    rule = _RULES[flow.kind]
    places = flow_places(flow)
    return SarifResult(
        rule.id,
        rule.level if flow.is_finding else Level.NOTE.value,
        message_lines(flow_title(flow), *flow_lines(flow)),
        places[-1] if places else None,
        f"{rule.id}|{flow.flow}",
        properties={"flow": flow_json(flow.flow), "count": flow.count},
    )


RENDERERS = {ReplayResult: replay_sarif}
