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
from policyc.runtime.attach.bypass import Bypass
from policyc.runtime.attach.socket_hooks import SocketServices
from policyc.runtime.attach.xdp import Mode as XdpMode
from policyc.runtime.command_lock import Patience
from policyc.runtime.counts import counted
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
    help="Read all pods, and the device of each local pod, from FILE (JSON).",
)
@click.option(
    "--services",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Replace the loaded Services with the Services and EndpointSlices of FILE (JSON or YAML). "
    "Repeatable.",
)
@bpffs_option
@click.option(
    "--attach",
    "mode",
    type=click.Choice(get_args(Mode)),
    default="auto",
    show_default=True,
    help="Attach to devices this way. `auto` uses tcx if the kernel has it.",
)
@click.option(
    "--forwarding",
    type=click.Choice(get_args(Forwarding)),
    default="redirect",
    show_default=True,
    help="Send connections between local pods over the fast path (redirect), or over the stack path.",
)
@click.option(
    "--uplink",
    "uplink",
    multiple=True,
    metavar="DEVICE",
    help="Accept external clients of Services on this device. Repeatable.",
)
@click.option(
    "--outside",
    type=click.Choice(get_args(Outside)),
    default="tunnel",
    show_default=True,
    help="Answer external clients that reached another node through that node (tunnel), or directly "
    "(dsr). With dsr a packet for a node port goes without a tunnel to a node on the link that the "
    "packet came by, with dsr-l2 to a node on the link of any uplink; with dsr-vxlan it never does.",
)
@click.option(
    "--xdp",
    "xdp_mode",
    is_flag=False,
    flag_value="auto",
    type=click.Choice(get_args(XdpMode)),
    help="Forward packets of external clients to other nodes with XDP at the uplinks: in the "
    "device's driver "
    "(native), in the kernel (generic), or the first that works (auto; also --xdp without a value). "
    "[default: off]",
)
@click.option(
    "--masquerade",
    "masquerades",
    is_flag=True,
    help="Rewrite the source address of pods' external traffic to the node's address (SNAT).",
)
@click.option(
    "--masquerade-except",
    "excepted",
    multiple=True,
    metavar="CIDR",
    help="Do not apply SNAT to traffic to this range. Pods and nodes are always exempt. Repeatable.",
)
@click.option(
    "--masquerade-ports",
    metavar="LOW-HIGH",
    help="Use these SNAT ports. Sockets of the node cannot bind them. [default: 49152-65535]",
)
@click.option(
    "--cgroup",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Connect sockets of processes in this cgroup2 directory to endpoints of Services.",
)
@click.option(
    "--socket-services",
    type=click.Choice(get_args(SocketServices)),
    default="node",
    show_default=True,
    help="With --cgroup, serve the processes in this network namespace (node), or those of the node's "
    "pods, too (pods).",
)
@click.option(
    "--connect-deny",
    is_flag=True,
    help="With --socket-services pods, let a pod's connect() fail at once if policy denies it. The "
    "bundle needs `compile --socket-programs`.",
)
@click.option(
    "--bypass",
    type=click.Choice(get_args(Bypass)),
    help="Let TCP data between pods of this node go from socket to socket, past the TCP/IP stack. "
    "The bundle needs `compile --socket-programs`.",
)
@click.option(
    "--failsafe-inbound",
    metavar="PORTS",
    help="Keep these ports of a node under host policy open, as tcp:22,udp:68; or none. "
    "[default: tcp:22, udp:68 and the ports of the control plane]",
)
@click.option(
    "--failsafe-outbound",
    metavar="PORTS",
    help="Let a node under host policy always connect to these ports; or none.",
)
@click.option(
    "--reassemble",
    is_flag=True,
    help="Reassemble datagrams whose fragments arrive out of order. [default: drop them]",
)
@click.option(
    "--service-cidr",
    "service_cidr",
    multiple=True,
    metavar="CIDR",
    help="Let the node itself reach Services in this range through a route. Repeatable.",
)
@external_option
@strict_option
@click.option(
    "--require-proof",
    "proof_keys",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="PUBLIC",
    help="Load only a bundle that `policyc prove --sign` signed with one of these keys (PEM). "
    "Repeatable.",
)
@reproof
@click.option(
    "--missing-devices",
    "missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    show_default=True,
    help="If the device of a local pod does not exist, refuse the load, or load the other pods (skip).",
)
@deny_option
@click.option(
    "--reset-revoked",
    "resets",
    is_flag=True,
    help="Reset established TCP connections that a new policy denies. [default: drop their packets]",
)
@wait_option
@click.option(
    "--verbose", is_flag=True, help="Print the verifier log if the kernel rejects a program."
)
def load(
    bundle: Path,
    endpoints: Path,
    services: tuple[Path, ...],
    bpffs: Path,
    mode: Mode,
    forwarding: Forwarding,
    uplink: tuple[str, ...],
    outside: Outside,
    xdp_mode: XdpMode | None,
    masquerades: bool,
    excepted: tuple[str, ...],
    masquerade_ports: str | None,
    cgroup: Path | None,
    socket_services: SocketServices,
    connect_deny: bool,
    bypass: Bypass | None,
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
    """Load BUNDLE and replace the loaded one. A load that fails changes nothing."""
    from policyc.compiler.cli.service_files import read_objects
    from policyc.runtime.attach.denied_devices import read_patterns
    from policyc.runtime.load import node as runtime
    from policyc.runtime.load.request import LoadRequest
    from policyc.runtime.snat.snat import read_options

    digest = digest_of_proof(bundle, reprove, reprove_cluster)
    given: dict[Side, str | None] = {"inbound": failsafe_inbound, "outbound": failsafe_outbound}
    with error_details(verbose):
        masquerade = read_options(masquerades, masquerade_ports, excepted, uplink)
        done = runtime.load(
            LoadRequest(
                bundle=bundle,
                endpoints=endpoints,
                bpffs=bpffs,
                mode=mode,
                forwarding=forwarding,
                uplinks=uplink,
                outside=outside,
                masquerade=masquerade,
                xdp_mode=xdp_mode,
                services=read_objects(services) if services else None,
                cgroup=cgroup,
                socket_services=socket_services,
                connect_deny=connect_deny,
                bypass=bypass,
                failsafe_ports={side: ports for side, ports in given.items() if ports is not None},
                reassemble=reassemble,
                service_cidrs=service_cidr,
                external_cidrs=external_ranges_of(external_cidr),
                proof_keys=proof_keys,
                digest=digest,
                missing=missing,
                deny_devices=read_patterns(deny_devices),
                resets=resets,
                strict_services=strict_services,
                patience=Patience(wait, note),
            ),
            warn=warn,
            note=note,
        )
    generation = done.generation
    n_local = sum(at.role == "pod" for at in generation.attachments)
    verb = "replaced" if done.replaced_epoch else "loaded"
    click.echo(
        f"{verb}: epoch {generation.epoch}, {counted(len(generation.endpoints), 'endpoint')}, "
        f"{n_local} of this node{_without_device(generation)}{_denied(done.denied)}",
        err=True,
    )
    if generation.host is not None:
        note(
            f"this node is under host policy as {generation.host.name}; failsafe ports: "
            f"{generation.host.failsafes.describe()}"
        )
    for pod in done.closed:
        warn(
            f"the tables cannot hold all rules of {pod}: the traffic of missing rules is denied; "
            f"compile the bundle with --cluster"
        )
    if done.n_unnoted:
        warn(
            f"{done.n_unnoted} decisions have no free rule id: they are enforced, but neither logged "
            f"nor audited; compile the bundle with --cluster"
        )


def _without_device(generation: Generation) -> str:
    n = sum(each.is_missing for each in generation.endpoints)
    if not n:
        return ""
    return f", {n} without {'its device' if n == 1 else 'their devices'}"


def _denied(devices: tuple[str, ...]) -> str:
    if not devices:
        return ""
    return f", {len(devices)} {'device' if len(devices) == 1 else 'devices'} without an endpoint denied"
