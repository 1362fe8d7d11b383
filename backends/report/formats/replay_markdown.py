# SPDX-License-Identifier: Apache-2.0
"""A replay as a Markdown table for a comment; flows beyond its length are counted."""

from policyc.backends.report.flows import flow_words
from policyc.backends.report.markdown_text import code, escaped
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.replay import flow_lines, left_out_lines, replay_headline
from policyc.ir.counts import counted
from policyc.ir.results.replay import ReplayedFlow, ReplayResult

FORMAT = "markdown"
MAX_BYTES = 55_000
"""A comment may have 65,536 characters; the rest is for what surrounds the table."""


def replay_markdown(result: ReplayResult, _options: ReportOptions) -> str:
    """The headline, a table of flows, and what was left out."""
    rows = [_row(flow) for flow in result.flows]
    shown: list[str] = []
    room = MAX_BYTES
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        shown.append(row)
    omitted = result.omitted + len(rows) - len(shown)
    table = ["| verdict | times | flow | why |", "|---|---|---|---|", *shown, ""] if rows else []
    more = [f"{counted(omitted, 'more flow')} not shown.", ""] if omitted else []
    foot = [f"- {escaped(line)}" for line in left_out_lines(result)]
    foot.append(f"- universe: {escaped(result.universe.words)}")
    return "\n".join([f"**{escaped(replay_headline(result))}**", "", *table, *more, *foot]) + "\n"


def _row(flow: ReplayedFlow) -> str:
    why = "<br>".join(escaped(line) for line in flow_lines(flow))
    return f"| {flow.kind.value} | {flow.count} | {code(flow_words(flow.flow))} | {why} |"


RENDERERS = {ReplayResult: replay_markdown}
