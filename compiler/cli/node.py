# SPDX-License-Identifier: Apache-2.0
"""`policyc node`: load a bundle on this node, take it away, see what it does.

Needs no compiler: this module imports the runtime, click, and what makes text printable. Commands import
rich and PyYAML where they need them.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from policyc.ir.printable import printable_line
from policyc.runtime.attach import Mode
from policyc.runtime.command_lock import AT_WORK, Patience
from policyc.runtime.errors import NodeError
from policyc.runtime.failsafes import Side
from policyc.runtime.forwarding import Forwarding
from policyc.runtime.local_devices import Missing
from policyc.runtime.pins import DEFAULT_ROOT
from policyc.runtime.state import Generation
from policyc.runtime.uplinks import Outside
from policyc.runtime.xdp import Mode as XdpMode

if TYPE_CHECKING:
    from policyc.runtime.service_claims import Ranges

_bpffs = click.option(
    "--bpffs",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_ROOT,
    show_default=True,
    metavar="DIR",
    help="folder of our own in a mounted bpf file system",
)
_wait = click.option(
    "--wait",
    type=click.IntRange(0, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="how long another command that changes the node is waited for; 0: not at all",
)

_external = click.option(
    "--external-cidr",
    "external_cidr",
    multiple=True,
    metavar="CIDR",
    help="a range that externalIPs of Services have to be in, else they are left out; may be repeated; "
    "'' ends the limit (default: as before; at first any address, with a warning)",
)

_strict = click.option(
    "--strict-services",
    "strict_services",
    is_flag=True,
    help="refuse all Services where an object is wrong (default: leave that one out, with a warning)",
)
_deny = click.option(
    "--deny-devices",
    "deny_devices",
    multiple=True,
    metavar="PATTERN",
    help="default deny on devices of these names (veth*, lxc*, cali*) that no pod of the endpoints file "
    "has; may be repeated; '' ends it (default: as before)",
)


@click.group()
def node() -> None:
    """Load, unload and watch a bundle on this node."""


@node.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--endpoints",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="which pods there are, and behind which device each local one sits (JSON)",
)
@click.option(
    "--services",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Services and EndpointSlices (JSON or YAML), in place of those loaded; may be repeated",
)
@_bpffs
@click.option(
    "--attach",
    "mode",
    type=click.Choice(get_args(Mode)),
    default="auto",
    show_default=True,
    help="how to attach to devices; auto takes tcx where the kernel has it",
)
@click.option(
    "--forwarding",
    type=click.Choice(get_args(Forwarding)),
    default="redirect",
    show_default=True,
    help="known connections between pods of this node: handed over, or sent through the host's stack",
)
@click.option(
    "--uplink",
    "uplink",
    multiple=True,
    metavar="DEVICE",
    help="a device by which clients outside the cluster reach Services; may be repeated",
)
@click.option(
    "--outside",
    "way_back",
    type=click.Choice(get_args(Outside)),
    default="tunnel",
    show_default=True,
    help="clients outside that came to another node: answered back by that node, or from here",
)
@click.option(
    "--xdp",
    "xdp_mode",
    is_flag=False,
    flag_value="auto",
    type=click.Choice(get_args(XdpMode)),
    help="known packets of clients outside are handed to other nodes by XDP at the uplinks, run by the "
    "device's driver (native), the kernel (generic), or whichever can (auto, where nothing is said)",
)
@click.option(
    "--masquerade",
    "masquerades",
    is_flag=True,
    help="pods leave the cluster by an uplink under the node's address",
)
@click.option(
    "--masquerade-except",
    "excepted",
    multiple=True,
    metavar="CIDR",
    help="where pods go under their own address, besides pods and nodes; may be repeated",
)
@click.option(
    "--masquerade-ports",
    metavar="LOW-HIGH",
    help="by which pods leave, and no socket of the node (default 49152-65535)",
)
@click.option(
    "--cgroup",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="a cgroup2 folder: its processes that are in this network namespace reach Services, too",
)
@click.option(
    "--failsafe-inbound",
    metavar="PORTS",
    help="ports of a guarded node that no policy closes, as tcp:22,udp:68; or none",
)
@click.option(
    "--failsafe-outbound",
    metavar="PORTS",
    help="ports that a guarded node reaches whatever its policies say; or none",
)
@click.option(
    "--reassemble",
    is_flag=True,
    help="fragments that come before their first one are put in order, and not dropped",
)
@click.option(
    "--service-cidr",
    "service_cidr",
    multiple=True,
    metavar="CIDR",
    help="a range of Services' addresses, which the node itself reaches by a route; may be repeated",
)
@_external
@_strict
@click.option(
    "--require-proof",
    "proof_keys",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="PUBLIC",
    help="load only what one of these keys (PEM) signed with `policyc prove --sign`; may be repeated",
)
@click.option(
    "--reprove",
    multiple=True,
    metavar="PATH",
    help="prove first that BUNDLE is these policies; needs the compiler and its proofs; may be repeated",
)
@click.option(
    "--reprove-cluster",
    multiple=True,
    metavar="PATH",
    help="the cluster that BUNDLE was compiled with, for --reprove; may be repeated",
)
@click.option(
    "--missing-devices",
    "missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    show_default=True,
    help="a pod of this node whose device does not exist: refuse the load, or load the other pods",
)
@_deny
@click.option(
    "--reset-revoked",
    "resets",
    is_flag=True,
    help="answer segments of TCP connections that the policy denies by a reset (default: drop them)",
)
@_wait
@click.option("--verbose", is_flag=True, help="show the kernel's whole log if it refuses a program")
def load(
    bundle: Path,
    endpoints: Path,
    services: tuple[Path, ...],
    bpffs: Path,
    mode: Mode,
    forwarding: Forwarding,
    uplink: tuple[str, ...],
    way_back: Outside,
    xdp_mode: XdpMode | None,
    masquerades: bool,
    excepted: tuple[str, ...],
    masquerade_ports: str | None,
    cgroup: Path | None,
    failsafe_inbound: str | None,
    failsafe_outbound: str | None,
    reassemble: bool,
    service_cidr: tuple[str, ...],
    external_cidr: tuple[str, ...],
    strict_services: bool,
    proof_keys: tuple[Path, ...],
    reprove: tuple[str, ...],
    reprove_cluster: tuple[str, ...],
    missing: Missing,
    deny_devices: tuple[str, ...],
    resets: bool,
    wait: int,
    verbose: bool,
) -> None:
    """Load BUNDLE, in place of what is loaded. A load that fails changes nothing."""
    if reprove_cluster and not reprove:
        raise click.UsageError("--reprove-cluster is for --reprove")
    from policyc.compiler.cli.service_files import read_objects
    from policyc.runtime import node as runtime
    from policyc.runtime.denied_devices import read_patterns
    from policyc.runtime.masquerade import read_options

    digest = ""
    if reprove:
        from policyc.compiler.cli.prove import proved_digest

        digest = proved_digest(str(bundle), reprove, reprove_cluster)
    given: dict[Side, str | None] = {"inbound": failsafe_inbound, "outbound": failsafe_outbound}
    with _details(verbose):
        masquerade = read_options(masquerades, masquerade_ports, excepted, uplink)
        done = runtime.load(
            bundle,
            endpoints,
            bpffs=bpffs,
            mode=mode,
            forward=forwarding,
            uplink=uplink,
            way_back=way_back,
            masquerade=masquerade,
            xdp_mode=xdp_mode,
            services=read_objects(services) if services else None,
            cgroup=cgroup,
            open_ports={side: ports for side, ports in given.items() if ports is not None},
            reassemble=reassemble,
            service_cidr=service_cidr,
            external=_external_ranges(external_cidr),
            proof_keys=proof_keys,
            digest=digest,
            missing=missing,
            deny=read_patterns(deny_devices),
            resets=resets,
            strict_services=strict_services,
            patience=Patience(wait, _note),
            warn=_warn,
            note=_note,
        )
    generation = done.generation
    n_local = sum(at.role == "pod" for at in generation.attachments)
    verb = "replaced" if done.replaced_epoch else "loaded"
    click.echo(
        f"{verb}: epoch {generation.epoch}, {len(generation.endpoints)} endpoints, "
        f"{n_local} of this node{_without_device(generation)}{_denied(done.denied)}",
        err=True,
    )
    if generation.host is not None:
        _note(
            f"policies guard this node itself, as {generation.host.name}; what stays open: "
            f"{generation.host.failsafes.describe()}"
        )
    for pod in done.closed:
        _warn(
            f"no room in the tables for {pod}: what they do not hold of its traffic is "
            "denied; compile the bundle with --cluster"
        )
    if done.n_unnoted:
        _warn(
            f"no rule ids were left for {done.n_unnoted} decisions with notes: what they decide is "
            "enforced, and neither logged nor audited; compile the bundle with --cluster"
        )


@node.command("attest")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--endpoints",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="the file that was given to the load",
)
@click.option(
    "--reprove",
    multiple=True,
    metavar="PATH",
    help="prove first that BUNDLE is these policies; needs the compiler and its proofs; may be repeated",
)
@click.option(
    "--reprove-cluster",
    multiple=True,
    metavar="PATH",
    help="the cluster that BUNDLE was compiled with, for --reprove; may be repeated",
)
@_bpffs
@_wait
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def attest(
    bundle: Path,
    endpoints: Path,
    reprove: tuple[str, ...],
    reprove_cluster: tuple[str, ...],
    bpffs: Path,
    wait: int,
    form: str,
) -> int:
    """Compare what runs with BUNDLE: programs, hooks, every entry of the tables, every endpoint.

    Exit code 1 where anything is other than it should be, which is named.
    """
    from policyc.compiler.cli.node_attest import show_attested

    if reprove_cluster and not reprove:
        raise click.UsageError("--reprove-cluster is for --reprove")
    digest = ""
    if reprove:
        from policyc.compiler.cli.prove import proved_digest

        digest = proved_digest(str(bundle), reprove, reprove_cluster)
    with _details(verbose=False):
        return show_attested(bundle, endpoints, bpffs, form, digest, Patience(wait, _note))


@node.command("services")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_bpffs
@_wait
@_external
@_strict
def replace_services(
    files: tuple[Path, ...],
    bpffs: Path,
    wait: int,
    external_cidr: tuple[str, ...],
    strict_services: bool,
) -> None:
    """Replace the node's Services by those in FILES (JSON or YAML). Failing changes nothing."""
    from policyc.compiler.cli.service_files import read_objects
    from policyc.runtime.service_update import update_services

    with _details(verbose=False):
        frontends = update_services(
            read_objects(files),
            bpffs=bpffs,
            external=_external_ranges(external_cidr),
            patience=Patience(wait, _note),
            note=_note,
            warn=_warn,
            strict=strict_services,
        )
    n_backends = sum(each.takes_new for found in frontends for each in found.backends)
    ways = Counter(each.way_back for each in frontends if each.way_back)
    own = "".join(f", {n} of them answered outside by {way}" for way, n in sorted(ways.items()))
    click.echo(
        f"services: {len({each.service for each in frontends})} with {len(frontends)} addresses "
        f"and ports{own}, {n_backends} endpoints behind them",
        err=True,
    )


