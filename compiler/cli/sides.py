# SPDX-License-Identifier: Apache-2.0
"""OLD and NEW of a comparison on the command line, and the notes about them on standard error."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import click

from policyc.compiler.cli.inputs import show_findings
from policyc.compiler.cli.settings import settings_in_use, show_other_configuration
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.compare.fail_on import FAIL_ON
from policyc.compiler.driver.compare.sides import (
    StagedChanges,
    both_findings,
    read_sides,
    staged_changes,
)
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.frontend.lowered import Profile
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import GIT_SCHEME

Command = TypeVar("Command", bound=Callable[..., Any])
SIDES = (
    "A side is a directory, a file, - (standard input), a bundle, kustomize:DIR, helm:CHART, or "
    "git:REV[:PATH] (files of a commit). kustomize:git:REV[:DIR] and helm:git:REV[:CHART] render files "
    "of a commit. PATH is relative to the root of the repository, ./PATH to the working directory. "
    "[default PATH: the path of the other side]"
)
WITHOUT_NEW = (
    "NEW may be left out after git:REV: the sides are then the `paths` of .policyc.yaml, by default the "
    "working directory, in that commit and now."
)
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="any",
    show_default=True,
    help="Exit with code 1 on this outcome.",
)
"""--fail-on of a command that compares."""


def cluster_options(command: Command) -> Command:
    """Add --cluster, --cluster-old and --cluster-new to a command that compares."""
    for name, what in (
        ("--cluster-new", "Read the cluster of the second side only. Repeatable."),
        ("--cluster-old", "Read the cluster of the first side only. Repeatable."),
        (
            "--cluster",
            "Read namespaces, pods, workloads, Services and nodes of both sides. Repeatable.",
        ),
    ):
        command = click.option(name, multiple=True, metavar="PATH", help=what)(command)
    return command


@dataclass(frozen=True, slots=True)
class GivenSides:
    """The arguments OLD and NEW; `paths` are what is compared if there is no NEW."""

    old: str
    new: str
    paths: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """The names of the sides in reports."""
        return self.old, self.new


def given_sides(old: str, new: str | None) -> GivenSides:
    """The sides of the arguments. Without NEW the configuration names the paths, and OLD is a commit."""
    if new is not None:
        return GivenSides(old, new)
    if not old.startswith(GIT_SCHEME) or ":" in old.removeprefix(GIT_SCHEME):
        raise click.UsageError("the second side is missing: only after git:REV it may be left out")
    paths = settings_in_use().paths or (".",)
    return GivenSides(old, ", ".join(paths), paths)


def read_given_sides(
    sides: GivenSides,
    options: ReadOptions,
    cluster: tuple[str, ...],
    cluster_old: tuple[str, ...],
    cluster_new: tuple[str, ...],
    stdin: BinaryIO | None = None,
) -> tuple[Read, Read]:
    """The sides that the arguments and the options above name, with standard input if requested."""
    show_other_configuration(*sides.names)
    clusters = cluster, cluster_old, cluster_new
    return read_sides(*sides.names, options, *clusters, stdin or sys.stdin.buffer, sides.paths)


def show_sides(old: Read, new: Read) -> None:
    """Print findings, profiles, staged policies, and unused objects on standard error."""
    show_findings(both_findings(old, new))
    for name, side in (("old", old), ("new", new)):
        profile = side.policies.profile
        if profile is not Profile.KUBERNETES:
            say(f"{name}: profile: {profile.value}")
        _show_counts(name, "skipped", side.passed_over)
        hint = "ignored: give them with --cluster" if side.cluster is None else "ignored"
        _show_counts(name, hint, side.policies.cluster_objects)
    show_staged_changes(staged_changes(old, new))


def show_staged_changes(changes: StagedChanges) -> None:
    """Print the changed staged policies on standard error: they change no verdict."""
    for what, items in (
        ("added", changes.added),
        ("removed", changes.removed),
        ("changed", tuple(after for _, after in changes.changed)),
    ):
        if items:
            names = ", ".join(item.policy.title for item in items)
            say(f"staged, not in force, {what}: {names}")


def _show_counts(side: str, what: str, counts: dict[str, int]) -> None:
    if counts:
        shown = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        say(f"{side}: {what}: {shown}")
