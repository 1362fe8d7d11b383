# SPDX-License-Identifier: Apache-2.0
"""Resets connections that the active policy denies.

For a packet in the middle of a connection that it denies, the policy program tail-calls the program in
its map `pc_on_revoked`, if there is one (runtime/datapath/policy_run.h). Each generation has its own
map, so that choice changes with the policy, in the same store. An answer that leaves by a pod's device
has a source MAC that no pod knows (runtime/datapath/answerable.h).
"""

import struct
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall

PROGRAM = "pc_resets"
MAP = "pc_on_revoked"
_KEY = bytes(4)


def reset(on_revoked: int, program: int) -> None:
    """Make a generation reset revoked connections, from its activation on.

    The arguments are the descriptors of its map, and of the program that resets.
    """
    bpf_syscall.map_update(on_revoked, _KEY, struct.pack("=I", program))


def program_id(generation: Path) -> int:
    """The kernel's id of the program with which a generation resets connections; 0: none.

    `generation` is the folder of its pins.
    """
    pin = generation / MAP
    if not pin.exists():
        return 0
    with bpf_syscall.obj_get(pin) as fd:
        value = bpf_syscall.map_lookup(fd, _KEY, 4)
    return struct.unpack("=I", value)[0] if value else 0
