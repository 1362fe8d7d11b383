# SPDX-License-Identifier: Apache-2.0
"""A map with one place for a program, which a hook calls there (a tail call).

    FROM_TUNNEL.replace(pins, program, undo, held)
    FROM_TUNNEL.program(pins)          its id

The hook goes on by itself where the place is empty.
"""

import struct
from contextlib import ExitStack
from dataclasses import dataclass

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.undo import Undo

_FIRST = bytes(4)


@dataclass(frozen=True, slots=True)
class ProgramSlot:
    """The map of this name."""

    name: str

    def is_there(self, pins: Pins) -> bool:
        """Whether there is such a map."""
        return pins.map(self.name).exists()

    def program(self, pins: Pins) -> int:
        """The id of the program there; 0: none."""
        if not self.is_there(pins):
            return 0
        with bpf_syscall.obj_get(pins.map(self.name)) as fd:
            return int.from_bytes(bpf_syscall.map_lookup(fd, _FIRST, 4) or bytes(4), "little")

    def replace(self, pins: Pins, program: int, undo: Undo, held: ExitStack) -> None:
        """Put the program there. `held` keeps the one before, which undoing puts back."""
        if before := self.program(pins):
            undo.by(self._put, pins, held.enter_context(bpf_syscall.prog_by_id(before)))
        else:
            undo.by(self.clear, pins)
        self._put(pins, program)

    def empty(self, pins: Pins, undo: Undo, held: ExitStack) -> None:
        """Take the program away. `held` keeps it, and undoing puts it back."""
        if before := self.program(pins):
            undo.by(self._put, pins, held.enter_context(bpf_syscall.prog_by_id(before)))
            self.clear(pins)

    def clear(self, pins: Pins) -> None:
        """No program is there any more."""
        if self.is_there(pins):
            with bpf_syscall.obj_get(pins.map(self.name)) as fd:
                bpf_syscall.map_delete(fd, _FIRST)

    def _put(self, pins: Pins, program: int) -> None:
        with bpf_syscall.obj_get(pins.map(self.name)) as fd:
            bpf_syscall.map_update(fd, _FIRST, struct.pack("=I", program))


FROM_TUNNEL = ProgramSlot("pc_tunnel_slot")
"""By which an uplink's hook calls that of the VXLAN device (datapath/tunnel_unwrap.h)."""
TUNNEL_HOOK = "pc_from_tunnel"
"""The program there."""
FIRST = ProgramSlot("pc_first_slot")
"""By which the policy program calls `FIRST_HOOK` (datapath/first_slot.h)."""
FIRST_HOOK = "pc_first"
"""Forwards the first packet of a connection of a pod."""
