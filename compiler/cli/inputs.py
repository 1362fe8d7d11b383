# SPDX-License-Identifier: Apache-2.0
"""The options by which commands name their input, and what they say about it on standard error."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from policyc.backends.report.text import print_findings
from policyc.compiler.driver.compile import Inputs, Progress, Read
from policyc.compiler.frontend.read import DEFAULT_KUBE_VERSION, ReadOptions
from policyc.compiler.frontend.sources import sources_of

Command = TypeVar("Command", bound=Callable[..., Any])


def input_options(command: Command) -> Command:
    """Add -f, --cluster, -n, --kube-version and --allow-unknown-kinds to a command."""
    for option in reversed(
        (
            click.option(
                "-f",
                "--file",
                "files",
                multiple=True,
                required=True,
                metavar="PATH",
                help="Policies: a file, a directory, or - for standard input. Repeatable.",
            ),
            click.option(
                "--cluster",
                multiple=True,
                metavar="PATH",
                help="Namespaces, pods, workloads, services and nodes. Repeatable.",
            ),
            click.option(
                "-n",
                "--namespace",
                default="default",
                show_default=True,
                help="The namespace of objects that name none.",
            ),
            click.option(
                "--kube-version",
                default=DEFAULT_KUBE_VERSION,
                show_default=True,
                help="Validate as this version's API server does.",
            ),
            click.option(
                "--allow-unknown-kinds",
                multiple=True,
                metavar="KIND",
                help="Pass over objects of this kind. Repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def inputs_of(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    namespace: str,
    kube_version: str,
    allow_unknown_kinds: tuple[str, ...],
) -> Inputs:
    """What the options above name."""
    if (*files, *cluster).count("-") > 1:
        raise click.UsageError("standard input (-) can be read only once")
    options = ReadOptions(namespace, kube_version, frozenset(allow_unknown_kinds))
    stdin = sys.stdin.buffer
    return Inputs(sources_of(files, stdin), sources_of(cluster, stdin), options)


def show_read(read: Read) -> None:
    """Warnings, and what was passed over, on standard error."""
    print_findings(read.findings)
    over = ", ".join(f"{count} {kind}" for kind, count in sorted(read.passed_over.items()))
    if over:
        click.echo(f"policyc: passed over: {over}", err=True)
    if read.cluster is None and read.policies.cluster_objects:
        found = ", ".join(f"{n} {k}" for k, n in sorted(read.policies.cluster_objects.items()))
        click.echo(f"policyc: used only with --cluster: {found}", err=True)


def progress_on_stderr(is_quiet: bool = False) -> Progress:
    """Long work shows its stage on a terminal, and on standard error only."""

    def show(stage: str) -> None:
        if not is_quiet and sys.stderr.isatty():
            click.echo(f"policyc: {stage} ...", err=True)

    return show
