# SPDX-License-Identifier: Apache-2.0
"""The program in netfilter's PREROUTING: no packet of a pod reaches the node past the pod's hook."""

from policyc.runtime.attach import leftovers, prerouting
from policyc.runtime.bundle.bundle import PREROUTING_OBJECT
from policyc.runtime.kernel import bpf_syscall, features
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.maps.hooked import HookedDevices
from policyc.runtime.state import Generation


class Prerouting(Resource):
    """Beside the hooks, which stamp packets. `attach.attach` names the devices in its map."""

    _loaded: Object | None = None
    _tag = ""

    def prepare(self, work: Transaction) -> None:
        """Have the kernel verify the program, and make its map."""
        at = self.context
        if PREROUTING_OBJECT not in at.given.bundle.digests or not features.NETFILTER.is_there():
            return
        pin = at.pins.map(HookedDevices.NAME)
        if not pin.exists():
            work.undo.by(pin.unlink, True)
        path = at.given.bundle.path / PREROUTING_OBJECT
        self._loaded = work.held.enter_context(Object(path, at.pins.maps))
        self._loaded.load()
        self._tag = bpf_syscall.prog_info(self._loaded.program_fd(prerouting.PROGRAM)).tag

    def commit(self, generation: Generation, work: Transaction) -> None:
        """The hooks stamp packets by now: what has no stamp is dropped."""
        if self._loaded:
            prerouting.attach(
                self.context.pins, self._loaded.program_fd(prerouting.PROGRAM), work.undo
            )

    @property
    def n_hooks(self) -> int:
        """Our hooks of each IP family, once it is attached."""
        return 1 if self._loaded else 0

    def sweep(self, generation: Generation) -> None:
        """The program before goes, and devices that are gone."""
        pins = self.context.pins
        if not HookedDevices.is_there(pins):
            return
        prerouting.keep_only(pins, self._tag)
        hooked = {at.ifindex for at in (*generation.attachments, *leftovers.kept(generation))}
        with HookedDevices(pins) as devices:
            gone = devices.ifindexes() - hooked
        for ifindex in gone:
            prerouting.forget(pins, ifindex)

    @staticmethod
    def remove(removal: Removal) -> None:
        """It goes before the hooks."""
        prerouting.keep_only(removal.pins, "")
