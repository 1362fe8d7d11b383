# SPDX-License-Identifier: Apache-2.0
"""`policyc compile`: policies to a bundle, or any stage in between as text.

The compiler's modules are loaded only when something must be compiled: with --cache, often little must
be.
"""

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from policyc.compiler.cli.build_options import cache_option, node_option, solver_option
from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import (
    input_options,
    inputs_of,
    progress_on_stderr,
    show_findings,
    show_passed_over,
    show_read,
)
from policyc.compiler.cli.json_findings import findings_as_json
from policyc.compiler.cli.shards import shard_options
from policyc.compiler.driver.cache.build_cache import (
    DEFAULT_LIMIT,
    BuildCache,
    open_cache,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.compile.last_run import has_record
from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
    usual_backend,
)
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import path_name
from policyc.ir.counts import counted
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.plan import Counters
from policyc.ir.printable import json_text, printable
from policyc.verifier.smt.solver_choice import Choice

if TYPE_CHECKING:
    from policyc.compiler.driver.compile.compile import (
        Compiled,
        Prepared,
    )
    from policyc.compiler.driver.compile.emission import Emitted
    from policyc.compiler.driver.node_bundles.node_bundles import NodesCompiled
    from policyc.compiler.driver.rebuild.incremental import Rebuilt

RESULT_SCHEMA = "policyc.dev/compile-result/v1"

_COMPILERS = {Backend.C.value: "clang", Backend.LLVM.value: "LLVM in this process"}

STAGES = ("atoms", "decision-ir", "plan", "c", "seeds")
"""The stages of the compilation that --emit shows; `_stage` produces the text of each."""

POLICY_IR = "policy-ir"
"""The first stage: also policies that cannot be enforced have it."""


@command(
    "compile",
    examples=(
        "policyc compile -f policies --cluster cluster -o bundle",
        "policyc compile -f policies --cluster cluster -o bundles --all-nodes --cache ~/.cache/policyc",
        "policyc compile -f policies --emit decision-ir",
    ),
)
@input_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="BUNDLE",
    help="Write the bundle to this directory.",
)
@click.option(
    "--emit",
    type=click.Choice([POLICY_IR, *STAGES]),
    help="Print a stage of the pipeline instead of writing a bundle.",
)
@click.option(
    "--explain-layout",
    is_flag=True,
    help="Print the chosen layout of each table, the reason and the predicted cost.",
)
@click.option(
    "--backend",
    type=click.Choice([backend.value for backend in Backend]),
    help="Generate the object through C and clang, or directly with LLVM. "
    "[default: c, or llvm where clang is not installed]",
)
@click.option(
    "--rule-counters",
    "counters",
    type=click.Choice([counters.value for counters in Counters]),
    default=Counters.BYTES.value,
    show_default=True,
    help="Count packets and bytes, only packets, or nothing for each rule.",
)
@click.option(
    "--socket-programs",
    "at_sockets",
    is_flag=True,
    help="Add the programs that `node load --connect-deny` and `node load --bypass` need.",
)
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Accept input without policies. The bundle allows all traffic.",
)
@node_option
@click.option(
    "--all-nodes",
    is_flag=True,
    help="Write one bundle for each node of the cluster. Identical files are stored once.",
)
@shard_options
@cache_option
@click.option(
    "--cache-size",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Limit the cache to this size. The least recently used entries are removed."
    f"  [default: {DEFAULT_LIMIT >> 20}]",
)
@click.option(
    "--prove/--no-prove",
    "is_proved",
    default=False,
    show_default=True,
    help="Also prove the bytecode and its tables, and write the result to proof.json.",
)
@solver_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the summary as text or JSON.",
)
def compile_(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    output: Path | None,
    emit: str | None,
    explain_layout: bool,
    backend: str | None,
    counters: str,
    at_sockets: bool,
    allow_empty: bool,
    node: str,
    all_nodes: bool,
    jobs: int,
    executor: str,
    cache: Path | None,
    cache_size: int | None,
    is_proved: bool,
    solver: str,
    format_: str,
) -> int:
    """Compile NetworkPolicies into a bundle that `policyc node load` loads.

    Z3 proves each bundle: its decisions equal the policies for every flow. If that proof fails, nothing
    is written and the exit code is 3. --prove also proves the bytecode.
    """
    if (output is not None) + (emit is not None) + explain_layout != 1:
        raise click.UsageError("give one of -o BUNDLE, --emit STAGE and --explain-layout")
    if is_proved and output is None:
        raise click.UsageError("--prove needs -o BUNDLE")
    if all_nodes and output is None:
        raise click.UsageError("--all-nodes needs -o DIR")
    if cache_size is not None and cache is None:
        raise click.UsageError("--cache-size needs --cache DIR")
    limit = DEFAULT_LIMIT if cache_size is None else cache_size << 20
    if cache is not None and output is not None and cache.resolve() == output.resolve():
        raise click.UsageError("--cache and -o are the same directory")
    _check_nodes(bool(cluster), node, all_nodes, jobs, executor)
    counting = Counters(counters)
    target = Target(Backend(backend) if backend else usual_backend(counting), counting, at_sockets)
    if target.backend is Backend.LLVM and target.counters is Counters.PACKETS:
        raise click.UsageError("--backend llvm needs --rule-counters bytes or none")
    inputs = inputs_of(files, cluster, replace(options, allow_empty=allow_empty))
    with findings_as_json(format_ == "json"):
        if emit == POLICY_IR:
            gc.enable()
            return _show_policy_ir(inputs)
        kept = None if cache is None else open_cache(cache, limit)
        proving = Choice(solver) if is_proved else None
        if kept and output is not None and not (node or all_nodes or proving):
            again = _rebuilt(inputs, output, kept, target)
            if again is not None:
                return _show_rebuilt(again, output, target, format_)
        gc.enable()
        if all_nodes and output is not None:
            from policyc.compiler.driver.node_bundles.node_bundles import compile_all_nodes

            work = compile_all_nodes(
                inputs, output, progress_on_stderr(), kept, jobs, executor, target, proving
            )
            return _show_nodes(work, output, target, format_)
        from policyc.compiler.driver.compile.compile import compile_inputs

        done = compile_inputs(
            inputs, output, progress_on_stderr(), kept, node, target, proving, _keep
        )
    show_read(done.read, done.findings)
    if explain_layout:
        click.echo(_layout(done))
    elif emit is not None:
        click.echo(_stage(emit, done))
    else:
        _show(_summary(done, output, node, target), bool(cluster), format_)
    return 0


