# SPDX-License-Identifier: Apache-2.0
"""`policyc verify`: check that the policies keep the intents. Glue only."""

import sys

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
from policyc.compiler.cli.universe_options import (
    is_symbolic,
    limit_of,
    pod_cidr_option,
    solver_option,
    timeout_option,
    universe_option,
)
from policyc.compiler.driver.prove.verify import (
    VerifyOptions,
    exit_code_of,
    read_to_verify,
    verify,
)
from policyc.compiler.driver.settings.find import CONFIG_FILE
from policyc.compiler.frontend.named_sources import named_sources
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import is_stdin_repeated
from policyc.ir.peers import Network
from policyc.ir.results.verify import VerifyResult
from policyc.verifier.intents.intents import Asking
from policyc.verifier.smt.solver_choice import Choice


@command(
    "verify",
    short_help="prove intents, or show a flow that breaks them",
    examples=(
        "policyc verify -f policies --intents intents.yaml",
        "policyc verify -f policies --cluster cluster --intents intents.yaml --format sarif",
    ),
)
@input_options
@click.option(
    "--intents",
    multiple=True,
    metavar="PATH",
    help="Read intents from .intent files, YAML files, or directories of both. Repeatable. "
    f"[required, or `intents` of {CONFIG_FILE}]",
)
@universe_option
@pod_cidr_option
@timeout_option
@solver_option
@report_options(VerifyResult)
def verify_(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    intents: tuple[str, ...],
    universe: str | None,
    pod_networks: tuple[Network, ...],
    timeout: float | None,
    solver: str,
    report: Reporter,
) -> int:
    """Decide each intent: it holds, a connection breaks it, or it is vacuous.

    A proof covers every possible cluster or, with --cluster, the pods, nodes and addresses of that
    cluster. Exit code 0: all hold; 1: one is broken or vacuous; 3: one is undecided.
    """
    if is_stdin_repeated(files, cluster, intents) or ("-" in intents and "-" in (*files, *cluster)):
        raise click.UsageError("standard input (-) can be read only once")
    asking = Asking(Choice(solver), limit_of(timeout))
    how = VerifyOptions(is_symbolic(universe, cluster), pod_networks, asking)
    progress = progress_on_stderr()
    given = read_to_verify(
        inputs_of(files, cluster, not_empty(options)),
        named_sources(intents, sys.stdin.buffer, options),
    )
    result = verify(given, how, progress)
    show_read(given.read, (*given.read.findings, *given.intents.findings))
    report.emit(result)
    return exit_code_of(result)
