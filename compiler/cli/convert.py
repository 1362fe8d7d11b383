# SPDX-License-Identifier: Apache-2.0
"""`policyc convert`: policies rewritten in another API, and proved to mean the same."""

from pathlib import Path

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import (
    input_options,
    inputs_of,
    not_empty,
    progress_on_stderr,
    show_read,
)
from policyc.compiler.cli.output_file import write_whole
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.compare.convert import (
    TARGETS,
    Converted,
    convert_inputs,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.counts import counted


@command(
    "convert",
    short_help="rewrite policies in another API, with a proof",
    examples=(
        "policyc convert -f policies --to clusternetworkpolicy",
        "policyc convert -f policies --to extended -o extended.yaml",
    ),
)
@input_options
@click.option(
    "--to", "target", type=click.Choice(list(TARGETS)), required=True, help="Write this API."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file. [default: standard output]",
)
@click.option(
    "--ignore-effects",
    is_flag=True,
    help="Drop logs, audits and limits. All actions stay.",
)
def convert(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    target: str,
    output: Path | None,
    ignore_effects: bool,
) -> int:
    """Rewrite policies in another API that can express them.

    Z3 proves that the result means the same for every possible pod, label and address. If the proof
    fails, nothing is written (exit code 3). If the API cannot express a rule, an error names the rule
    and the reason (exit code 2).
    """
    inputs = inputs_of(files, cluster, not_empty(options))
    done = convert_inputs(inputs, target, ignore_effects, progress_on_stderr())
    show_read(done.read, done.read.findings)
    if output is None:
        click.echo(done.text, nl=False)
    else:
        write_whole(output, done.text)
    say(_said(done, target))
    if done.kept:
        shown = ", ".join(done.kept)
        say(f"keep these objects, and apply them with the output: {shown}")
    return 0


def _said(done: Converted, target: str) -> str:
    count = sum(len(tier.policies) for tier in done.read.policies.policies.tiers)
    return (
        f"converted {counted(count, 'policy', 'policies')} to {counted(done.n_objects, 'object')}"
        f" for {target}: proved equal for every possible cluster"
        f" ({counted(done.queries, 'query', 'queries')})"
    )
