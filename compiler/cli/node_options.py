# SPDX-License-Identifier: Apache-2.0
"""Options and messages that the commands of `policyc node` share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from policyc.ir.printable import printable_line
from policyc.runtime.errors import NodeError
from policyc.runtime.kernel.pins import DEFAULT_ROOT

if TYPE_CHECKING:
    from policyc.runtime.services.claims import Ranges

Command = TypeVar("Command", bound=Callable[..., object])

bpffs_option = click.option(
    "--bpffs",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_ROOT,
    show_default=True,
    metavar="DIR",
    help="Pin maps and programs in this directory of a mounted bpf file system.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the result as text or JSON.",
)
wait_option = click.option(
    "--wait",
    type=click.IntRange(0, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Wait this long for another command that changes the node; 0 does not wait.",
)

external_option = click.option(
    "--external-cidr",
    "external_cidr",
    multiple=True,
    metavar="CIDR",
    help="Serve only externalIPs in this range. Repeatable; '' removes the limit. "
    "[default: keep the current ranges; without any, serve every address and warn]",
)

strict_option = click.option(
    "--strict-services",
    "strict_services",
    is_flag=True,
    help="Refuse all Services if an object is invalid. [default: skip that object, with a warning]",
)
deny_option = click.option(
    "--deny-devices",
    "deny_devices",
    multiple=True,
    metavar="PATTERN",
    help="Deny all traffic of devices that match (veth*, lxc*, cali*) and have no pod in the endpoints "
    "file. Repeatable; '' removes all patterns. [default: keep the current patterns]",
)
_REPROVE = click.option(
    "--reprove",
    multiple=True,
    metavar="PATH",
    help="First prove that BUNDLE implements these policies. Needs the compiler and a solver. "
    "Repeatable.",
)
_REPROVE_CLUSTER = click.option(
    "--reprove-cluster",
    multiple=True,
    metavar="PATH",
    help="Read the cluster that BUNDLE was compiled with, for --reprove. Repeatable.",
)


def reproof(command: Command) -> Command:
    """`--reprove` and `--reprove-cluster`, for `digest_of_proof`."""
    for option in (_REPROVE_CLUSTER, _REPROVE):
        command = option(command)
    return command


def digest_of_proof(
    bundle: Path, reprove: tuple[str, ...], reprove_cluster: tuple[str, ...]
) -> str:
    """The digest of a bundle that was proved now; empty if no proof is requested."""
    if not reprove:
        if reprove_cluster:
            raise click.UsageError("--reprove-cluster needs --reprove")
        return ""
    from policyc.compiler.cli.prove import proved_digest

    return proved_digest(str(bundle), reprove, reprove_cluster)


def external_ranges_of(given: tuple[str, ...]) -> "Ranges | None":
    """The ranges of `--external-cidr`; None: as before."""
    if not given:  # a load without Services does not need the import
        return None
    from policyc.runtime.services.claims import external_ranges

    return external_ranges(given)


def note(message: str) -> None:
    """Print a remark for the user on standard error."""
    click.echo(printable_line(f"note: {message}"), err=True)


def warn(message: str) -> None:
    """Print a warning for the user on standard error."""
    click.echo(printable_line(f"warning: {message}"), err=True)


@contextmanager
def error_details(verbose: bool) -> Iterator[None]:
    """Print the long part of an error if `verbose`. The caller prints the short one."""
    try:
        yield
    except NodeError as error:
        if error.detail and verbose:
            click.echo(error.detail, err=True)
        elif error.detail and not error.hint:
            error.hint = "--verbose prints the verifier log"
        raise
