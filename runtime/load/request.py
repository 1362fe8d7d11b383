# SPDX-License-Identifier: Apache-2.0
"""What one `node load` is asked to do. Data only; `node.py` does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.runtime import command_lock
from policyc.runtime.attach import attach, xdp
from policyc.runtime.attach.bypass import Bypass
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.attach.socket_hooks import SocketServices
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.command_lock import Patience
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.endpoints.local_devices import Missing
from policyc.runtime.failsafes import Side
from policyc.runtime.kernel.pins import DEFAULT_ROOT
from policyc.runtime.snat.snat import Masquerade
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE

if TYPE_CHECKING:  # a load without Services imports nothing of theirs
    from policyc.runtime.services.claims import Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Load a bundle for these endpoints, in place of what is loaded, in this network namespace."""

    bundle: Path
    endpoints: Path

    bpffs: Path = DEFAULT_ROOT
    state_root: Path = DEFAULT_STATE
    patience: Patience = command_lock.NONE
    """How long another command is waited for."""

    mode: attach.Mode = "auto"
    """How hooks are attached."""
    forwarding: Forwarding = "redirect"
    """Which path known packets take between pods: the fast path, or the stack path."""
    missing: Missing = "refuse"
    """What a load does when the device of a pod does not exist, or goes meanwhile."""
    deny_devices: Patterns | None = None
    """Devices under default deny without an endpoint. None: those of the load before."""
    resets: bool = False
    """A packet in the middle of a TCP connection that the policy denies is answered by a reset."""

    uplinks: Sequence[str] = ()
    """The devices by which external clients reach the node."""
    outside: Outside = "tunnel"
    """How external clients that reached another node are answered."""
    masquerade: Masquerade | None = None
    """SNAT of the node's pods at uplinks. None: pods keep their addresses."""
    xdp_mode: xdp.Mode | None = None
    """XDP at the uplinks sends known packets to other nodes. None: no XDP."""
    reassemble: bool = False
    """Fragments that come before their first one are reassembled, if this kernel can."""

    services: Sequence[JsonValue] | None = None
    """Services and EndpointSlices. None: those that are loaded stay."""
    strict_services: bool = False
    """A wrong object among them is an `InputError`, and not left out with a warning."""
    external_cidrs: "Ranges | None" = None
    """The ranges that externalIPs have to be in. None: those of the load before."""
    cgroup: Path | None = None
    """Processes of this cgroup reach Services by their sockets."""
    socket_services: SocketServices = "node"
    """Whose processes: those of this network namespace, or those of the node's pods, too."""
    connect_deny: bool = False
    """A pod's connect() that policy denies fails at once."""
    bypass: Bypass | None = None
    """Of this protocol, data between pods of this node bypasses the stack."""
    service_cidrs: Sequence[str] = ()
    """Ranges that the host's stack routes to Services, for traffic that no socket hook sees."""

    failsafe_ports: Mapping[Side, str] = field(default_factory=dict)
    """Failsafe ports of a side, where they are not the default (`failsafes.read_ports`)."""
    proof_keys: Sequence[Path] = ()
    """One of these keys has to have signed a proof of the bundle."""
    digest: str = ""
    """The SHA-256 that the bundle's manifest has to have; empty: any."""
