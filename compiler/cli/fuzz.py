# SPDX-License-Identifier: Apache-2.0
"""`policyc fuzz`: check that all stages agree about random policies, or changed ones. Glue only."""

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import inputs_of, read_options, show_read
from policyc.compiler.cli.json_findings import findings_as_json
from policyc.compiler.cli.output_file import write_whole
from policyc.compiler.cli.rendered_options import helm_values_option, rendered_options
from policyc.compiler.cli.stopped import stopped_by_signals
from policyc.compiler.driver.codes import CANNOT_WRITE, NO_FLOWS_TO_FUZZ
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.fuzz.comparison import Tally
from policyc.compiler.fuzz.regression import name_of, read_regression, to_text
from policyc.compiler.fuzz.replay import replayed
from policyc.compiler.fuzz.stages.table import STAGES, ready, why_not
from policyc.compiler.fuzz.summary import Finding, Summary
from policyc.ir.errors import HostError, InputError
from policyc.ir.printable import json_text, printable_lines
from policyc.ir.spans import Span

if TYPE_CHECKING:  # hypothesis is not needed to replay
    from policyc.compiler.fuzz.strategies.words import Strategy

USUAL_SECONDS = 60.0


@command(
    "fuzz",
    short_help="compare all stages on random policies",
    examples=(
        "policyc fuzz --seconds 60",
        "policyc fuzz -f policies --seconds 60",
    ),
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    help="Mutate these policies instead of random ones: a file, a directory, or -. Repeatable.",
)
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Read the namespaces, pods and nodes of these policies. Repeatable. [default: random ones]",
)
@rendered_options
@read_options
@helm_values_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Stop after this many seconds. [default: {USUAL_SECONDS:.0f}; with --examples, no limit]",
)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    help="Stop after this many examples. With --seed, the run is reproducible.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed the random generator. [default: a new seed, which is printed]",
)
@click.option(
    "--backends",
    metavar="NAMES",
    help=f"Compare these stages, separated by commas: {', '.join(STAGES)}. [default: all that can "
    f"run on this machine]",
)
@click.option(
    "--replay",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Run a case again that an earlier search wrote. Repeatable.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Write a case that is found to this directory. [default: the working directory]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the result as text or JSON.",
)
def fuzz(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    seconds: float | None,
    examples: int | None,
    seed: int | None,
    backends: str | None,
    replay: tuple[str, ...],
    out: Path,
    form: str,
) -> int:
    """Compare every stage with the reference semantics on random clusters and policies of every API.

    A difference is minimized and written as a case that --replay runs again. Exit code 0: all stages
    agree; 1: a stage differs; 2: the input is wrong; 3: a requested stage cannot run.
    """
    if replay and (files or cluster or seconds or examples or seed is not None):
        raise click.UsageError(
            "--replay runs only its own files: remove -f, --cluster, --seed and limits"
        )
    if cluster and not files:
        raise click.UsageError("--cluster needs -f")
    names, left_out = _stages(backends)
    with findings_as_json(form == "json"):
        if replay:
            summary = _replay(replay, names, left_out)
        else:
            limit = USUAL_SECONDS if seconds is None and examples is None else seconds
            chosen = secrets.randbelow(1 << 32) if seed is None else seed
            search = _Search(files, cluster, options, limit, examples, chosen, out)
            summary = search.run(names, left_out)
    in_words = printable_lines("\n".join(summary.lines()))
    click.echo(json_text(summary.to_json()) if form == "json" else in_words)
    return summary.exit_code


def _stages(backends: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """The stages to run, and those that are left out, with the reason."""
    if backends is None:
        reasons = {name: why_not(name) for name in STAGES}
        left_out = {name: why for name, why in reasons.items() if why}
        return tuple(name for name in STAGES if name not in left_out), left_out
    wanted = dict.fromkeys(name.strip() for name in backends.split(","))
    for name in wanted:
        if name not in STAGES:
            raise click.UsageError(f"unknown stage {name!r}; the stages are {', '.join(STAGES)}")
    for name in wanted:
        why = why_not(name)
        if why:
            raise HostError(
                f"the stage {name} cannot run: {why}", "choose other stages with --backends"
            )
    return tuple(name for name in STAGES if name in wanted), {}


def _replay(files: Sequence[str], names: Sequence[str], left_out: Mapping[str, str]) -> Summary:
    """Every file is read before any is replayed."""
    cases = [(file, read_regression(file)) for file in files]
    tally, findings = Tally(), []
    with ready(names) as stages:
        for file, case in cases:
            found = replayed(case, stages, tally)
            if found is not None:
                findings.append(Finding(found, file))
    return Summary(None, len(cases), None, tally, names, left_out, findings)


@dataclass(frozen=True)
class _Search:
    """One search with the given options."""

    files: tuple[str, ...]
    cluster: tuple[str, ...]
    options: ReadOptions
    seconds: float | None
    examples: int | None
    seed: int
    out: Path

    def run(self, names: Sequence[str], left_out: Mapping[str, str]) -> Summary:
        """Search; a found disagreement is in a file when this returns."""
        from policyc.compiler.fuzz import hunt

        strategy = self._strategy()
        with stopped_by_signals() as stopped, ready(names) as stages:
            show, end = _progress()
            limits = hunt.Limits(self.seconds, self.examples, hunt.SHRINKING)
            done = hunt.Hunt(
                stages, self.options, strategy, self.seed, limits, lambda: bool(stopped), show
            ).run()
            end()
        findings = []
        if done.found is not None:
            text = to_text(done.found, self.options)
            path = self.out / name_of(text, done.found)
            _write(path, text)
            findings.append(Finding(done.found, str(path)))
        elif not done.tally.flows and not done.is_interrupted:
            problem = (
                f"{done.refused} of {done.examples} examples were refused, the others have no pods"
            )
            raise InputError([NO_FLOWS_TO_FUZZ.at(Span("-f", 0, 0), problem=problem)])
        return Summary(
            self.seed,
            done.examples,
            done.refused,
            done.tally,
            names,
            left_out,
            findings,
            done.is_interrupted,
        )

    def _strategy(self) -> "Strategy":
        if not self.files:
            from policyc.compiler.fuzz.strategies.examples import examples

            return examples()
        from policyc.compiler.fuzz.strategies.own import read_own
        from policyc.compiler.fuzz.strategies.own_examples import own_examples

        own = read_own(inputs_of(self.files, self.cluster, self.options))
        show_read(own.read, own.read.findings)
        return own_examples(own)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        found = CANNOT_WRITE.at(Span(str(path), 0, 0), target=path, reason=reason)
        raise InputError([found]) from failure
    write_whole(path, text)


def _progress() -> tuple[Callable[[str], None], Callable[[], None]]:
    """Shows a line over the one before, on a terminal; and ends the line."""
    if not sys.stderr.isatty():
        return lambda _: None, lambda: None

    def show(line: str) -> None:
        click.echo(f"\r\033[Kpolicyc: {line}", err=True, nl=False)

    return show, lambda: click.echo("\r\033[K", err=True, nl=False)
