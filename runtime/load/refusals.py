# SPDX-License-Identifier: Apache-2.0
"""What endpoints were refused because their quota was full (runtime/datapath/quota.h).

read(pins, generation)     for `node status`
forget(pins, kept)         at a load: counts of devices that are no endpoint's any more
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Generation

MAP = "pc_refused"
OUTSIDE, NODE = 0, 1
"""PC_OWNER_OUTSIDE, PC_OWNER_NODE: in the place of an endpoint's device."""
KINDS = {
    1: "new connection gave its place",
    2: "established connection not kept",
    3: "idle connection gave its place",
    4: "datagram in fragments gave its place",
    5: "connection without a SNAT port",
    6: "event not written",
}
"""enum pc_refusal, in the words of `node status`."""
_KEY = struct.Struct("=II")


@dataclass(frozen=True, slots=True)
class Refusal:
    """How often an endpoint's own quota was full.

    `endpoint` is `namespace/name`, "this node", "clients outside", or the number of a device that is no
    endpoint's any more.
    """

    endpoint: str
    what: str
    times: int


def read(pins: Pins, generation: Generation) -> tuple[Refusal, ...]:
    """What was refused since the pins were made, most first."""
    titles = {each.ifindex: each.title for each in generation.endpoints if each.ifindex}
    titles |= {OUTSIDE: "clients outside", NODE: "this node"}
    with bpf_syscall.obj_get(pins.map(MAP)) as fd:
        info = bpf_syscall.map_info(fd)
        found = []
        for key in bpf_syscall.map_keys(fd, info.key_size):
            value = bpf_syscall.map_lookup(fd, key, info.value_size)
            if value is not None:
                device, what = _KEY.unpack(key)
                title = titles.get(device, f"device {device}")
                found.append(Refusal(title, KINDS[what], int.from_bytes(value, "little")))
    return tuple(sorted(found, key=lambda each: (-each.times, each.endpoint, each.what)))


def forget(pins: Pins, kept: Collection[int]) -> None:
    """Forget the counts of devices other than these: the kernel gives their numbers to others."""
    with bpf_syscall.obj_get(pins.map(MAP)) as fd:
        for key in list(bpf_syscall.map_keys(fd, _KEY.size)):
            device, _ = _KEY.unpack(key)
            if device not in kept and device not in (OUTSIDE, NODE):
                bpf_syscall.map_delete(fd, key)