@node.command()
@_bpffs
@_wait
def unload(bpffs: Path, wait: int) -> None:
    """Detach from every device and remove everything; pods are unprotected afterwards."""
    from policyc.runtime import node as runtime

    with _details(verbose=False):
        was_there = runtime.unload(bpffs=bpffs, patience=Patience(wait, _note), warn=_warn)
    click.echo("unloaded" if was_there else "nothing is loaded", err=True)


@node.command()
@_bpffs
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def status(bpffs: Path, form: str) -> None:
    """Show programs, endpoints, maps, verdicts by rule and drops by reason."""
    from policyc.runtime.status import SCHEMA, status_and_command

    with _details(verbose=False):
        found, command = status_and_command(bpffs)
    if form == "json":
        nothing = {"schema": SCHEMA, "loaded": False, "in_progress": command or ""}
        click.echo(json.dumps(found.to_json() if found else nothing))
        return
    if command is not None:
        click.echo(AT_WORK.get(command, "another command is at work"))
    if found is None:
        click.echo("nothing is loaded")
    else:
        from rich.console import Console

        from policyc.ir.printable import printable
        from policyc.runtime.status_text import show

        show(found, Console(), printable)


@node.command()
@_bpffs
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="end after N events")
@click.option(
    "--seconds", type=click.FloatRange(min=0), metavar="N", help="end after so many seconds"
)
def events(bpffs: Path, form: str, count: int | None, seconds: float | None) -> None:
    """Print what rules log, a line an event (JSON: an object a line), until interrupted."""
    from policyc.compiler.cli.node_events import show_events

    with _details(verbose=False):
        show_events(bpffs, form, count, seconds)


