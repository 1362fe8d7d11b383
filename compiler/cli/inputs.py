# SPDX-License-Identifier: Apache-2.0
"""The options by which commands name their input, and the notes about it on standard error.

This module does not load the readers: a command may be done before it reads anything.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from policyc.backends.report.text import print_findings
from policyc.compiler.cli.rendered_options import helm_values_option, rendered_options
from policyc.compiler.cli.settings import config_option, need, with_settings
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.settings.find import CONFIG_FILE
from policyc.compiler.frontend.lowered import Channel, Profile, Unsupported
from policyc.compiler.frontend.named_sources import shared_sources
from policyc.compiler.frontend.read_options import DEFAULT_KUBE_VERSION, ReadOptions
from policyc.compiler.frontend.yaml.sources import Source, is_stdin_repeated
from policyc.ir.diagnostics import Diagnostic

if TYPE_CHECKING:
    from policyc.compiler.driver.compile.compile import (
        Progress,
        Read,
    )
    from policyc.compiler.frontend.read import PolicyInput

Command = TypeVar("Command", bound=Callable[..., Any])


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f and --cluster to a command, and the options of `read_options` and `rendered_options`."""
    files = click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="PATH",
        help="Read policies from a file, a directory, - (standard input), kustomize:DIR or helm:CHART. "
        f"Repeatable. [required, or --kustomize, --helm, or `paths` of {CONFIG_FILE}]",
    )
    cluster = click.option(
        "--cluster",
        multiple=True,
        metavar="PATH",
        help="Read namespaces, pods, workloads, Services and nodes. Repeatable.",
    )
    with_values = helm_values_option(command)
    return files(cluster(rendered_options(_with_read_options(with_values, ("files", "intents")))))


def read_options(command: Command) -> Command:
    """Add the options that say how objects are read; the command gets them as `options`.

    The configuration of the repository completes them, and --cluster, --intents and --fail-on.
    """
    return _with_read_options(command, ())


def _with_read_options(command: Command, needed: tuple[str, ...]) -> Command:
    """The options of `read_options`; `needed` are parameters that may not be empty."""

    @wraps(command)
    def with_options(
        namespace: str,
        kube_version: str,
        allow_unknown_kinds: tuple[str, ...],
        channel: str,
        profile: str | None,
        unsupported: str,
        config: str | None,
        **others: Any,
    ) -> Any:
        options = ReadOptions(
            namespace,
            kube_version,
            frozenset(allow_unknown_kinds),
            channel=Channel(channel),
            profile=None if profile is None else Profile(profile),
            unsupported=Unsupported(unsupported),
        )
        options, others = with_settings(config, options, others)
        for name in needed:
            need(name, others)
        return command(options=options, **others)

    decorated: Callable[..., Any] = with_options
    for option in reversed(_READ_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[return-value]


_READ_OPTIONS = (
    click.option(
        "-n",
        "--namespace",
        default="default",
        show_default=True,
        help="Set the namespace of objects that name none.",
    ),
    click.option(
        "--kube-version",
        default=DEFAULT_KUBE_VERSION,
        show_default=True,
        help="Validate like the API server of this Kubernetes version.",
    ),
    click.option(
        "--allow-unknown-kinds",
        multiple=True,
        metavar="KIND",
        help="Skip objects of this kind or group. * and ? match any characters. Repeatable.",
    ),
    click.option(
        "--channel",
        type=click.Choice([channel.value for channel in Channel]),
        default=Channel.EXPERIMENTAL.value,
        show_default=True,
        help="Use this release channel of the policy.networking.k8s.io CRDs.",
    ),
    click.option(
        "--profile",
        type=click.Choice([profile.value for profile in Profile]),
        help="Order the policy kinds as this policy engine does. [default: chosen by the kinds]",
    ),
    click.option(
        "--unsupported",
        type=click.Choice([how.value for how in Unsupported]),
        default=Unsupported.ERROR.value,
        show_default=True,
        help="Refuse a rule that uses an unsupported feature (error), or deny all that it may match "
        "(deny).",
    ),
    config_option,
)


def sources_given(
    files: tuple[str, ...], cluster: tuple[str, ...], options: ReadOptions
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """The sources that -f and --cluster name."""
    if is_stdin_repeated(files, cluster):
        raise click.UsageError("standard input (-) can be read only once")
    return shared_sources(files, cluster, sys.stdin.buffer, options)


def not_empty(options: ReadOptions) -> ReadOptions:
    """The sources, for a command that judges policies: input without any policy is an error."""
    return replace(options, allow_empty=False)


def inputs_of(files: tuple[str, ...], cluster: tuple[str, ...], options: ReadOptions) -> Inputs:
    """The inputs that the options above name."""
    policies, around = sources_given(files, cluster, options)
    return Inputs(policies, around, options)


def show_profile(profile: Profile) -> None:
    """Print the profile on standard error, unless it is Kubernetes' own."""
    if profile is not Profile.KUBERNETES:
        say(f"profile: {profile.value}")


def show_staged(policies: "PolicyInput") -> None:
    """Print the number of staged policies on standard error: they are not enforced or evaluated."""
    if policies.staged:
        names = ", ".join(sorted(item.policy.title for item in policies.staged))
        say(f"staged, not in force: {names}")


def show_findings(findings: Iterable[Diagnostic]) -> None:
    """Print findings on standard error, and the number of those that comments suppress."""
    given = list(findings)
    if given:
        from policyc.compiler.driver.suppressed import without_suppressed

        given, suppressed = without_suppressed(given)
        print_findings(given)
        if suppressed:
            counts = ", ".join(f"{n} {code}" for code, n in sorted(suppressed.items()))
            say(f"suppressed by comments: {counts}")


def show_read(read: "Read", findings: Iterable[Diagnostic]) -> None:
    """Print findings, the profile, and skipped objects on standard error."""
    show_findings(findings)
    show_profile(read.policies.profile)
    show_staged(read.policies)
    show_passed_over(read.passed_over, read.policies.cluster_objects, read.cluster is not None)


def show_passed_over(
    passed_over: Mapping[str, int], cluster_objects: Mapping[str, int], has_cluster: bool
) -> None:
    """Print skipped objects by kind: those without use, and those that only --cluster uses."""
    over = ", ".join(f"{count} {kind}" for kind, count in sorted(passed_over.items()))
    if over:
        say(f"skipped: {over}")
    if not has_cluster and cluster_objects:
        found = ", ".join(f"{n} {k}" for k, n in sorted(cluster_objects.items()))
        say(f"ignored without --cluster: {found}")


def progress_on_stderr(is_quiet: bool = False) -> "Progress":
    """Long work shows its stage if standard error is a terminal."""

    def show(stage: str) -> None:
        if not is_quiet and sys.stderr.isatty():
            say(f"{stage} ...")

    return show
