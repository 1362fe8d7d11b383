# SPDX-License-Identifier: Apache-2.0
"""The hooks at sockets, and whose sockets they serve, beside what the load should have made of them."""

from collections.abc import Iterable, Iterator

from policyc.runtime.attach import pod_sockets, socket_hooks
from policyc.runtime.attach.socket_listing import REMOVED
from policyc.runtime.endpoints.endpoints import EndpointsFile
from policyc.runtime.kernel import bpf_syscall, namespaces
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.sockets import SocketHost, SocketPods
from policyc.runtime.observe.attested_programs import Programs
from policyc.runtime.state import Generation, LoadedEndpoint


def socket_faults(
    pins: Pins,
    programs: Programs,
    file: EndpointsFile,
    generation: Generation,
    endpoints: Iterable[LoadedEndpoint],
) -> tuple[int, list[str]]:
    """How many programs and clients were compared, and what differs."""
    wanted = [*socket_hooks.PROGRAMS]
    wanted += socket_hooks.CONNECT_HOOKS if generation.connect_deny else []
    faults = [*_hooks(pins, programs, generation, wanted), *_listing(pins, programs, generation)]
    pods = pod_sockets.found(endpoints).served if generation.socket_services == "pods" else {}
    with SocketHost(pins) as host:
        if host.entry != host.value_of(namespaces.cookie(), file.own_addresses):
            faults.append(f"{host.NAME}: it is not this node's network namespace and addresses")
    with SocketPods(pins) as served:
        due = {served.number_key(cookie): served.value_of(pods[cookie]) for cookie in pods}
        there = dict(served.items())
        faults += [f"{served.NAME}: {each}" for each in _differences(due, there)]
    return len(wanted) + 1 + len(there.keys() | due.keys()), faults


def _hooks(
    pins: Pins, programs: Programs, generation: Generation, wanted: Iterable[str]
) -> Iterator[str]:
    attached = socket_hooks.attached(pins, generation.epoch)
    here = socket_hooks.cgroup_id(generation.cgroup)
    for name in wanted:
        if name not in attached:
            yield f"{generation.cgroup}: {name} is not attached"
            continue
        info, cgroup = attached[name]
        if not cgroup or cgroup != here:
            yield f"{name}: it is not attached to {generation.cgroup}"
        yield from programs.differences(info.id, name, generation.cgroup)
    for name in sorted(attached.keys() - set(wanted)):
        yield f"{generation.cgroup}: {name} is attached, contrary to the options of the load"


def _listing(pins: Pins, programs: Programs, generation: Generation) -> Iterator[str]:
    pin = REMOVED.pin(pins.sockets(generation.epoch))
    if not pin.exists():
        yield f"{REMOVED.name}: there is no such program"
        return
    with bpf_syscall.obj_get(pin) as fd:
        ident = bpf_syscall.prog_info(fd).id
    yield from programs.differences(ident, REMOVED.name, str(pin))


def _differences(due: dict[bytes, bytes], there: dict[bytes, bytes]) -> Iterator[str]:
    for key in sorted(due.keys() | there.keys()):
        place = f"network namespace {SocketPods.number_of(key)}"
        if key not in there:
            yield f"{place}: the pod is missing"
        elif key not in due:
            yield f"{place}: expected no pod"
        elif due[key] != there[key]:
            yield f"{place}: found {there[key].hex()}, expected {due[key].hex()}"
