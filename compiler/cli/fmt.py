# SPDX-License-Identifier: Apache-2.0
"""`policyc fmt`: format rule blocks, expressions and intents in place. Glue only."""

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

from policyc.backends.report.text import print_findings
from policyc.compiler.cli.help import command
from policyc.compiler.cli.output_file import replace_file
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.codes import CANNOT_WRITE
from policyc.compiler.frontend.extended.formatting import (
    format_intent_file,
    format_yaml_file,
)
from policyc.compiler.frontend.read_intents import is_yaml
from policyc.compiler.frontend.yaml.sources import (
    INTENT_SUFFIX,
    SUFFIXES,
    Content,
    ObjectsSource,
    contents,
    sources_of,
)
from policyc.ir.diagnostics import Report
from policyc.ir.printable import printable_line
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and its formatted text; None if its mistakes were reported."""

    content: Content
    new: bytes | None

    @property
    def is_changed(self) -> bool:
        return self.new is not None and self.new != self.content.data


@command(
    "fmt",
    short_help="format rule blocks, expressions and intents",
    examples=(
        "policyc fmt policies",
        "policyc fmt --check policies",
    ),
)
@click.option(
    "--check", is_flag=True, help="Change no file. Exit with code 1 if a file is not formatted."
)
@click.option(
    "--diff", is_flag=True, help="Change no file, as --check. Also print the differences."
)
@click.argument("paths", nargs=-1, metavar="[PATHS]")
def fmt(check: bool, diff: bool, paths: tuple[str, ...]) -> int:
    """Format ExtendedPolicy and Intent objects in YAML files, and .intent files.

    PATHS are files, directories (searched for *.yaml, *.yml, *.json, *.intent), or - to read standard
    input and write standard output. The default is the working directory. A file with syntax errors
    stays unchanged and is reported (exit code 2).
    """
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("standard input (-) stands alone")
    report = Report()
    is_stream = paths == ("-",)
    files = list(_files(paths or (".",), report))
    changed = [file for file in files if file.is_changed]
    for file in changed if diff else ():
        click.echo(_difference(file), nl=False)
    if not check and not diff:
        _write(files if is_stream else changed, is_stream, report)
    elif changed:
        _say("would change", changed)
    print_findings(report.sorted())
    if report.errors:
        return 2
    return 1 if changed and (check or diff) else 0


def _files(paths: tuple[str, ...], report: Report) -> Iterator[_File]:
    sources = [
        source
        for source in sources_of(paths, sys.stdin.buffer)
        if not isinstance(source, ObjectsSource)
    ]
    for content in contents(sources, report, (*SUFFIXES, INTENT_SUFFIX)):
        form = format_yaml_file if is_yaml(content) else format_intent_file
        yield _File(content, form(content.data, content.name, report))


def _difference(file: _File) -> str:
    assert file.new is not None
    old, new = (data.decode().splitlines(keepends=True) for data in (file.content.data, file.new))
    lines = difflib.unified_diff(old, new, file.content.name, f"{file.content.name} (laid out)")
    return "".join(map(_shown, lines))


def _shown(line: str) -> str:
    """A line of a difference for people: characters that act on a terminal or a log are escaped."""
    text = printable_line(line.removesuffix("\n").replace("\t", " "))
    return f"{text}\n" if line.endswith("\n") else f"{text}\n\\ no line end\n"


def _write(files: list[_File], is_stream: bool, report: Report) -> None:
    """Write every file that can be written; a failure is reported and does not stop the others."""
    for file in files:
        if is_stream and file.new is not None:
            click.echo(file.new, nl=False)
        elif file.new is not None:
            try:
                replace_file(file.content.path, file.new)
            except OSError as failure:
                name = file.content.name
                reason = failure.strerror or str(failure)
                report.add(CANNOT_WRITE.at(Span(name, 0, 0), target=name, reason=reason))
            else:
                _say("laid out", [file])


def _say(what: str, files: list[_File]) -> None:
    for file in files:
        say(f"{what}: {file.content.name}")
