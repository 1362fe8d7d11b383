# SPDX-License-Identifier: Apache-2.0
"""`policyc check --fix` and `--diff`: the options, the patch, and the files that are written."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from policyc.compiler.cli.output_file import replace_file, write_whole
from policyc.compiler.cli.reporting import Reporter
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.check.fixes.fixing import Fixed
from policyc.compiler.driver.check.fixes.patch import patch
from policyc.compiler.driver.check.fixes.plan import FixedFile, Plan
from policyc.compiler.driver.codes import CANNOT_WRITE
from policyc.ir.counts import counted
from policyc.ir.errors import InputError
from policyc.ir.printable import printable_line
from policyc.ir.results.check import CheckResult
from policyc.ir.spans import Span


def fix_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fix and --diff to a command."""
    fix = click.option(
        "--fix",
        "is_fix",
        is_flag=True,
        help="Remove rules, policies and comments without effect from the files. Report what is left.",
    )
    diff = click.option(
        "--diff",
        "is_diff",
        is_flag=True,
        help="Change no file. Print the changes of --fix as a patch for git apply or patch -p1.",
    )
    return fix(diff(command))


def refuse_both(is_fix: bool, is_diff: bool) -> None:
    """The usage errors about the two options."""
    context = click.get_current_context()
    if is_fix and is_diff:
        raise click.UsageError("--fix writes files, and --diff writes none: choose one")
    if is_diff and context.get_parameter_source("form") is not ParameterSource.DEFAULT:
        raise click.UsageError("--diff prints a patch, which has no --format")


def is_cluster_named() -> bool:
    """Whether the command line names the cluster, and not the configuration alone."""
    source = click.get_current_context().get_parameter_source("cluster")
    return source is not ParameterSource.DEFAULT


def show_patch(fixed: Fixed, report: Reporter) -> None:
    """Print the patch, or write it to the file of --output. On a terminal it is made printable."""
    text = patch(fixed.plan, fixed.universe)
    if report.output is not None and str(report.output) != "-":
        write_whole(report.output, text)
    elif sys.stdout.isatty():
        click.echo("".join(f"{printable_line(line)}\n" for line in text.split("\n")[:-1]), nl=False)
    else:
        click.echo(text.encode(), nl=False)
    for note in notes(fixed.plan, "offered"):
        say(note)


def write_fixes(plan: Plan) -> None:
    """Write every file, or none if one of them changed since it was read. Raises InputError."""
    for each in plan.files:
        if _bytes(each) != each.content.data:
            raise _failure(each, "it changed since it was read")
    for each in plan.files:
        try:
            if each.new is None:
                Path(each.content.path).unlink()
            else:
                replace_file(each.content.path, each.new)
        except OSError as failure:
            raise _failure(each, failure.strerror or str(failure)) from failure


def _bytes(fixed: FixedFile) -> bytes:
    try:
        return Path(fixed.content.path).read_bytes()
    except OSError as failure:
        raise _failure(fixed, failure.strerror or str(failure)) from failure


def _failure(fixed: FixedFile, reason: str) -> InputError:
    name = fixed.content.name
    return InputError([CANNOT_WRITE.at(Span(name, 0, 0), target=name, reason=reason)])


def with_notes(result: CheckResult, fixed: Fixed) -> CheckResult:
    """The result of the fixed input, with notes about the fixes."""
    return replace(result, notes=(*notes(fixed.plan, "written", fixed.universe), *result.notes))


def notes(plan: Plan, done: str, universe: str = "") -> list[str]:
    """The number of fixes, the deleted files, and the findings that cannot be fixed."""
    fixes, files = counted(plan.n_fixes, "fix", "fixes"), counted(len(plan.files), "file")
    where = f"; no verdict and no effect changes for {universe}" if plan.files and universe else ""
    deleted = [each.content.name for each in plan.files if each.new is None]
    return [
        f"{fixes} in {files} {done}{where}" if plan.files else f"no fix {done}",
        *(f"{name} holds nothing else and is deleted" for name in deleted),
        *(
            f"{each.place.span}: {each.place.words} is not fixed: {each.reason}"
            for each in plan.left_out
        ),
    ]
