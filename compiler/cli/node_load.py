# SPDX-License-Identifier: Apache-2.0
"""`policyc node load`: put a bundle in force on this node."""

from pathlib import Path
from typing import get_args

import click

from policyc.compiler.cli.help import command
from policyc.compiler.cli.node_options import (
    bpffs_option,
    deny_option,
    digest_of_proof,
    error_details,
    external_option,
    external_ranges_of,
    note,
    reproof,
    strict_option,
    wait_option,
    warn,
)
from policyc.runtime.attach.attach import Mode
from policyc.runtime.attach.xdp import Mode as XdpMode
from policyc.runtime.command_lock import Patience
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.endpoints.local_devices import Missing
from policyc.runtime.failsafes import Side
from policyc.runtime.state import Generation


@command(
    "load",
    examples=(
        "policyc node load bundle --endpoints endpoints.json",
        "policyc node load bundle --endpoints endpoints.json --deny-devices 'veth*' --uplink eth0",
        "policyc node load bundle --endpoints endpoints.json --services services.json --masquerade",
    ),
)
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
@bpffs_option
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
    help="known connections between pods of this node: redirected, or through the host's stack",
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
@external_option
@strict_option
@click.option(
    "--require-proof",
    "proof_keys",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="PUBLIC",
    help="load only what one of these keys (PEM) signed with `policyc prove --sign`; may be repeated",
)
@reproof
@click.option(
    "--missing-devices",
    "missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    show_default=True,
    help="a pod of this node whose device does not exist: refuse the load, or load the other pods",
)
@deny_option
@click.option(
    "--reset-revoked",
    "resets",
    is_flag=True,
    help="answer segments of TCP connections that the policy denies by a reset (default: drop them)",
)
@wait_option
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
    from policyc.compiler.cli.service_files import read_objects
    from policyc.runtime.attach.denied_devices import read_patterns
    from policyc.runtime.load import node as runtime
    from policyc.runtime.snat.snat import read_options

    digest = digest_of_proof(bundle, reprove, reprove_cluster)
    given: dict[Side, str | None] = {"inbound": failsafe_inbound, "outbound": failsafe_outbound}
    with error_details(verbose):
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
            external=external_ranges_of(external_cidr),
            proof_keys=proof_keys,
            digest=digest,
            missing=missing,
            deny=read_patterns(deny_devices),
            resets=resets,
            strict_services=strict_services,
            patience=Patience(wait, note),
            warn=warn,
            note=note,
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
        note(
            f"policies guard this node itself, as {generation.host.name}; what stays open: "
            f"{generation.host.failsafes.describe()}"
        )
    for pod in done.closed:
        warn(
            f"no room in the tables for {pod}: what they do not hold of its traffic is "
            "denied; compile the bundle with --cluster"
        )
    if done.n_unnoted:
        warn(
            f"no rule ids were left for {done.n_unnoted} decisions with notes: what they decide is "
            "enforced, and neither logged nor audited; compile the bundle with --cluster"
        )


def _without_device(generation: Generation) -> str:
    n = sum(each.is_missing for each in generation.endpoints)
    if not n:
        return ""
    return f", {n} without {'its device' if n == 1 else 'their devices'}"


def _denied(devices: tuple[str, ...]) -> str:
    if not devices:
        return ""
    return f", {len(devices)} {'device' if len(devices) == 1 else 'devices'} denied without an endpoint"
