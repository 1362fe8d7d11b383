# SPDX-License-Identifier: Apache-2.0
"""`policyc snapshot`: write what policyc reads of a live cluster. Glue only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.snapshot.kubectl import Kubectl
from policyc.compiler.driver.snapshot.snapshot import Snapshot, take, write
from policyc.ir.counts import counted
from policyc.ir.printable import printable_line

Command = TypeVar("Command", bound=Callable[..., Any])


def live_options(decorated: Command) -> Command:
    """Add the options that choose a cluster and a part of it, with kubectl's names."""
    for option in (
        click.option(
            "--skip-forbidden",
            is_flag=True,
            help="Go on without objects that this user may not list. Answers may be wrong then.",
        ),
        click.option("--kubeconfig", default="", metavar="FILE", help="Use this kubeconfig."),
        click.option("--context", default="", help="Use this context of the kubeconfig."),
        click.option(
            "-A",
            "--all-namespaces",
            "is_all",
            is_flag=True,
            help="Read all namespaces, which is the default.",
        ),
        click.option(
            "-n",
            "--namespace",
            default="",
            metavar="NS",
            help="Of pods, Services, accounts and policies in namespaces, read those of NS alone.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def taken(
    namespace: str, is_all: bool, context: str, kubeconfig: str, skip_forbidden: bool
) -> Snapshot:
    """The snapshot that the options above choose; notes go to standard error."""
    if namespace and is_all:
        raise click.UsageError("-n and -A exclude each other")
    snapshot = take(Kubectl(context, kubeconfig), namespace, skip_forbidden)
    if namespace:
        say(f"namespace {printable_line(namespace)} alone: pods of other namespaces are not known")
    if snapshot.forbidden:
        names = printable_line(", ".join(snapshot.forbidden))
        say(f"warning: forbidden, and not in the snapshot: {names}; answers may be wrong")
    if snapshot.unread:
        names = printable_line(", ".join(snapshot.unread))
        say(f"not read, and may change verdicts: {names}")
    return snapshot


@command(
    "snapshot",
    short_help="write what policyc reads of a live cluster",
    examples=(
        "policyc snapshot -o snapshot",
        "policyc snapshot -o snapshot --context staging -n shop",
    ),
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write this directory. An earlier snapshot there is replaced.",
)
@live_options
def snapshot(
    output: Path,
    namespace: str,
    is_all: bool,
    context: str,
    kubeconfig: str,
    skip_forbidden: bool,
) -> int:
    """Write the policies, pods, nodes and Services of a live cluster to DIR/policies and DIR/cluster.

    kubectl reads the cluster. No Secrets, ConfigMaps, environment variables, images or arguments are
    written.
    """
    found = taken(namespace, is_all, context, kubeconfig, skip_forbidden)
    write(found, output)
    for folder, of_kind in (("cluster", found.cluster), ("policies", found.policies)):
        counts = ", ".join(
            f"{len(objects)} {kind.kind}" for kind, objects in of_kind.items() if objects
        )
        click.echo(printable_line(f"wrote {output / folder}: {counts or counted(0, 'object')}"))
    return 0