@node.command("follow")
@click.argument("streams", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@_bpffs
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option(
    "--settled",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="silence after which what came first is taken for all that there is",
)
@_external
@_deny
def follow_streams(
    streams: tuple[Path, ...],
    bpffs: Path,
    form: str,
    settled: float,
    external_cidr: tuple[str, ...],
    deny_devices: tuple[str, ...],
) -> None:
    """Keep the node's Services as STREAMS tell, and new devices under default deny.

    STREAMS are watch events in JSON, from pipes, files or `-`; the command ends with them. Devices are
    denied by the patterns of --deny-devices, here or of the load. Without STREAMS the command denies
    devices until it is interrupted.
    """
    from policyc.compiler.cli.node_follow import follow
    from policyc.runtime.denied_devices import read_patterns

    with _details(verbose=False):
        ranges, deny = _external_ranges(external_cidr), read_patterns(deny_devices)
        follow(streams, bpffs, form, settled, ranges, deny)


def _external_ranges(given: tuple[str, ...]) -> "Ranges | None":
    if not given:  # spares a load without Services the import
        return None
    from policyc.runtime.service_claims import external_ranges

    return external_ranges(given)


def _without_device(generation: Generation) -> str:
    n = sum(each.is_missing for each in generation.endpoints)
    if not n:
        return ""
    return f", {n} without {'its device' if n == 1 else 'their devices'}"


def _denied(devices: tuple[str, ...]) -> str:
    if not devices:
        return ""
    return f", {len(devices)} {'device' if len(devices) == 1 else 'devices'} denied without an endpoint"


def _note(message: str) -> None:
    click.echo(printable_line(f"note: {message}"), err=True)


def _warn(message: str) -> None:
    click.echo(printable_line(f"warning: {message}"), err=True)


@contextmanager
def _details(verbose: bool) -> Iterator[None]:
    """Print the long part of an error, if asked to; whoever calls prints the short one."""
    try:
        yield
    except NodeError as error:
        if error.detail and verbose:
            click.echo(error.detail, err=True)
        elif error.detail and not error.hint:
            error.hint = "--verbose shows the kernel's whole log"
        raise
