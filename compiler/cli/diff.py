# SPDX-License-Identifier: Apache-2.0
"""`policyc diff`: what a change of policies opens and closes."""

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import progress_on_stderr, read_options
from policyc.compiler.cli.rendered_options import helm_values_option
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.cli.shards import shard_options
from policyc.compiler.cli.sides import (
    SIDES,
    WITHOUT_NEW,
    cluster_options,
    fail_on_option,
    given_sides,
    read_given_sides,
    show_sides,
)
from policyc.compiler.cli.universe_options import (
    is_symbolic,
    limit_of,
    pod_cidr_option,
    solver_option,
    timeout_option,
    universe_option,
)
from policyc.compiler.driver.compare.diff import (
    SHOWN,
    DiffOptions,
    diff_sides,
    exit_code_of,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.peers import Network
from policyc.ir.results.diff import DiffResult
from policyc.verifier.smt.solver_choice import Choice


@command(
    "diff",
    short_help="show the traffic that a change opens and closes",
    epilog=f"{SIDES} {WITHOUT_NEW}",
    examples=(
        "policyc diff git:origin/main",
        "policyc diff git:origin/main policies",
        "policyc diff before after --cluster cluster",
        "policyc diff bundle policies --format markdown -o comment.md",
    ),
)
@click.argument("old")
@click.argument("new", required=False)
@cluster_options
@read_options
@helm_values_option
@universe_option
@pod_cidr_option
@fail_on_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Show at most this many regions. "
    f"[default: {SHOWN} in text and Markdown, every region in JSON and SARIF]",
)
@click.option("--all", "show_all", is_flag=True, help="Show every region.")
@click.option(
    "--ignore-effects", is_flag=True, help="Compare actions only. Ignore logs, audits and limits."
)
@click.option(
    "--audit", is_flag=True, help="Also solve the whole formula with Z3, whatever its size."
)
@shard_options
@solver_option
@timeout_option
@report_options(DiffResult)
def diff(
    old: str,
    new: str | None,
    cluster: tuple[str, ...],
    cluster_old: tuple[str, ...],
    cluster_new: tuple[str, ...],
    options: ReadOptions,
    universe: str | None,
    pod_networks: tuple[Network, ...],
    fail_on: str,
    limit: int | None,
    show_all: bool,
    ignore_effects: bool,
    audit: bool,
    jobs: int,
    executor: str,
    solver: str,
    timeout: float | None,
    report: Reporter,
) -> int:
    """Show the traffic that a change from OLD to NEW opens and closes, with example flows.

    Without --cluster, the answer covers every possible pod, label and address; with it, the workloads
    of that cluster. Exit code 0: no flow changes; 1: at least one does; 3: undecided.
    """
    given = (*cluster, *cluster_old, *cluster_new)
    chosen = DiffOptions(
        is_symbolic(universe, given),
        ignore_effects,
        None if show_all else limit or report.usual_limit(SHOWN),
        pod_networks,
        limit_of(timeout),
        Choice(solver),
        audit,
        jobs,
        executor,
    )
    sides = given_sides(old, new)
    before, after = read_given_sides(sides, options, cluster, cluster_old, cluster_new)
    show_sides(before, after)
    result = diff_sides(before, after, chosen, progress_on_stderr(), sides.names)
    report.emit(result, is_full=show_all)
    return exit_code_of(result, fail_on)
