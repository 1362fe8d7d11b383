# SPDX-License-Identifier: Apache-2.0
"""`policyc list`: the connections that a cluster's policies allow. Glue only."""

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import (
    input_options,
    inputs_of,
    not_empty,
    progress_on_stderr,
    show_read,
)
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.cli.universe_options import (
    limit_of,
    pod_cidr_option,
    solver_option,
    timeout_option,
)
from policyc.compiler.driver.compare.listing import (
    CONNECTIONS,
    LINES,
    ListOptions,
    exit_code_of,
    list_cluster,
)
from policyc.compiler.driver.compile.compile import read_inputs
from policyc.compiler.driver.eval.native_flows import require_native
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.peers import Network
from policyc.ir.results.listing import ListResult
from policyc.verifier.smt.solver_choice import Choice

READ_BY_LINE = ("text", "markdown")
"""The formats that show merged lines; the others show pairs of groups."""
SAYS_UNDECIDED = (*READ_BY_LINE, "json")
"""The formats that show undecided parts; with the others, standard error shows them."""
REPLAYED = 500
"""The number of pairs that are computed for the former: flows of these are replayed."""


@command(
    "list",
    short_help="list the connections that policies allow",
    examples=(
        "policyc list -f policies --cluster cluster",
        "policyc list -f policies --cluster cluster --focus shop/web --format markdown",
    ),
)
@input_options
@pod_cidr_option
@click.option(
    "--focus",
    multiple=True,
    metavar="WHO",
    help="List only connections to and from WHO: namespace/name, namespace/*, node/NAME, an address "
    "or a CIDR. Repeatable.",
)
@click.option(
    "--exposure", is_flag=True, help="Also list the peers that each group's own rules allow."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Show at most this many connections. [default: {LINES} lines, {CONNECTIONS} pairs of groups]",
)
@click.option(
    "--all", "show_all", is_flag=True, help="Show every connection and every group member."
)
@click.option(
    "--audit", is_flag=True, help="Also solve the whole formula with Z3, whatever its size."
)
@click.option(
    "--recheck",
    is_flag=True,
    help="Evaluate every listed flow again with compiled code (extra `native`).",
)
@solver_option
@timeout_option
@report_options(ListResult)
def list_(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    pod_networks: tuple[Network, ...],
    focus: tuple[str, ...],
    exposure: bool,
    limit: int | None,
    show_all: bool,
    audit: bool,
    recheck: bool,
    solver: str,
    timeout: float | None,
    report: Reporter,
) -> int:
    """List the connections that pods may open to each other, to nodes and to external addresses.

    A connection is listed if egress at its source and ingress at its destination allow it. Ends that
    behave alike form a group. Exit code 0: listed; 3: undecided.
    """
    if not cluster:
        raise click.UsageError(
            "list needs --cluster: without pods there are no connections to list "
            "(policyc check, diff and verify also answer for every cluster that could exist)"
        )
    if recheck:
        require_native()
    chosen = ListOptions(
        focus,
        exposure,
        *_limits(limit, show_all, report.form in READ_BY_LINE),
        pod_networks,
        limit_of(timeout),
        Choice(solver),
        audit,
        recheck,
    )
    read = read_inputs(inputs_of(files, cluster, not_empty(options)))
    show_read(read, read.findings)
    result = list_cluster(read, chosen, progress_on_stderr())
    report.emit(result, is_full=show_all)
    if result.omitted_connections and report.form not in READ_BY_LINE:
        click.echo(
            f"policyc: {result.omitted_connections} more pairs of groups not shown; --all shows them",
            err=True,
        )
    if result.undecided and report.form not in SAYS_UNDECIDED:
        say(f"not decided: {result.undecided}")
    return exit_code_of(result)


def _limits(limit: int | None, show_all: bool, is_by_line: bool) -> tuple[int | None, int | None]:
    """The limits of lines and of pairs of groups: what the format does not show is kept short."""
    if show_all:
        return (None if is_by_line else 0), None
    return (
        (limit or LINES, min(limit or REPLAYED, REPLAYED))
        if is_by_line
        else (0, limit or CONNECTIONS)
    )
