# SPDX-License-Identifier: Apache-2.0
"""`policyc prove`: check that a bundle is compiled from the given policies. Glue only."""

from pathlib import Path

import click

from policyc.compiler.cli.build_options import cache_option, node_option, solver_option
from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import input_options, inputs_of, progress_on_stderr, show_read
from policyc.compiler.cli.output_file import write_whole
from policyc.compiler.cli.reporting import Reporter, report_options
from policyc.compiler.driver.cache.build_cache import open_cache
from policyc.compiler.driver.codes import NOT_PROVED
from policyc.compiler.driver.prove.prove import (
    exit_code_of,
    prove_bundle,
    read_to_prove,
    signed,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.errors import InputError
from policyc.ir.results.prove import ProofStatus, ProveResult
from policyc.ir.spans import Span
from policyc.runtime.bundle.dsse import read_private
from policyc.runtime.bundle.signed_proof import SIGNED_PROOF
from policyc.verifier.smt.solver_choice import Choice


@command(
    "prove",
    short_help="prove that a bundle implements its policies",
    examples=(
        "policyc prove bundle -f policies --cluster cluster",
        "policyc prove bundle -f policies --cluster cluster --sign key.pem",
    ),
)
@click.argument("bundle")
@input_options
@node_option
@cache_option
@solver_option
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEY",
    help="If every part is proved, sign the proof with this Ed25519 key (PEM). `node load "
    "--require-proof` checks it.",
)
@report_options(ProveResult)
def prove_(
    bundle: str,
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    node: str,
    cache: Path | None,
    solver: str,
    key: Path | None,
    report: Reporter,
) -> int:
    """Prove from scratch that BUNDLE implements the policies. No stored proof is trusted.

    The prover decides the policies again, executes the bytecode symbolically for all flows, and reads
    the tables as the bytecode does. Give the options that the bundle was compiled with. Exit code 0:
    proved; 1: a part is refuted; 2: wrong input; 3: the solver could not decide a part.
    """
    progress = progress_on_stderr()
    signing = None if key is None else read_private(key)
    kept = None if cache is None else open_cache(cache)
    inputs = inputs_of(files, cluster, options)
    given = read_to_prove(bundle, inputs, node, progress, None if signing else kept)
    # entries that others may have put into a cache are not signed
    result = prove_bundle(given, Choice(solver), progress, None if signing else kept)
    findings = given.ready.findings if kept is None else (*given.ready.findings, *kept.findings)
    show_read(given.ready.read, findings)
    if signing is not None and result.status is ProofStatus.PROVED:
        write_whole(Path(bundle) / SIGNED_PROOF, signed(given, result, signing))
    report.emit(result)
    return exit_code_of(result)


def proved_digest(bundle: str, files: tuple[str, ...], cluster: tuple[str, ...]) -> str:
    """The digest of the manifest of a bundle that was proved now; InputError if it is not proved.

    It is proved for the node that it was made for, whichever that is: `node load` compares the node.
    """
    progress = progress_on_stderr()
    given = read_to_prove(bundle, inputs_of(files, cluster, ReadOptions()), None, progress)
    result = prove_bundle(given, Choice.BITWUZLA, progress)  # as `prove` does
    show_read(given.ready.read, given.ready.findings)
    if result.status is not ProofStatus.PROVED:
        faults = "; ".join(fault for part in result.parts for fault in part.faults)
        finding = NOT_PROVED.at(Span(bundle, 0, 0), name=bundle, status=result.status.value)
        raise InputError([finding.help(faults)])
    return given.bundle.digest
