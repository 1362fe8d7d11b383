# SPDX-License-Identifier: Apache-2.0
"""`policyc report`: one HTML page about a change, or about one policy set. Glue only."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import not_empty, progress_on_stderr, read_options, show_read
from policyc.compiler.cli.rendered_options import helm_values_option
from policyc.compiler.cli.reporting import Reporter
from policyc.compiler.cli.settings import settings_in_use
from policyc.compiler.cli.shards import shard_options
from policyc.compiler.cli.sides import (
    SIDES,
    GivenSides,
    cluster_options,
    fail_on_option,
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
from policyc.compiler.driver.check.input import read_to_check
from policyc.compiler.driver.compare.diff import DiffOptions
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.driver.prove.verify import intents_beside
from policyc.compiler.driver.report.collect import (
    Asked,
    exit_code_of,
    report_of_change,
    report_of_set,
)
from policyc.compiler.driver.report.texts import Texts, repositories_of
from policyc.compiler.frontend.named_sources import named_sources
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.read_intents import IntentInput
from policyc.compiler.frontend.yaml.sources import STDIN, is_stdin_repeated
from policyc.ir.peers import Network
from policyc.ir.results.report import Report
from policyc.verifier.smt.solver_choice import Choice


@dataclass(frozen=True, slots=True)
class _Given:
    """The arguments and options that name inputs, and standard input if it is one of them."""

    old: str
    new: str | None
    clusters: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    intents: tuple[str, ...]
    options: ReadOptions


@command(
    "report",
    short_help="write one HTML page about a change or a policy set",
    epilog=SIDES,
    examples=(
        "policyc report git:origin/main:policies policies -o report.html",
        "policyc report before after --cluster cluster -o report.html",
        "policyc report policies --cluster cluster --intents intents.yaml -o report.html",
    ),
)
@click.argument("old")
@click.argument("new", required=False)
@cluster_options
@click.option(
    "--intents",
    multiple=True,
    metavar="PATH",
    help="Decide the intents in .intent files, YAML files, or directories of both. Repeatable.",
)
@read_options
@helm_values_option
@universe_option
@pod_cidr_option
@fail_on_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Show at most this many regions. [default: every region]",
)
@shard_options
@solver_option
@timeout_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file. [default: standard output]",
)
def report(
    old: str,
    new: str | None,
    cluster: tuple[str, ...],
    cluster_old: tuple[str, ...],
    cluster_new: tuple[str, ...],
    intents: tuple[str, ...],
    options: ReadOptions,
    universe: str | None,
    pod_networks: tuple[Network, ...],
    fail_on: str,
    limit: int | None,
    jobs: int,
    executor: str,
    solver: str,
    timeout: float | None,
    output: Path | None,
) -> int:
    """Write one HTML page about the change from OLD to NEW, or about the one set OLD.

    The page has the answers of diff (for one set: list), check and verify. Exit code 0: no flow changes
    and all intents hold; 1: one changes, or an intent is broken; 3: undecided.
    """
    clusters = (cluster, cluster_old, cluster_new)
    chosen = DiffOptions(
        is_symbolic(universe, (*cluster, *cluster_old, *cluster_new)),
        limit=limit,
        pod_networks=pod_networks,
        timeout_ms=limit_of(timeout),
        solver=Choice(solver),
        jobs=jobs,
        executor=executor,
    )
    reporter = Reporter("html", output)
    with reporter.failures():
        found = _answered(_Given(old, new, clusters, intents, options), chosen)
        reporter.emit(found, is_full=True)
    return exit_code_of(found, fail_on)


def _answered(given: _Given, chosen: DiffOptions) -> Report:
    stdin = _stdin(given)
    progress = progress_on_stderr()
    sides = (given.old,) if given.new is None else (given.old, given.new)
    texts = Texts(repositories_of(*sides), stdin)
    if given.new is None:
        read = _one_set(given, stdin)
        asked = Asked(chosen, texts, _intents(given, read, stdin), settings_in_use().check)
        return report_of_set(read, asked, progress, given.old)
    pair = GivenSides(given.old, given.new)
    before, after = read_given_sides(pair, given.options, *given.clusters, io.BytesIO(stdin))
    show_sides(before, after)
    asked = Asked(chosen, texts, _intents(given, after, stdin), settings_in_use().check)
    return report_of_change(before, after, asked, progress, pair.names)


def _one_set(given: _Given, stdin: bytes) -> Read:
    cluster, *others = given.clusters
    if any(others):
        raise click.UsageError("--cluster-old and --cluster-new need OLD and NEW: use --cluster")
    options = not_empty(given.options)
    read = read_to_check((given.old,), cluster, options, io.BytesIO(stdin)).read
    show_read(read, read.findings)
    return read


def _stdin(given: _Given) -> bytes:
    """All of standard input, if something is read from there: it is read, and quoted later."""
    groups = ((given.old,), (given.new or "",), *given.clusters, given.intents)
    if sum(STDIN in group for group in groups) > 1 or is_stdin_repeated(*groups):
        raise click.UsageError("standard input (-) can be read only once")
    return sys.stdin.buffer.read() if any(STDIN in group for group in groups) else b""


def _intents(given: _Given, read: Read, stdin: bytes) -> IntentInput | None:
    sources = named_sources(given.intents, io.BytesIO(stdin), given.options)
    return intents_beside(read, sources, given.options)
