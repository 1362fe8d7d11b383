# SPDX-License-Identifier: Apache-2.0
"""Loading a bundle on a node, replacing the one before, and taking all of it away again.

    load(LoadRequest(...))      prepares everything, then switches by one word
    unload()                    detaches, and forgets

A load that fails before the switch leaves the generation before it in force, and nothing of its own: it
runs its stack of undos. After the switch it only removes what the generation before left.
"""

from pathlib import Path

from policyc.runtime import command_lock, switch
from policyc.runtime.attach import network, socket_hooks, xdp
from policyc.runtime.bundle import signed_proof
from policyc.runtime.bundle.bundle import Bundle, read_bundle
from policyc.runtime.command_lock import Patience
from policyc.runtime.endpoints import pod_devices
from policyc.runtime.endpoints.endpoints import read_endpoints
from policyc.runtime.endpoints.local_devices import local_devices
from policyc.runtime.endpoints.placement import Placer
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import host, pins
from policyc.runtime.kernel.pins import DEFAULT_ROOT, Pins
from policyc.runtime.load.context import Given, PlacerFactory, Removal
from policyc.runtime.load.loading import Loaded, Loading, context_of, remove_all
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.policy import host_policy
from policyc.runtime.services import route as service_route
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import StateDir, Warn, unheard


def load(
    request: LoadRequest,
    *,
    placer: PlacerFactory | None = None,
    warn: Warn = unheard,
    note: Warn = unheard,
) -> Loaded:
    """Do what is asked. `warn` is told what is left out, `note` what the node cannot have."""
    given = _read(request, note)
    host.require_root()
    host.require_kernel(given.bundle.minimum_kernel)
    host.require_kernel_btf()
    host.require_not_realtime()
    pins.require_bpffs(request.bpffs)
    if request.cgroup is not None:
        socket_hooks.require_cgroup(request.cgroup)
    state = StateDir(request.bpffs, request.state_root)
    with state.lock("load", request.patience):
        network.require_here(Pins(request.bpffs), state)
        devices = local_devices(given.file.endpoints, request.missing, warn)
        pod_devices.require_hooks(request.endpoints, given.file.endpoints, devices, note)
        pod_devices.require_passed(request.uplinks, devices)
        pod_devices.require_scrubbed(devices, request.uplinks)
        pod_devices.require_macs(request.endpoints, given.file.endpoints, devices)
        context = context_of(given, state, devices, placer or _tables, (warn, note))
        return Loading(context).run()


def _read(request: LoadRequest, note: Warn) -> Given:
    """The files, each checked by itself and against the others. `InputError` where one is wrong."""
    bundle = read_bundle(request.bundle)
    if request.digest and bundle.digest != request.digest:
        raise InputError(f"{request.bundle}: the bundle changed after it was proved")
    if request.proof_keys:
        signed_proof.require_proof(bundle, request.proof_keys)
    file = read_endpoints(request.endpoints)
    policy = host_policy.of_node(bundle, file, request.uplinks, request.failsafe_ports, note)
    has_host_policy = policy is not None
    xdp.require_uplinks(request.xdp_mode, request.uplinks, has_host_policy, note)
    routes = service_route.read(request.service_cidrs, file, request.uplinks, has_host_policy)
    if request.socket_services == "pods" and request.cgroup is None:
        raise InputError("--socket-services pods needs --cgroup DIR")
    if request.connect_deny and request.socket_services != "pods":
        raise InputError("--connect-deny needs --socket-services pods")
    if bundle.node not in ("", file.node):
        raise InputError(
            f"{request.bundle}: the bundle is for the node {bundle.node},"
            f" and {request.endpoints} for {file.node}",
            "load the bundle of this node, or one that was compiled without --node",
        )
    return Given(request, bundle, file, policy, routes)


def unload(
    *,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    patience: Patience = command_lock.NONE,
    warn: Warn = unheard,
) -> bool:
    """Detach from every device and remove every pin. False when nothing was loaded."""
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    with state.lock("unload", patience):
        is_reachable = network.is_reachable(where, state, warn)
        generation = state.remembered(switch.read(where.map("pc_state")).epoch, warn)
        was_there = where.is_any()
        remove_all(Removal.of(where, state, is_reachable, generation, warn))
    return was_there


def _tables(bundle: Bundle) -> Placer:
    from policyc.runtime.policy.tables import PolicyTables

    return PolicyTables(bundle)
