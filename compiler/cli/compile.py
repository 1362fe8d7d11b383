# SPDX-License-Identifier: Apache-2.0
"""`policyc compile`: policies to a bundle, or any stage in between as text."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from policyc.backends.report import dump
from policyc.compiler.cli.inputs import input_options, inputs_of, progress_on_stderr, show_read
from policyc.compiler.cli.json_findings import findings_as_json
from policyc.compiler.driver.compile import Compiled, Inputs, compile_inputs, read_inputs
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.sources import printable

STAGES: dict[str, Callable[[Compiled], str]] = {
    "atoms": lambda done: dump.dump_atoms(done.decided.atoms),
    "decision-ir": lambda done: dump.dump_decision_ir(done.decided.decision),
    "plan": lambda done: dump.dump_plan(done.emitted.plan),
    "c": lambda done: done.emitted.c.rstrip("\n"),
    "seeds": lambda done: dump.dump_seeds(done.emitted.seeds),
}
"""Stage of the compilation -> what it made, as text."""

POLICY_IR = "policy-ir"
"""The stage before any: also what cannot be enforced has it."""


@click.command("compile")
@input_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="BUNDLE",
    help="The directory to write.",
)
@click.option(
    "--emit",
    type=click.Choice([POLICY_IR, *STAGES]),
    help="Print a stage of the pipeline instead of writing a bundle.",
)
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Compile input without any policy, which allows everything.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to say what was made.",
)
def compile_(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    output: Path | None,
    emit: str | None,
    allow_empty: bool,
    format_: str,
) -> int:
    """Compile NetworkPolicies into a bundle that `policyc node load` loads.

    Every bundle is proved: Z3 shows that the decisions equal the policies for every flow, or nothing
    is written and the exit code is 3.
    """
    if (output is None) == (emit is None):
        raise click.UsageError("give either -o BUNDLE or --emit STAGE")
    inputs = inputs_of(files, cluster, options)
    inputs = replace(inputs, options=replace(inputs.options, allow_empty=allow_empty))
    with findings_as_json(format_ == "json"):
        if emit == POLICY_IR:
            return _show_policy_ir(inputs)
        done = compile_inputs(inputs, output, progress_on_stderr())
    show_read(done.read, done.findings)
    if emit is not None:
        click.echo(STAGES[emit](done))
    elif format_ == "json":
        click.echo(json.dumps(_summary(done, output)))
    else:
        click.echo(_in_words(done, output))
    return 0


def _show_policy_ir(inputs: Inputs) -> int:
    read = read_inputs(inputs)
    show_read(read, read.findings)
    click.echo(dump.dump_policy_ir(read.policies.policies))
    return 0


def _summary(done: Compiled, output: Path | None) -> dict[str, Any]:
    return {
        "schema": "policyc.dev/compile-result/v1",
        "bundle": str(output),
        "policies": sum(len(tier.policies) for tier in done.decided.policies.tiers),
        "endpoints": len(done.decided.atoms.row_of),
        "rules": len(done.decided.decision.rules),
        "rows": len(done.decided.atoms.rows),
        "columns": len(done.decided.atoms.columns),
        "diagrams": len(done.decided.decision.diagrams),
        "proved_obligations": done.proof.obligations,
        "diagnostics": [finding.to_json() for finding in done.findings],
    }


def _in_words(done: Compiled, output: Path | None) -> str:
    made = _summary(done, output)
    over = f"{made['endpoints']} endpoints" if done.read.cluster else "any endpoint"
    return (
        f"{printable(str(output))}: {made['policies']} policies over {over}:"
        f" {made['rows']} subject classes"
        f" x {made['columns']} peer classes, {made['diagrams']} diagrams;"
        f" proved equal to the policies ({made['proved_obligations']} obligations)"
    )
