# SPDX-License-Identifier: Apache-2.0
"""Connections that the policy in force denies: the program that resets them, and how answers are known.

The policy program calls the third program of `pc_policy`, if there is one, for a packet in the middle
of a connection that it denies (runtime/datapath/policy_run.h). An answer that goes out by a pod's device
has a source MAC that no pod knows (runtime/datapath/answerable.h).
"""

import os
import struct
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime.errors import HostError
from policyc.runtime.pins import Pins
from policyc.runtime.undo import Undo

PROGRAM = "pc_resets"
SLOT = 2
"""PC_RESETS_SLOT of runtime/datapath/generation.h."""
_KEY = struct.pack("=I", SLOT)
_MAC_BYTES = 6


def start(pins: Pins, program: int, before: int | None, undo: Undo) -> None:
    """Connections are reset from now on. `before` is the descriptor of the program that did so until
    now, and does so again if the load fails.
    """
    if is_on(pins):
        undo.by(_put, pins, program if before is None else before)
    else:
        undo.by(stop, pins)
    _put(pins, program)


def stop(pins: Pins) -> None:
    """No connection is reset any more."""
    with bpf_syscall.obj_get(pins.map("pc_policy")) as fd:
        bpf_syscall.map_delete(fd, _KEY)


def program_id(pins: Pins) -> int:
    """The kernel's id of the program that resets connections; 0: there is none."""
    with bpf_syscall.obj_get(pins.map("pc_policy")) as fd:
        value = bpf_syscall.map_lookup(fd, _KEY, 4)
    return struct.unpack("=I", value)[0] if value else 0


def is_on(pins: Pins) -> bool:
    """Whether connections are reset."""
    return program_id(pins) != 0


def draw_answer_mac(pin: Path) -> None:
    """Draw another source MAC for answers, which hooks of an older bundle do not have."""
    if not pin.exists():
        raise HostError(f"the bundle's hooks have no map `{pin.name}`", "compile the bundle again")
    with bpf_syscall.obj_get(pin) as fd:
        value = os.urandom(_MAC_BYTES) + struct.pack("=H", 1)
        bpf_syscall.map_update(fd, bytes(4), value)


def _put(pins: Pins, program: int) -> None:
    with bpf_syscall.obj_get(pins.map("pc_policy")) as fd:
        bpf_syscall.map_update(fd, _KEY, struct.pack("=I", program))
