# SPDX-License-Identifier: Apache-2.0
"""A replay as text for people: the numbers, then each flow with the rule that decides it."""

from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, WARN, Page
from policyc.backends.report.replay import (
    flow_lines,
    flow_title,
    left_out_lines,
    omitted_words,
    replay_headline,
)
from policyc.ir.results.replay import ReplayKind, ReplayResult

FORMAT = "text"
_STYLES = {ReplayKind.OPENED: WARN}


def replay_text(result: ReplayResult, options: ReportOptions) -> str:
    """The headline, the flows, what was left out, and the evaluators."""
    page = Page()
    page.add((replay_headline(result), f"{STRONG} {BAD if result.n_findings else GOOD}"))
    compared = f"from {result.before} to {result.after}" if result.before else result.after
    page.add(f"{result.file} ({result.form}) in {compared}", indent=2)
    for flow in result.flows:
        page.gap()
        page.add((flow_title(flow), _STYLES.get(flow.kind, BAD) if flow.is_finding else FAINT))
        for line in flow_lines(flow):
            page.add(line, indent=3)
    page.gap()
    if result.omitted:
        page.add(omitted_words(result))
    for line in left_out_lines(result):
        page.add(line)
    page.add(f"universe: {result.universe.words}")
    page.add(f"evaluated: {result.method}")
    return page.to_text(options)


RENDERERS = {ReplayResult: replay_text}
