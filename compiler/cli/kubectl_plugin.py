# SPDX-License-Identifier: Apache-2.0
"""`kubectl policyc`: policyc with a live cluster as its input.

kubectl runs a program called kubectl-policyc with the arguments after `policyc`. Options before the
command choose the cluster. The command then gets a snapshot as --cluster, and the cluster's own policies
where it names none.
"""

import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from policyc.compiler.cli.main import cli, run
from policyc.compiler.cli.snapshot import live_options, taken
from policyc.compiler.driver.snapshot.kubectl import Kubectl
from policyc.compiler.driver.snapshot.overlay import write_applied
from policyc.compiler.driver.snapshot.snapshot import CLUSTER, POLICIES, Snapshot, write
from policyc.compiler.frontend.named_sources import named_sources
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import (
    GIT_SCHEME,
    STDIN,
    Content,
    ObjectsSource,
    contents,
)
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError

NAME = "kubectl policyc"
WITH_POLICIES = frozenset({"check", "explain", "list", "verify"})
"""Commands that take policies with -f."""
_COMPARES = "diff"
_HELP = frozenset({"-h", "--help"})
_FILES = ("files", "kustomize", "helm")
_REWRITES = {"is_fix": "--fix", "is_diff": "--diff"}


def main() -> None:
    """Run a command and exit with its exit code."""
    sys.exit(run(None, plugin, NAME))


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "allow_interspersed_args": False,
        "ignore_unknown_options": False,
    }
)
@live_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]...")
@click.pass_context
def plugin(context: click.Context, /, command: tuple[str, ...], **live: Any) -> Any:
    """Ask policyc about a live cluster. Options before COMMAND choose the cluster.

    check, explain, list and verify read the cluster, and its policies unless -f names others. diff FILE
    shows what `kubectl apply` of FILE opens and closes. snapshot writes what the others read. All other
    commands are those of policyc, and read no cluster.
    """
    if not command:
        click.echo(context.get_help())
        return 0
    name, *arguments = command
    if name == "snapshot":
        return _run_policyc(name, [*_live_arguments(live), *arguments])
    if name not in (*WITH_POLICIES, _COMPARES) or _HELP & set(arguments):
        return _run_policyc(name, arguments)
    given = _parsed(name, arguments)
    with tempfile.TemporaryDirectory(prefix="kubectl-policyc-") as folder:
        return _run_policyc(name, _Live(Path(folder), given, live).arguments())


def _run_policyc(name: str, arguments: list[str]) -> Any:
    return cli.main(args=[name, *arguments], prog_name=NAME, standalone_mode=False)


def _live_arguments(live: dict[str, Any]) -> list[str]:
    values = {"--namespace": "namespace", "--context": "context", "--kubeconfig": "kubeconfig"}
    flags = {"--all-namespaces": "is_all", "--skip-forbidden": "skip_forbidden"}
    texts = (f"{option}={live[name]}" for option, name in values.items() if live[name])
    return [*texts, *(option for option, name in flags.items() if live[name])]


@dataclass(frozen=True, slots=True)
class _Given:
    """The arguments of a command, and the options among them by the names of parameters."""

    name: str
    arguments: list[str]
    options: dict[str, Any]


def _parsed(name: str, arguments: list[str]) -> _Given:
    """The arguments, parsed but not converted. Raises UsageError."""
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    context = click.Context(found, info_name=f"{NAME} {name}", help_option_names=["-h", "--help"])
    options, _, _ = found.make_parser(context).parse_args(list(arguments))
    return _Given(name, arguments, dict(options))


@dataclass(frozen=True, slots=True)
class _Live:
    """A command, and the directory for its snapshot."""

    folder: Path
    given: _Given
    live: dict[str, Any]

    def arguments(self) -> list[str]:
        """The arguments of the command, completed by the cluster's objects."""
        given = self.given.options
        self._refuse_fixes()
        namespace = given.get("namespace") or self._namespace()
        snapshot = taken(**self.live)
        write(snapshot, self.folder / "live")
        live = self.folder / "live"
        added = [] if "namespace" in given else [f"--namespace={namespace}"]
        if not {"cluster", "cluster_old", "cluster_new"} & given.keys():
            added.append(f"--cluster={live / CLUSTER}")
        if self.given.name == _COMPARES:
            return [*added, *self._sides(snapshot, namespace)]
        if not any(given.get(each) for each in _FILES):
            added.append(f"--file={live / POLICIES}")
        return [*added, *self.given.arguments]

    def _namespace(self) -> str:
        """The namespace of objects that name none, as for `kubectl apply`."""
        if self.live["namespace"]:
            return str(self.live["namespace"])
        return Kubectl(self.live["context"], self.live["kubeconfig"]).namespace()

    def _refuse_fixes(self) -> None:
        given = self.given.options
        for name, option in _REWRITES.items():
            if name in given and not any(given.get(each) for each in _FILES):
                raise click.UsageError(f"{option} rewrites files: name them with -f")

    def _sides(self, snapshot: Snapshot, namespace: str) -> list[str]:
        """OLD and NEW before the rest of the arguments, if the command has one FILE."""
        arguments, given = self.given.arguments, self.given.options
        file = given.get("old")
        if not isinstance(file, str) or isinstance(given.get("new"), str):
            return arguments
        if file.startswith(GIT_SCHEME):
            return arguments
        after = self.folder / "applied"
        write_applied(snapshot, _contents(file, namespace), namespace, after)
        return [str(self.folder / "live" / POLICIES), str(after), *self._without(file)]

    def _without(self, file: str) -> list[str]:
        """The arguments without the FILE, which an option's value may equal."""
        arguments = self.given.arguments
        wanted = {k: v for k, v in self.given.options.items() if k not in ("old", "new")}
        for at, each in enumerate(arguments):
            rest = [*arguments[:at], *arguments[at + 1 :]]
            if each == file and _options(self.given.name, rest) == wanted:
                return rest
        raise click.UsageError(f"write FILE before the options: {NAME} diff FILE ...")


def _options(name: str, arguments: list[str]) -> dict[str, Any]:
    """The options alone; empty for arguments that cannot be parsed."""
    try:
        found = _parsed(name, arguments).options
    except click.UsageError:
        return {}
    return {k: v for k, v in found.items() if k not in ("old", "new")}


def _contents(file: str, namespace: str) -> list[Content]:
    """The files of FILE: a file, a directory, standard input, a kustomization or a chart."""
    report = Report()
    stdin = io.BytesIO(sys.stdin.buffer.read() if file == STDIN else b"")
    sources = named_sources([file], stdin, ReadOptions(namespace))
    found = list(
        contents([each for each in sources if not isinstance(each, ObjectsSource)], report)
    )
    if report.errors:
        raise InputError(report.sorted())
    return found
