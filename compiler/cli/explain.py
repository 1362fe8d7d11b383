# SPDX-License-Identifier: Apache-2.0
"""`policyc explain`: why a flow is allowed or denied. Glue only."""

import click

from policyc.compiler.cli.eval import read_all
from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import input_options
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.driver.eval.explained import explained
from policyc.compiler.frontend import ReadOptions
from policyc.compiler.frontend.flows.files import flow_from_arguments
from policyc.compiler.frontend.flows.reading import UniverseIndex
from policyc.compiler.frontend.yaml.sources import is_stdin_repeated
from policyc.ir.counts import cluster_words
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.explain import ExplainResult
from policyc.ir.universe import Flow, Universe


@command(
    "explain",
    short_help="explain a verdict rule by rule",
    examples=(
        "policyc explain -f policies --cluster cluster shop/web shop/db tcp/5432",
        "policyc explain -f policies --cluster cluster shop/web 10.0.0.1 tcp/443 --all",
    ),
)
@input_options
@click.option(
    "--source-port",
    type=int,
    metavar="PORT",
    help="Set the source port of the connection. [default: any]",
)
@click.option("--all", "is_full", is_flag=True, help="Show every rule, not only the closest match.")
@report_options(ExplainResult)
@click.argument("src")
@click.argument("dst")
@click.argument("service", metavar="PROTOCOL[/PORT]")
def explain(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    source_port: int | None,
    is_full: bool,
    report: Reporter,
    src: str,
    dst: str,
    service: str,
) -> int:
    """Explain the verdict on a flow tier by tier, for both ends.

    SRC and DST are namespace/pod, node/NAME or an address; PROTOCOL[/PORT] is tcp/443, icmp/8/0, 47.
    For each policy that selects an end, show the rule that matched, or the closest rule and why it does
    not match. The exit code is 0 for every verdict.
    """
    if is_stdin_repeated(files, cluster):
        raise click.UsageError("standard input (-) can be read only once")
    policies, universe = read_all(files, cluster, options)
    index = UniverseIndex(universe)
    flow = _flow(index, src, dst, service, source_port)
    result = explained(policies, flow, index.nodes, _universe(universe, bool(cluster)))
    report.emit(result, is_full)
    return 0


def _flow(index: UniverseIndex, src: str, dst: str, service: str, source_port: int | None) -> Flow:
    """The flow of the arguments; InputError if they are not a flow."""
    report = Report()
    request = flow_from_arguments(src, dst, service, report, source_port)
    flow = None if request is None else index.flow(request, report)
    if flow is None:
        raise InputError(report.sorted())
    return flow


def _universe(universe: Universe, is_given: bool) -> UniverseUsed:
    """The endpoints given; without any, the flow is between addresses, and nothing else is known."""
    if not is_given:
        return UniverseUsed("cluster", "no cluster: two addresses")
    return UniverseUsed("cluster", cluster_words(universe))
