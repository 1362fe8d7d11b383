# SPDX-License-Identifier: Apache-2.0
"""The programs at ipvlan slaves, at their parents and at the node's slaves: those of the bundle?"""

import struct
from collections.abc import Iterator

from policyc.runtime.attach import slaves
from policyc.runtime.bundle.bundle import SLAVES_OBJECT, Bundle
from policyc.runtime.endpoints import slaves as pod_slaves
from policyc.runtime.kernel import bpf_syscall, namespaces
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Generation


def slave_faults(pins: Pins, bundle: Bundle, generation: Generation) -> tuple[int, list[str]]:
    """How many programs were compared, and what is wrong with them."""
    if not pins.map(slaves.MAP).exists():
        return 0, []
    attached = list(slaves.attached(pins))
    faults = [*_called(pins), *_differences(pins, bundle, generation)]
    faults += (f"{name}: a program is missing" for name in slaves.unhooked(pins, generation))
    return len(slaves.HOOKS) + len(attached), faults


def _called(pins: Pins) -> Iterator[str]:
    """The hooks that the programs at slaves call."""
    for index, name in enumerate(slaves.HOOKS):
        with bpf_syscall.obj_get(pins.map(slaves.MAP)) as fd:
            value = bpf_syscall.map_lookup(fd, struct.pack("=I", index), 4)
        with bpf_syscall.obj_get(pins.hook(name)) as fd:
            due = struct.pack("=I", bpf_syscall.prog_info(fd).id)
        if value != due:
            yield f"{slaves.MAP}: another program than {name} runs at slaves"


def _differences(pins: Pins, bundle: Bundle, generation: Generation) -> Iterator[str]:
    path = bundle.path / SLAVES_OBJECT
    tags, layout = slaves.tags(pins, path), Btf.of_object(path).struct("pc_slave_device")
    own = namespaces.cookie()
    for at, way, ident in slaves.attached(pins):
        name, where = at.program(way), f"{slaves.name_of(at, generation)} (tcx)"
        with bpf_syscall.prog_by_id(ident) as fd:
            tag = bpf_syscall.prog_info(fd).tag
            constants = _constants(bpf_syscall.prog_map_ids(fd))
        if tag != tags[name]:
            yield f"{where}: the program has the tag {tag}; {name} of the bundle has {tags[name]}"
            continue
        mac = pod_slaves.mac_of(at.ifindex) if at.kind == "parent" else bytes(slaves.MAC_SIZE)
        if constants not in (b"", layout.pack(netns=own, number=at.number, mac=mac)):
            yield f"{where}: {name} has the constants of another device"


def _constants(maps: frozenset[int]) -> bytes:
    """Those that the program uses; empty: none."""
    for ident in maps:
        with bpf_syscall.map_by_id(ident) as fd:
            info = bpf_syscall.map_info(fd)
            if info.name == slaves.CONSTANTS:
                return bpf_syscall.map_lookup(fd, bytes(4), info.value_size) or b""
    return b""
