# SPDX-License-Identifier: Apache-2.0
"""Which programs run at which devices now, and which devices lack one."""

from collections.abc import Iterator
from dataclasses import dataclass

from policyc.runtime.attach import (
    attach,
    denied_devices,
    leftovers,
    netkit,
    prerouting,
    slaves,
    socket_hooks,
    tcx,
    xdp,
)
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load.resources.programs import POLICY_PROGRAM
from policyc.runtime.state import Generation


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """A program, and the devices where it runs; the hooks tail-call the policy program."""

    name: str
    id: int
    tag: str
    attached: tuple[str, ...]  # "veth1a2b (tcx)"
    is_tail_called: bool = False


def programs_of(
    where: Pins, generation: Generation
) -> tuple[tuple[ProgramStatus, ...], tuple[str, ...]]:
    """The programs that run, and the devices that lack one of theirs."""
    found: list[ProgramStatus] = []
    missing: list[str] = []
    used = {"pod", *(at.role for at in generation.attachments)}
    for role, hook in (
        (role, hook) for role, hooks in attach.BY_ROLE.items() if role in used for hook in hooks
    ):
        with bpf_syscall.obj_get(where.hook(hook.program)) as fd:
            info = bpf_syscall.prog_info(fd)
        devices: list[str] = []
        for at in generation.attachments:
            if at.role != role:
                continue
            if attach.attached_program(where, at, hook) == info.id:
                devices.append(f"{at.interface} ({at.kind})")
            elif at.interface not in missing:
                missing.append(at.interface)
        devices += [
            f"{at.interface} ({at.kind}, no pod)"
            for at in leftovers.kept(generation)
            if at.role == role and attach.attached_program(where, at, hook) == info.id
        ]
        found.append(ProgramStatus(hook.program, info.id, info.tag, tuple(devices)))
    with bpf_syscall.obj_get(where.generation(generation.epoch) / POLICY_PROGRAM) as fd:
        info = bpf_syscall.prog_info(fd)
    found.append(ProgramStatus(POLICY_PROGRAM, info.id, info.tag, (), is_tail_called=True))
    here = socket_hooks.cgroup_id(generation.cgroup) if generation.cgroup else 0
    for name, (info, cgroup) in socket_hooks.attached(where, generation.epoch).items():
        is_there = cgroup and cgroup == here
        where_attached = (f"{generation.cgroup} (cgroup)",) if is_there else ()
        found.append(ProgramStatus(name, info.id, info.tag, where_attached))
    at_netkit = list(netkit.attached(where))
    if at_netkit:
        with bpf_syscall.prog_by_id(at_netkit[0][2]) as fd:
            info = bpf_syscall.prog_info(fd)
        sides = tuple(f"{device} (netkit {side})" for device, side, _ in at_netkit)
        found.append(ProgramStatus(netkit.PROGRAM, info.id, info.tag, sides))
    found += _at_slaves(where, generation)
    found += _prerouting(where)
    for device, ident in xdp.attached(where).items():
        with bpf_syscall.prog_by_id(ident) as fd:
            info = bpf_syscall.prog_info(fd)
        found.append(ProgramStatus(xdp.PROGRAM, info.id, info.tag, (f"{device} (xdp)",)))
    missing += slaves.unhooked(where, generation)
    return tuple(found), (*missing, *_open(where, generation))


def _at_slaves(where: Pins, generation: Generation) -> Iterator[ProgramStatus]:
    """Programs at ipvlan slaves and their parents; each device has some of its own, with one tag."""
    found: dict[str, list[tuple[str, int]]] = {}
    for at, way, ident in slaves.attached(where):
        name = slaves.name_of(at, generation)
        found.setdefault(at.program(way), []).append((f"{name} (tcx)", ident))
    for program, places in found.items():
        with bpf_syscall.prog_by_id(places[0][1]) as fd:
            info = bpf_syscall.prog_info(fd)
        yield ProgramStatus(program, info.id, info.tag, tuple(name for name, _ in places))


def _prerouting(where: Pins) -> Iterator[ProgramStatus]:
    """The program in netfilter; each IP family has a link of its own."""
    attached = dict(prerouting.attached(where))
    for ident in sorted(set(attached.values())):
        with bpf_syscall.prog_by_id(ident) as fd:
            info = bpf_syscall.prog_info(fd)
        families = tuple(f"netfilter, {each}" for each in attached if attached[each] == ident)
        yield ProgramStatus(prerouting.PROGRAM, info.id, info.tag, families)


def _open(where: Pins, generation: Generation) -> Iterator[str]:
    """Devices that should be denied, and that let packets pass."""
    for at in leftovers.kept(generation):
        if attach.is_there(at) and not attach.is_whole(where, at):
            yield denied_devices.name_of(at.ifindex)
    for at in leftovers.unhooked(generation, tcx.KIND):
        yield at.interface
