# SPDX-License-Identifier: Apache-2.0
"""The options by which a command names observed flows, and the reading of them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.frontend import codes
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.compiler.frontend.observed.placing import Placing
from policyc.compiler.frontend.observed.reading import (
    FORMATS,
    Observed,
    ObservedFile,
    read_observed,
    text_lines,
)
from policyc.compiler.frontend.yaml.sources import STDIN_NAME, path_name
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

Command = TypeVar("Command", bound=Callable[..., Any])
NO_CLUSTER = "observed flows need --cluster: it says which pods they are of"


@dataclass(frozen=True, slots=True)
class GivenFlows:
    """The argument FLOWS and the options of it."""

    file: str
    form: str | None
    skip_unknown: bool


def flows_options(command: Command) -> Command:
    """Add FLOWS, --flows-format and --skip-unknown to a command."""
    for option in (
        click.option(
            "--skip-unknown", is_flag=True, help="Skip and count lines that are not understood."
        ),
        click.option(
            "--flows-format",
            type=click.Choice(FORMATS),
            help="Read this format. [default: told by the first record]",
        ),
        click.argument("flows"),
    ):
        command = option(command)
    return command


@collector_relaxed()
def observed_in(given: GivenFlows, read: Read) -> Observed:
    """The flows of a file, or of standard input if it is -; InputError if it is not understood."""
    if read.cluster is None:
        raise click.UsageError(NO_CLUSTER)
    shown = STDIN_NAME if given.file == "-" else path_name(given.file)
    try:
        with _opened(given.file) as stream:
            lines = text_lines(stream, shown)
            file = ObservedFile(lines, shown, given.form, given.skip_unknown)
            return read_observed(file, Placing(read.cluster))
    except OSError as failure:
        reason = failure.strerror or str(failure)
        found = codes.UNREADABLE.at(Span(shown, 0, 0), name=shown, reason=reason)
        raise InputError([found]) from failure


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as stream:
        yield stream
