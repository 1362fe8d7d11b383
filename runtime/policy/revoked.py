# SPDX-License-Identifier: Apache-2.0
"""Connections that the policy in force denies: the program that resets them, and how answers are known.

The policy program goes on as the program in its map `pc_on_revoked`, if there is one, for a packet in
the middle of a connection that it denies (runtime/datapath/policy_run.h). Each generation has a map of
its own, so the choice comes into force with the policy, by the same store. An answer that goes out by a
pod's device has a source MAC that no pod knows (runtime/datapath/answerable.h).
"""

import os
import struct
from pathlib import Path

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall

PROGRAM = "pc_resets"
MAP = "pc_on_revoked"
_KEY = bytes(4)
_MAC_BYTES = 6


def reset(on_revoked: int, program: int) -> None:
    """A generation resets connections once it is in force: the descriptors of its map, and of the
    program that does so.
    """
    bpf_syscall.map_update(on_revoked, _KEY, struct.pack("=I", program))


def program_id(generation: Path) -> int:
    """The kernel's id of the program by which a generation resets connections; 0: there is none.

    `generation` is the folder of its pins.
    """
    pin = generation / MAP
    if not pin.exists():
        return 0
    with bpf_syscall.obj_get(pin) as fd:
        value = bpf_syscall.map_lookup(fd, _KEY, 4)
    return struct.unpack("=I", value)[0] if value else 0


def draw_answer_mac(pin: Path) -> None:
    """Draw another source MAC for answers, which hooks of an older bundle do not have."""
    if not pin.exists():
        raise HostError(f"the bundle's hooks have no map `{pin.name}`", "compile the bundle again")
    with bpf_syscall.obj_get(pin) as fd:
        value = os.urandom(_MAC_BYTES) + struct.pack("=H", 1)
        bpf_syscall.map_update(fd, bytes(4), value)
