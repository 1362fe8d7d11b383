# SPDX-License-Identifier: Apache-2.0
"""`policyc equiv`: prove that two policy sets are equal, with a certificate that others can check."""

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import read_options
from policyc.compiler.cli.rendered_options import helm_values_option
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.cli.sides import (
    SIDES,
    GivenSides,
    cluster_options,
    read_given_sides,
    show_sides,
)
from policyc.compiler.cli.universe_options import (
    is_symbolic,
    limit_of,
    pod_cidr_option,
    timeout_option,
    universe_option,
)
from policyc.compiler.driver.compare.diff import DiffOptions
from policyc.compiler.driver.compare.equiv import (
    checked,
    equiv_sides,
    exit_code_of,
    options_of,
    read_statement,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.peers import Network
from policyc.ir.results.certificate import Certificate
from policyc.verifier.smt.solver_choice import Choice


@command(
    "equiv",
    short_help="prove two policy sets equal, with a certificate",
    epilog=SIDES,
    examples=(
        "policyc equiv before after",
        "policyc equiv before after --format json -o certificate.json",
        "policyc equiv before after --check certificate.json",
    ),
)
@click.argument("a")
@click.argument("b")
@cluster_options
@read_options
@helm_values_option
@universe_option
@pod_cidr_option
@click.option(
    "--ignore-effects", is_flag=True, help="Compare actions only. Ignore logs, audits and limits."
)
@click.option("--audit", is_flag=True, help="Also solve the whole formula, whatever its size.")
@click.option(
    "--solver",
    type=click.Choice([choice.value for choice in Choice]),
    help="Prove with this solver. [default: z3; with --check, the solver that the certificate does "
    "not name]",
)
@timeout_option
@click.option(
    "--check",
    "certificate",
    metavar="CERT",
    help="Check CERT: derive its goals again and solve them with another solver.",
)
@report_options(Certificate)
def equiv(
    a: str,
    b: str,
    cluster: tuple[str, ...],
    cluster_old: tuple[str, ...],
    cluster_new: tuple[str, ...],
    options: ReadOptions,
    universe: str | None,
    pod_networks: tuple[Network, ...],
    ignore_effects: bool,
    audit: bool,
    solver: str | None,
    timeout: float | None,
    certificate: str | None,
    report: Reporter,
) -> int:
    """Prove that policy sets A and B give the same verdicts at both ends of every flow.

    The output is a certificate: the statement, the universe, the solver and the digests of the inputs.
    Exit code 0: equal; 1: different, or the certificate is refuted; 3: undecided.
    """
    chosen = DiffOptions(
        is_symbolic(universe, (*cluster, *cluster_old, *cluster_new)),
        ignore_effects,
        20,
        pod_networks,
        limit_of(timeout),
        Choice(solver) if solver else Choice.Z3,
        audit,
    )
    statement = read_statement(certificate) if certificate is not None else None
    if statement is not None:
        chosen = options_of(statement, chosen, Choice(solver) if solver else None)
    before, after = read_given_sides(GivenSides(a, b), options, cluster, cluster_old, cluster_new)
    show_sides(before, after)
    found = equiv_sides(before, after, chosen, (a, b))
    if statement is not None:
        found = checked(found, statement)
    report.emit(found)
    return exit_code_of(found)
