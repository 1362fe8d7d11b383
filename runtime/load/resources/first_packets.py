# SPDX-License-Identifier: Apache-2.0
"""First packets of connections between pods of this node, on the fast path (datapath/first_packet.h)."""

from policyc.runtime.attach import other_programs
from policyc.runtime.attach.program_slot import FIRST, FIRST_HOOK
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.prerouting import Prerouting
from policyc.runtime.load.resources.programs import Hooks
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.maps.settings import NetfilterHooks
from policyc.runtime.state import Generation


class FirstPackets(Resource):
    """The program that forwards them. Hooks of earlier releases have none."""

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Let the policy program call it, or not."""
        at = self.context
        if not FIRST.is_there(at.pins):
            return
        with NetfilterHooks(at.pins) as known:
            known.set_hooks(self.others[Prerouting].n_hooks, work.undo)
        if self._is_wanted(generation):
            program = self.others[Hooks].programs.programs[FIRST_HOOK]
            FIRST.replace(at.pins, program, work.undo, work.held)
        else:
            FIRST.empty(at.pins, work.undo, work.held)

    @staticmethod
    def remove(removal: Removal) -> None:
        """It goes before our hook in netfilter, which it does not count as another one's."""
        FIRST.clear(removal.pins)

    def _is_wanted(self, generation: Generation) -> bool:
        """Unless no pod uses the fast path, or other software looks at packets at their devices."""
        at = self.context
        pods = [
            each
            for each in generation.attachments
            if each.role == "pod" and each.ifindex in at.fast_path_devices
        ]
        if not pods:
            return False
        others = other_programs.what_is_there(at.pins, pods)
        if others:
            at.note(f"{others}, so first packets between pods take the stack path")
        return not others
