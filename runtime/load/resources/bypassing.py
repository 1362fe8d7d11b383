# SPDX-License-Identifier: Apache-2.0
"""The bypass of the stack, for TCP data between pods of this node."""

from policyc.runtime import switch
from policyc.runtime.attach import bypass, denied_connections, socket_hooks
from policyc.runtime.attach.socket_listing import BYPASSED
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.maps.bypass import BypassPods, BypassRules, BypassSockets
from policyc.runtime.state import Generation
from policyc.runtime.switch import Word


class Bypassing(Resource):
    """The programs of the bypass, and what they must know of pods and rules."""

    _loaded: Object | None = None

    def check(self) -> None:
        """The bundle has to have the programs."""
        if self.context.request.bypass:
            bypass.require(self.context.given.bundle)

    def prepare(self, work: Transaction) -> None:
        """Have the kernel verify them."""
        at = self.context
        if at.request.bypass:
            socket_hooks.forget_new_maps(at.pins, work.undo)
            self._loaded = work.held.enter_context(bypass.load(at.pins, at.given.bundle))

    def write(self, generation: Generation, work: Transaction) -> None:
        """Tell which pods may be bypassed, and which rules' connections stay with the stack."""
        if not self._loaded:
            return
        pin = BYPASSED.pin(self.context.pins.generation(generation.epoch))
        if not pin.exists():  # this may run twice
            bpf_syscall.obj_pin(self._loaded.program_fd(BYPASSED.name), pin)
        with BypassRules(self.context.pins) as rules:
            rules.add(generation.epoch, bypass.rules_left_alone(generation), work.undo)
        with BypassPods(self.context.pins) as pods:
            pods.add(generation.epoch, bypass.devices_of(generation), work.undo)

    def commit(self, generation: Generation, work: Transaction) -> None:
        """From now on connections are added."""
        if self._loaded:
            bypass.attach(self.context.pins, self._loaded, work.undo, work.held)

    def sweep(self, generation: Generation) -> None:
        """Connections that the policy denies end; what only the generation before needed goes."""
        pins = self.context.pins
        if self._loaded:
            denied_connections.end(pins, generation.epoch, self.context.warn)
        else:
            bypass.SLOT.clear(pins)
        if BypassPods.is_there(pins):
            with BypassPods(pins) as pods, BypassRules(pins) as rules:
                pods.keep_only(generation.epoch)
                rules.keep_only(generation.epoch)

    @staticmethod
    def remove(removal: Removal) -> None:
        """No message is bypassed any more: the programs read the word."""
        bypass.SLOT.clear(removal.pins)
        if BypassSockets.is_there(removal.pins):
            switch.store(removal.pins.map("pc_state"), Word(0, 0))
