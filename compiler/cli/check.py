# SPDX-License-Identifier: Apache-2.0
"""`policyc check`: rules and policies without effect, or with an unexpected effect. Glue only."""

import sys

import click

from policyc.compiler.cli.fixes import (
    fix_options,
    is_cluster_named,
    refuse_both,
    show_patch,
    with_notes,
    write_fixes,
)
from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import input_options, not_empty, progress_on_stderr, show_read
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.cli.settings import settings_in_use
from policyc.compiler.cli.shards import shard_options
from policyc.compiler.cli.universe_options import (
    is_symbolic,
    limit_of,
    pod_cidr_option,
    solver_option,
    timeout_option,
    universe_option,
)
from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import (
    check,
    exit_code_of,
)
from policyc.compiler.driver.check.config import FAIL_ON
from policyc.compiler.driver.check.fixes.fixing import fix
from policyc.compiler.driver.check.input import read_to_check
from policyc.compiler.driver.node_bundles.shards import address_of
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.peers import Network
from policyc.ir.results.check import CheckResult
from policyc.verifier.smt.solver_choice import Choice


@command(
    "check",
    short_help="find rules that do nothing, or not what they seem to do",
    examples=(
        "policyc check -f policies",
        "policyc check -f policies --cluster cluster --format sarif -o check.sarif",
        "policyc check -f policies --diff -o fix.patch",
        "policyc check -f policies --fix",
        "policyc check -f policies --config git:origin/main:.policyc.yaml",
    ),
)
@input_options
@universe_option
@pod_cidr_option
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="warning",
    show_default=True,
    help="Exit with code 1 if a finding has this severity or a higher one.",
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show every finding and every workload in text. [default: 20 findings of a code, 100 in all]",
)
@fix_options
@timeout_option
@solver_option
@shard_options
@report_options(CheckResult)
def check_(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    universe: str | None,
    pod_networks: tuple[Network, ...],
    fail_on: str,
    show_all: bool,
    is_fix: bool,
    is_diff: bool,
    timeout: float | None,
    solver: str,
    jobs: int,
    executor: str,
    report: Reporter,
) -> int:
    """Find rules that match nothing, decide nothing or change nothing, and likely mistakes.

    Without --cluster, each answer covers every possible pod; with it, the workloads of that cluster.
    Exit code 0: no finding as severe as --fail-on; 1: at least one; 3: a question is undecided.
    With --fix the exit code is that of the findings that are left.
    """
    refuse_both(is_fix, is_diff)
    if executor:
        address_of(executor)
    chosen = CheckOptions(
        is_symbolic(universe, cluster),
        pod_networks,
        limit_of(timeout),
        Choice(solver),
        jobs,
        executor,
    )
    severities = settings_in_use().check
    given = read_to_check(files, cluster, not_empty(options), sys.stdin.buffer)
    progress = progress_on_stderr()
    found = check(given, chosen, progress, severities)
    show_read(given.read, found.others)
    result = found.result
    if is_fix or is_diff:
        fixed = fix(given, found, chosen, progress, is_cluster_meant=is_cluster_named())
        if is_diff:
            show_patch(fixed, report)
            return exit_code_of(result, fail_on)
        write_fixes(fixed.plan)
        left = check(fixed.given, chosen, progress, severities) if fixed.plan.files else found
        result = with_notes(left.result, fixed)
    report.emit(result, is_full=show_all)
    return exit_code_of(result, fail_on)
