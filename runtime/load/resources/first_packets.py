# SPDX-License-Identifier: Apache-2.0
"""First packets of connections of pods on the fast path (datapath/first_packet.h)."""

from dataclasses import replace

from policyc.runtime.attach.other_programs import OtherPrograms
from policyc.runtime.attach.program_slot import FIRST, FIRST_HOOK
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.node_maps import ClusterNodes
from policyc.runtime.load.resources.prerouting import Prerouting
from policyc.runtime.load.resources.programs import Hooks
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.maps.settings import FirstPacketSettings
from policyc.runtime.state import Attachment, Generation


class FirstPackets(Resource):
    """The program that forwards them. Hooks of earlier releases have none."""

    def allowed(self, generation: Generation) -> Generation:
        """With what first packets may use the fast path. The devices have their hooks by now."""
        others = OtherPrograms(self.context.pins)
        if not FIRST.is_there(self.context.pins) or not self._is_wanted(others, generation):
            return generation
        by_uplinks = self._may_leave(others, generation)
        return replace(generation, first_packets=True, first_packets_by_uplinks=by_uplinks)

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Let the policy program call it, or not."""
        at = self.context
        if not FIRST.is_there(at.pins):
            return
        n_hooks, by_uplinks = self.others[Prerouting].n_hooks, generation.first_packets_by_uplinks
        with FirstPacketSettings(at.pins) as settings:
            settings.write(n_hooks, by_uplinks, work.undo)
        if generation.first_packets:
            program = self.others[Hooks].programs.programs[FIRST_HOOK]
            FIRST.replace(at.pins, program, work.undo, work.held)
        else:
            FIRST.empty(at.pins, work.undo, work.held)

    @staticmethod
    def remove(removal: Removal) -> None:
        """It goes before our hook in netfilter, which it does not count as another one's."""
        FIRST.clear(removal.pins)

    def _is_wanted(self, others: OtherPrograms, generation: Generation) -> bool:
        """Unless no pod uses the fast path, or other software looks at packets at their devices."""
        fast = self.context.fast_path_devices
        pods = [
            each for each in generation.attachments if each.role == "pod" and each.ifindex in fast
        ]
        return bool(pods) and self._are_alone(others, pods, "first packets take the stack path")

    def _may_leave(self, others: OtherPrograms, generation: Generation) -> bool:
        """Whether an uplink has the fast path, and no other software sees what comes in there."""
        fast = self.others[ClusterNodes].fast_path
        uplinks = [each for each in generation.attachments if each.ifindex in fast]
        then = "first packets to and from other nodes take the stack path"
        return bool(uplinks) and self._are_alone(others, uplinks, then)

    def _are_alone(self, others: OtherPrograms, devices: list[Attachment], otherwise: str) -> bool:
        if found := others.at(devices):
            self.context.note(f"{found}, so {otherwise}")
        return not found
