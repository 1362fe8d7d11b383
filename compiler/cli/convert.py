# SPDX-License-Identifier: Apache-2.0
"""`policyc convert`: policies rewritten in another API, and proved to mean the same."""

import os
import tempfile
from pathlib import Path

import click

from policyc.compiler.cli.inputs import input_options, inputs_of, progress_on_stderr, show_read
from policyc.compiler.driver.codes import CANNOT_WRITE
from policyc.compiler.driver.convert import TARGETS, Converted, convert_inputs
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.errors import InputError
from policyc.ir.spans import Span


@click.command("convert", short_help="rewrite policies in another API, proved equal")
@input_options
@click.option(
    "--to", "target", type=click.Choice(list(TARGETS)), required=True, help="The API to write."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to write; without it, standard output.",
)
@click.option(
    "--ignore-effects",
    is_flag=True,
    help="Leave out logs, audits and limits; every action stays as it is.",
)
def convert(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    target: str,
    output: Path | None,
    ignore_effects: bool,
) -> int:
    """Rewrite policies in another API, where it can express them.

    What is written is read back, and Z3 shows that it means the same for every pod, label and address
    that could exist; else nothing is written (exit code 3). Where the API has no words for a rule, it
    says which and why (exit code 2).
    """
    inputs = inputs_of(files, cluster, options)
    done = convert_inputs(inputs, target, ignore_effects, progress_on_stderr())
    show_read(done.read, done.read.findings)
    if output is None:
        click.echo(done.text, nl=False)
    else:
        _write(output, done.text)
    click.echo(f"policyc: {_said(done, target)}", err=True)
    if done.kept:
        shown = ", ".join(done.kept)
        click.echo(f"policyc: keep, and give beside what was written: {shown}", err=True)
    return 0


def _said(done: Converted, target: str) -> str:
    count = sum(len(tier.policies) for tier in done.read.policies.policies.tiers)
    return (
        f"{count} policies are {done.n_objects} objects for {target}, proved to mean the same for"
        f" every cluster that could exist ({done.queries} queries)"
    )


def _write(output: Path, text: str) -> None:
    """The whole file or none of it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(output)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        found = CANNOT_WRITE.at(Span(str(output), 0, 0), target=output, reason=reason)
        raise InputError([found]) from failure
