# SPDX-License-Identifier: Apache-2.0
"""`policyc node`: load a bundle on this node, unload it, show what it does.

Needs no compiler: this module imports the runtime, click, and the code that makes text printable.
Commands import rich and PyYAML where they need them.
"""

import json
from collections import Counter
from pathlib import Path

import click

from policyc.compiler.cli.help import Command
from policyc.compiler.cli.node_load import load
from policyc.compiler.cli.node_options import (
    bpffs_option,
    deny_option,
    digest_of_proof,
    error_details,
    external_option,
    external_ranges_of,
    format_option,
    note,
    reproof,
    strict_option,
    wait_option,
    warn,
)
from policyc.runtime.command_lock import AT_WORK, Patience
from policyc.runtime.counts import counted


@click.group()
def node() -> None:
    """Load, unload and monitor a bundle on this node."""


node.add_command(load)


@node.command(
    "attest",
    cls=Command,
    examples=(
        "policyc node attest bundle --endpoints endpoints.json",
        "policyc node attest bundle --endpoints endpoints.json --reprove policies",
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--endpoints",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Read the endpoints from FILE, the one that `policyc node load` read.",
)
@reproof
@bpffs_option
@wait_option
@format_option
def attest(
    bundle: Path,
    endpoints: Path,
    reprove: tuple[str, ...],
    reprove_cluster: tuple[str, ...],
    bpffs: Path,
    wait: int,
    form: str,
) -> int:
    """Compare the programs, hooks, tables and endpoints in the kernel with BUNDLE.

    Exit code 0: all are equal; 1: some differ, and the output names them.
    """
    from policyc.compiler.cli.node_attest import show_attested

    digest = digest_of_proof(bundle, reprove, reprove_cluster)
    with error_details(verbose=False):
        return show_attested(bundle, endpoints, bpffs, form, digest, Patience(wait, note))


@node.command(
    "services",
    cls=Command,
    examples=(
        "kubectl get services,endpointslices -A -o json > services.json",
        "policyc node services services.json",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@bpffs_option
@wait_option
@external_option
@strict_option
def replace_services(
    files: tuple[Path, ...],
    bpffs: Path,
    wait: int,
    external_cidr: tuple[str, ...],
    strict_services: bool,
) -> None:
    """Replace the node's Services with those in FILES (JSON or YAML). A failure changes nothing."""
    from policyc.compiler.cli.service_files import read_objects
    from policyc.runtime.services.update import update_services

    with error_details(verbose=False):
        frontends = update_services(
            read_objects(files),
            bpffs=bpffs,
            external=external_ranges_of(external_cidr),
            patience=Patience(wait, note),
            note=note,
            warn=warn,
            strict=strict_services,
        )
    n_backends = sum(each.takes_new for found in frontends for each in found.backends)
    ways = Counter(each.return_path for each in frontends if each.return_path)
    own = "".join(
        f", {n} with external clients answered by {way}" for way, n in sorted(ways.items())
    )
    click.echo(
        f"loaded {counted(len({each.service for each in frontends}), 'Service')}: "
        f"{counted(len(frontends), 'address and port', 'addresses and ports')}{own}, "
        f"{counted(n_backends, 'endpoint')}",
        err=True,
    )


@node.command(
    "unload",
    cls=Command,
    examples=("policyc node unload",),
)
@bpffs_option
@wait_option
def unload(bpffs: Path, wait: int) -> None:
    """Detach all programs and remove all tables. No policy is enforced afterwards."""
    from policyc.runtime.load import node as runtime

    with error_details(verbose=False):
        was_there = runtime.unload(bpffs=bpffs, patience=Patience(wait, note), warn=warn)
    click.echo("unloaded" if was_there else "nothing is loaded", err=True)


@node.command(
    "status",
    cls=Command,
    examples=(
        "policyc node status",
        "policyc node status --format json",
    ),
)
@bpffs_option
@format_option
def status(bpffs: Path, form: str) -> None:
    """Show the loaded bundle, its endpoints and maps, verdicts by rule, and drops by reason."""
    from policyc.runtime.observe.status import (
        SCHEMA,
        status_and_command,
    )

    with error_details(verbose=False):
        found, command = status_and_command(bpffs)
    if form == "json":
        nothing = {"schema": SCHEMA, "loaded": False, "in_progress": command or ""}
        click.echo(json.dumps(found.to_json() if found else nothing))
        return
    if command is not None:
        click.echo(AT_WORK.get(command, "another command is running"))
    if found is None:
        click.echo("nothing is loaded")
    else:
        from rich.console import Console

        from policyc.ir.printable import printable
        from policyc.runtime.observe.status_text import show

        show(found, Console(), printable)


@node.command(
    "events",
    cls=Command,
    examples=(
        "policyc node events",
        "policyc node events --format json --count 100",
    ),
)
@bpffs_option
@format_option
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N events. [default: no limit]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Stop after N seconds. [default: no limit]",
)
def events(bpffs: Path, form: str, count: int | None, seconds: float | None) -> None:
    """Print the events of rules that log, one per line, until interrupted."""
    from policyc.compiler.cli.node_events import show_events

    with error_details(verbose=False):
        show_events(bpffs, form, count, seconds)


@node.command(
    "follow",
    cls=Command,
    examples=(
        "policyc node follow <(kubectl get services -A -o json --watch --output-watch-events) \\",
        "    <(kubectl get endpointslices -A -o json --watch --output-watch-events)",
    ),
)
@click.argument("streams", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@bpffs_option
@format_option
@click.option(
    "--settled",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Apply the initial objects once the streams are silent for this long.",
)
@external_option
@deny_option
def follow_streams(
    streams: tuple[Path, ...],
    bpffs: Path,
    form: str,
    settled: float,
    external_cidr: tuple[str, ...],
    deny_devices: tuple[str, ...],
) -> None:
    """Apply Service changes from STREAMS, and put new devices under default deny.

    STREAMS are pipes, files or `-` with watch events in JSON. The command ends when they end. It denies
    devices that match --deny-devices, given here or to the load. Without STREAMS, the command denies
    devices until it is interrupted.
    """
    from policyc.compiler.cli.node_follow import follow
    from policyc.runtime.attach.denied_devices import read_patterns

    with error_details(verbose=False):
        ranges, deny = external_ranges_of(external_cidr), read_patterns(deny_devices)
        follow(streams, bpffs, form, settled, ranges, deny)
