# SPDX-License-Identifier: Apache-2.0
"""What a generation is made of: its folders and record, the hooks, and the policy program."""

import struct

from policyc.runtime.attach import hook_programs, network, socket_hooks
from policyc.runtime.attach.bypass import DENIED
from policyc.runtime.attach.hook_programs import HookPrograms
from policyc.runtime.attach.program_slot import FROM_TUNNEL, TUNNEL_HOOK
from policyc.runtime.bundle.bundle import POLICY_OBJECT
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall, clock, pins
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.maps.settings import AnswerMac, Clock
from policyc.runtime.policy import revoked
from policyc.runtime.state import Generation

POLICY_PROGRAM = "pc_policy_run"
_CONNECT_EPOCH = "pc_conn_epoch"


class Folders(Resource):
    """Pins and the state directory: first to come, last to go."""

    def check(self) -> None:
        """The hooks in use and this load must share every map."""
        hook_programs.require_shared_maps(self.context.pins)

    def prepare(self, work: Transaction) -> None:
        """Folders, without the remains of a load that died before its switch."""
        where, state, undo = self.context.pins, self.context.state, work.undo
        if not where.is_there():
            undo.by(where.remove)
            state.forget_network()  # of pins that are no more
        if state.network() is None:
            undo.by(state.forget_network)
            state.set_network(network.here())
        where.make()
        for epoch, folder in where.generations().items():
            if epoch != self.context.before_word.epoch:
                pins.remove_folder(folder)
        socket_hooks.keep_only(where, self.context.before_word.epoch)

    def sweep(self, generation: Generation) -> None:
        """Records of earlier generations go."""
        self.context.state.keep_only(generation.epoch)

    @staticmethod
    def remove(removal: Removal) -> None:
        """Every pin and the state go."""
        removal.pins.remove()
        removal.state.clear()


class Record(Resource):
    """The record by which later commands know what this generation is."""

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Write it, with the devices that hooks are attached to by now."""
        self.context.state.write(generation)
        work.undo.by(self.context.state.remove, generation.epoch)


class Hooks(Resource):
    """The programs at devices: those that run, or the bundle's where they are other ones."""

    programs: HookPrograms

    def prepare(self, work: Transaction) -> None:
        """Have the kernel verify and pin them, if they are other ones."""
        at = self.context
        digest = at.before.hooks_digest if at.before else ""
        opened = hook_programs.opened(at.pins, at.given.bundle, digest, work.undo)
        self.programs = work.held.enter_context(opened)

    def write(self, generation: Generation, work: Transaction) -> None:
        """The uplinks' hook calls that of the VXLAN device. Hooks of earlier releases have no slot."""
        where, tunnel = self.context.pins, self.programs.programs[TUNNEL_HOOK]
        is_right = FROM_TUNNEL.program(where) == bpf_syscall.prog_info(tunnel).id
        if FROM_TUNNEL.is_there(where) and not is_right:
            FROM_TUNNEL.replace(where, tunnel, work.undo, work.held)

    def sweep(self, generation: Generation) -> None:
        """The programs before go."""
        hook_programs.forget_replaced(self.context.pins)


class PolicyProgram(Resource):
    """The policy program of the generation, in its slot of `pc_policy`."""

    program: Object

    def prepare(self, work: Transaction) -> None:
        """Have the kernel verify it."""
        at = self.context
        path = at.given.bundle.path / POLICY_OBJECT
        self.program = work.held.enter_context(Object(path, at.pins.maps))
        socket_hooks.forget_new_maps(at.pins, work.undo)  # hooks at connect() share some
        self.program.leave_out({*socket_hooks.CONNECT_HOOKS, DENIED} - self._at_sockets)
        if any(not self.program.has_program(name) for name in self._at_sockets):
            option = "--bypass" if at.request.bypass else "--connect-deny"
            raise InputError(
                f"{at.given.bundle.path}: the bundle lacks the programs of {option}",
                "compile it again with --socket-programs",
            )
        self.program.load()

    @property
    def _at_sockets(self) -> set[str]:
        """The programs at sockets that the load asks for."""
        request = self.context.request
        wanted = {*socket_hooks.CONNECT_HOOKS} if request.connect_deny else set()
        return wanted | ({DENIED} if request.bypass else set())

    @property
    def refusing(self) -> dict[str, int]:
        """The programs that refuse a connect() which policy denies, if the load asks for them."""
        names = socket_hooks.CONNECT_HOOKS if self.context.request.connect_deny else ()
        return {name: self.program.program_fd(name) for name in names}

    def write(self, generation: Generation, work: Transaction) -> None:
        """Pin it with its maps, and fill its slot.

        No packet reaches the slot before the switch. Exception: the first load takes the slot that the
        zeroed word names, so its hooks reach the program as soon as they are attached.
        """
        self._pin(generation.epoch, work)
        if self.context.request.connect_deny:
            epoch = struct.pack("=I", generation.epoch)
            bpf_syscall.map_update(self.program.map_fd(_CONNECT_EPOCH), epoch, PRESENT)
        self._fill_slot(generation.slot, work)
        with Clock(self.context.pins) as rate:
            rate.set_rate(clock.ticks_per_second())
        with AnswerMac(self.context.pins) as mac:
            mac.draw()
        if self.context.request.resets:
            resets = self.others[Hooks].programs.programs[revoked.PROGRAM]
            revoked.reset(self.program.map_fd(revoked.MAP), resets)

    def _pin(self, epoch: int, work: Transaction) -> None:
        """For `status`, and so that the maps can be looked at."""
        folder = self.context.pins.generation(epoch)
        work.undo.by(pins.remove_folder, folder)
        folder.mkdir()
        for name, fd in self.program.own_maps():
            bpf_syscall.obj_pin(fd, folder / name)
        bpf_syscall.obj_pin(self.program.program_fd(POLICY_PROGRAM), folder / POLICY_PROGRAM)
        if self.context.request.bypass:
            bpf_syscall.obj_pin(self.program.program_fd(DENIED), folder / DENIED)

    def _fill_slot(self, slot: int, work: Transaction) -> None:
        program = struct.pack("=I", self.program.program_fd(POLICY_PROGRAM))
        work.undo.by(self._empty_slot, slot)
        with bpf_syscall.obj_get(self.context.pins.map("pc_policy")) as fd:
            bpf_syscall.map_update(fd, struct.pack("=I", slot), program)

    def _empty_slot(self, slot: int) -> None:
        with bpf_syscall.obj_get(self.context.pins.map("pc_policy")) as fd:
            bpf_syscall.map_delete(fd, struct.pack("=I", slot))

    def sweep(self, generation: Generation) -> None:
        """The slot before is emptied, and the pins of earlier generations go."""
        if self.context.before_word.epoch:
            self._empty_slot(self.context.before_word.slot)
        for epoch, folder in self.context.pins.generations().items():
            if epoch != generation.epoch:
                pins.remove_folder(folder)