def _check_nodes(has_cluster: bool, node: str, all_nodes: bool, jobs: int, executor: str) -> None:
    """Check that the options can be combined."""
    if node and all_nodes:
        raise click.UsageError("give either --node NAME or --all-nodes")
    if (node or all_nodes) and not has_cluster:
        option = "--node" if node else "--all-nodes"
        raise click.UsageError(f"{option} needs --cluster, which has the nodes of pods")
    if not all_nodes and (jobs != 1 or executor):
        raise click.UsageError("--jobs and --executor need --all-nodes")


def _rebuilt(inputs: Inputs, output: Path, kept: BuildCache, target: Target) -> "Rebuilt | None":
    """The incremental build from the record that an earlier run left in the cache, if it is possible."""
    if not has_record(kept, inputs, target):
        return None
    from policyc.compiler.driver.rebuild.incremental import rebuild

    return rebuild(inputs, output, kept, target)


def _keep(ready: "Prepared", emitted: "Emitted", cache: BuildCache) -> None:
    """Leave the record of a full build, by code that is loaded only for this."""
    from policyc.compiler.driver.rebuild.recording import keep_record

    keep_record(ready, emitted, cache)


def _show_rebuilt(made: "Rebuilt", output: Path, target: Target, format_: str) -> int:
    show_findings(made.findings)
    show_passed_over(made.passed_over, made.cluster_objects, made.has_cluster)
    summary = {
        "schema": RESULT_SCHEMA,
        "bundle": str(output),
        "backend": target.backend.value,
        "policies": made.policies,
        "endpoints": made.endpoints,
        "rules": made.rules,
        "rows": made.rows,
        "columns": made.columns,
        "diagrams": made.diagrams,
        "proved_obligations": made.obligations,
        "rows_proved_before": made.rows - made.rows_anew,
        "diagnostics": _diagnostics(made.findings),
    }
    _show(summary, made.has_cluster, format_)
    return 0


