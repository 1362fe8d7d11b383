# SPDX-License-Identifier: Apache-2.0
"""`policyc replay`: observed flows asked of policies, or of a change. Glue only."""

import sys

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import input_options, inputs_of, not_empty, show_read
from policyc.compiler.cli.observed_flows import (
    NO_CLUSTER,
    GivenFlows,
    flows_options,
    observed_in,
)
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.cli.sides import show_sides
from policyc.compiler.driver.compare.sides import read_sides
from policyc.compiler.driver.compile.compile import read_inputs
from policyc.compiler.driver.replay.replay import Sides, exit_code_of, replay
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.results.replay import ReplayResult

SHOWN = 40
"""The default number of flows in text and Markdown."""
MOST_SHOWN = 1000
"""The default number of flows in the other formats."""


@command(
    "replay",
    short_help="ask a change of observed flows",
    examples=(
        "policyc replay flows.csv -f policies --cluster cluster",
        "policyc replay hubble.jsonl -f policies --against git:origin/main --cluster cluster",
    ),
)
@flows_options
@input_options
@click.option(
    "--against",
    metavar="OLD",
    help="Show only flows on which OLD and the policies of -f differ. OLD is a path, a bundle or "
    "git:REV[:PATH].",
)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many flows. "
              f"[default: {SHOWN} in text and Markdown, {MOST_SHOWN} else]")  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="Show every flow.")
@report_options(ReplayResult)
def replay_(
    flows: str,
    flows_format: str | None,
    skip_unknown: bool,
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    against: str | None,
    limit: int | None,
    show_all: bool,
    report: Reporter,
) -> int:
    """Show which observed flows the policies deny, how often each was observed, and the deciding rule.

    FLOWS is a file of Hubble, of Calico's flow logs, of JSON events of policyc's nodes, or CSV; - is
    standard input. Exit code 0: no finding; 1: a flow that was not denied is denied, or the change
    affects a flow; 3: a flow is undecided.
    """
    if not cluster:
        raise click.UsageError(NO_CLUSTER)
    if flows == "-" and "-" in (*files, *cluster, against):
        raise click.UsageError("standard input (-) can be read only once")
    sides = _sides(files, cluster, options, against)
    observed = observed_in(GivenFlows(flows, flows_format, skip_unknown), sides.new)
    usual = SHOWN if report.usual_limit(SHOWN) else MOST_SHOWN
    result = replay(observed, sides, None if show_all else limit or usual)
    report.emit(result, is_full=show_all)
    return exit_code_of(result)


def _sides(
    files: tuple[str, ...], cluster: tuple[str, ...], options: ReadOptions, against: str | None
) -> Sides:
    """The policies of -f, and those of --against."""
    after = ", ".join(files)
    if against is None:
        read = read_inputs(inputs_of(files, cluster, not_empty(options)))
        show_read(read, read.findings)
        return Sides(read, after)
    if len(files) != 1:
        raise click.UsageError("--against compares with one -f")
    old, new = read_sides(against, after, options, cluster, stdin=sys.stdin.buffer)
    show_sides(old, new)
    return Sides(new, after, old, against)
