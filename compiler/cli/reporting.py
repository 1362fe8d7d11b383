# SPDX-License-Identifier: Apache-2.0
"""The options by which a command's result is shown: --format and --output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from policyc.backends.report.options import PLAIN, options_for
from policyc.backends.report.render import formats_of, has_format, render
from policyc.compiler.cli.output_file import write_whole
from policyc.compiler.driver.codes import UNKNOWN_PLACES
from policyc.ir.errors import HostError, InputError, InternalError
from policyc.ir.results.failure import Failure
from policyc.ir.spans import Span
from policyc.verifier.cluster.sites import UnknownAddressesError

Command = TypeVar("Command", bound=Callable[..., Any])
READ_BY_PEOPLE = ("text", "markdown")


@dataclass(frozen=True, slots=True)
class Reporter:
    """Shows results in one format: on standard output, or in the file `output`."""

    form: str
    output: Path | None = None

    def usual_limit(self, limit: int) -> int | None:
        """The default limit: short in formats for people; None: complete in formats for programs."""
        return limit if self.form in READ_BY_PEOPLE else None

    def emit(self, result: object, is_full: bool = False) -> None:
        """Show a result, `is_full` also what is usually counted; InputError for a file's failure."""
        to_file = self.output is not None and str(self.output) != "-"
        options = replace(PLAIN if to_file else options_for(sys.stdout), is_full=is_full)
        document = render(result, self.form, options)
        if self.output is not None and to_file:
            write_whole(self.output, document)
        else:
            click.echo(document, nl=False)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """An error that stops the command is a document, too, if the format has one; it is re-raised."""
        try:
            with places_needed():
                yield
        except (InputError, HostError, InternalError) as failure:
            if has_format(Failure, self.form):
                self._emit_failure(Failure.of(failure))
            raise

    def _emit_failure(self, failure: Failure) -> None:
        """Print it where the result would go; if the file cannot be written, on standard output."""
        try:
            self.emit(failure)
        except InputError:
            Reporter(self.form).emit(failure)


@contextmanager
def places_needed() -> Iterator[None]:
    """Ask the user for what only the user knows: the pods' networks."""
    try:
        yield
    except UnknownAddressesError as unknown:
        found = UNKNOWN_PLACES.at(Span("--cluster", 0, 0), why=str(unknown))
        hint = "say where pods live: --pod-cidr CIDR, or Node objects with podCIDRs"
        raise InputError([found.help(hint)]) from unknown


def report_options(result_type: type) -> Callable[[Command], Command]:
    """Add --format, with the formats for `result_type`, and --output to a command.

    The command gets a Reporter as `report`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_report(form: str, output: Path | None, **others: Any) -> Any:
            reporter = Reporter(form, output)
            with reporter.failures():
                return command(report=reporter, **others)

        decorated: Callable[..., Any] = with_report
        for option in (_output_option(), _format_option(result_type)):
            decorated = option(decorated)
        return decorated  # type: ignore[return-value]

    return decorate


def _format_option(result_type: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats_of(result_type)),
        default="text",
        show_default=True,
        help="Print the result in this format.",
    )


def _output_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write to this file. [default: standard output]",
    )