def _stage(stage: str, done: "Compiled") -> str:
    """The result of a stage, as text."""
    from policyc.backends.report import dump

    texts: dict[str, Callable[[], str]] = {
        "atoms": lambda: dump.dump_atoms(done.decided.atoms),
        "decision-ir": lambda: dump.dump_decision_ir(done.decided.decision),
        "plan": lambda: dump.dump_plan(done.emitted.plan),
        "c": lambda: done.emitted.c.rstrip("\n"),
        "seeds": lambda: dump.dump_seeds(done.emitted.seeds),
    }
    return texts[stage]()


def _layout(done: "Compiled") -> str:
    """The layout of each part, and the reason for it."""
    from policyc.backends.report import layout

    endpoints = len(done.decided.universe.endpoints) if done.decided.universe else 0
    return layout.explain_layout(done.emitted.plan, done.emitted.layout.choices, endpoints)


def _show_nodes(done: "NodesCompiled", output: Path, target: Target, format_: str) -> int:
    show_read(done.ready.read, done.ready.findings)
    summary = _nodes_summary(done, output, target)
    if format_ == "json":
        click.echo(json_text(summary))
    else:
        click.echo(
            f"{printable(path_name(str(output)))}: {counted(len(done.bundles), 'bundle')}"
            f" of {counted(done.objects, 'distinct file')},"
            f" {counted(summary['policies'], 'policy', 'policies')}; proved equal to the policies"
            f" ({counted(summary['proved_obligations'], 'obligation')}, once for all nodes);"
            f" compiled by {_COMPILERS[summary['backend']]}"
        )
    return 0


def _nodes_summary(done: "NodesCompiled", output: Path, target: Target) -> dict[str, Any]:
    return {
        "schema": "policyc.dev/compile-nodes-result/v1",
        "directory": str(output),
        "backend": target.backend.value,
        "policies": sum(len(tier.policies) for tier in done.ready.policies.tiers),
        "proved_obligations": done.ready.proof.obligations,
        "files": done.objects,
        "nodes": [
            {"node": bundle.node, "pods": bundle.pods, "rows": bundle.rows}
            for bundle in done.bundles
        ],
        "diagnostics": _diagnostics(done.ready.findings),
    }


def _show_policy_ir(inputs: Inputs) -> int:
    from policyc.backends.report import dump
    from policyc.compiler.driver.compile.compile import read_inputs

    read = read_inputs(inputs)
    show_read(read, read.findings)
    click.echo(dump.dump_policy_ir(read.policies.policies))
    return 0


def _summary(done: "Compiled", output: Path | None, node: str, target: Target) -> dict[str, Any]:
    return {
        "schema": RESULT_SCHEMA,
        "bundle": str(output),
        "backend": target.backend.value,
        **({"node": node} if node else {}),
        "policies": sum(len(tier.policies) for tier in done.policies.tiers),
        "endpoints": len(done.decided.atoms.row_of),
        "rules": len(done.decided.decision.rules),
        "rows": len(done.decided.atoms.rows),
        "columns": len(done.decided.atoms.columns),
        "diagrams": len(done.decided.decision.cells),
        "proved_obligations": done.proof.obligations,
        "rows_proved_before": 0,
        "diagnostics": _diagnostics(done.findings),
    }


def _diagnostics(findings: Iterable[Diagnostic]) -> list[object]:
    """The findings that no comment suppresses."""
    from policyc.compiler.driver.suppressed import without_suppressed

    return [finding.to_json() for finding in without_suppressed(findings)[0]]


def _show(made: Mapping[str, Any], has_cluster: bool, format_: str) -> None:
    click.echo(json_text(made) if format_ == "json" else _in_words(made, has_cluster))


def _in_words(made: Mapping[str, Any], has_cluster: bool) -> str:
    over = counted(made["endpoints"], "endpoint") if has_cluster else "any endpoint"
    if "node" in made:
        over += f" that can be on {made['node']}"
    before = ""
    if made["rows_proved_before"]:
        classes = counted(made["rows_proved_before"], "subject class", "subject classes")
        before = f"; {classes} proved by an earlier run"
    return (
        f"{printable(path_name(made['bundle']))}: {counted(made['policies'], 'policy', 'policies')}"
        f" over {over}: {counted(made['rows'], 'subject class', 'subject classes')}"
        f" x {counted(made['columns'], 'peer class', 'peer classes')},"
        f" {counted(made['diagrams'], 'diagram')}; proved equal to the policies"
        f" ({counted(made['proved_obligations'], 'obligation')}{before});"
        f" compiled by {_COMPILERS[made['backend']]}"
    )
