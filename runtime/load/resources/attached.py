# SPDX-License-Identifier: Apache-2.0
"""What is attached: hooks at devices, socket hooks at a cgroup, XDP at uplinks."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from policyc.runtime.attach import (
    attach,
    leftovers,
    netkit,
    pod_sockets,
    socket_hooks,
    xdp,
)
from policyc.runtime.bundle.address_value import Address
from policyc.runtime.counts import counted
from policyc.runtime.devices import own_device
from policyc.runtime.endpoints import pod_devices
from policyc.runtime.endpoints.local_devices import without_missing
from policyc.runtime.errors import HostError
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.programs import Hooks, PolicyProgram
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.state import Attachment, Generation

_NAMED = 5  # pods that a message names


class DeviceHooks(Resource):
    """Hooks at the devices of pods, at uplinks, and at devices that the load makes.

    Asks the kernel and not the record, which may be lost. A load that is taken back detaches its own
    hooks, never those of earlier loads.
    """

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The devices of pods, then the uplinks."""
        at = self.context
        return (
            *(Attachment(name, to, at.attach_kind) for name, to in at.devices.items()),
            *(Attachment(name, to, at.attach_kind, "uplink") for name, to in at.uplinks.items()),
        )

    def attach(
        self, generation: Generation, owners: Mapping[str, Resource], work: Transaction
    ) -> Generation:
        """Attach where nothing is yet. The generation without the devices that went meanwhile.

        `owners` are the resources whose devices the load made, by role.
        """
        for attachment in generation.attachments:
            try:
                self._attach_to(attachment, work)
            except attach.GoneError:
                if self.context.request.missing == "refuse" or attachment.role != "pod":
                    raise
                del self.context.devices[attachment.interface]
            if attachment.role in owners:
                owners[attachment.role].start(attachment, work)
        return without_missing(generation, self.context.pod_devices, self.context.warn)

    def attach_to_others(self, generation: Generation, work: Transaction) -> Generation:
        """Attach to devices without an endpoint, until no new ones appear. The generation with them."""
        for attachment in leftovers.kept(generation):
            self._attach_if_there(attachment, work)
        while news := leftovers.unhooked(generation, self.context.attach_kind):
            for attachment in news:
                self._attach_if_there(attachment, work)
            generation = replace(generation, former=(*generation.former, *news))
        return generation

    def _attach_if_there(self, attachment: Attachment, work: Transaction) -> None:
        try:
            self._attach_to(attachment, work)
        except HostError:
            if attach.is_there(attachment):
                raise

    def _attach_to(self, attachment: Attachment, work: Transaction) -> None:
        """Attach; the undo restores what the device had: no hooks, or those of the previous load."""
        where, hooks = self.context.pins, self.others[Hooks].programs
        if not attach.is_whole(where, attachment):
            if attachment.role in own_device.ROLES and not attach.is_any(where, attachment):
                own_device.stop(attachment.ifindex, f"the device {attachment.interface}")
            work.undo.by(attach.detach, where, attachment)
        elif not hooks.are_new:
            return
        elif hooks.before:
            work.undo.by(attach.attach, where, attachment, hooks.before)
        attach.attach(where, attachment, hooks.programs)

    def sweep(self, generation: Generation) -> None:
        """Hooks at devices that are none of this generation go."""
        leftovers.sweep(self.context.pins, generation)

    @staticmethod
    def remove(removal: Removal) -> None:
        """Every hook goes, of whatever load."""
        for attachment in removal.others:
            attach.detach(removal.pins, attachment)
        leftovers.drop_links(removal.pins)


class Netkit(Resource):
    """The program of both sides of netkit devices, beside the hooks."""

    _devices: Mapping[str, int] = MappingProxyType({})

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Attach it to the pods' devices of that kind, which have their hooks by now."""
        at, hooks = self.context, self.others[Hooks].programs
        self._devices = pod_devices.netkit_devices(at.devices)
        program, before = hooks.programs[netkit.PROGRAM], hooks.before.get(netkit.PROGRAM)
        netkit.attach(at.pins, self._devices, program, before, work.undo)

    def sweep(self, generation: Generation) -> None:
        """It goes from other devices."""
        netkit.keep_only(self.context.pins, self._devices.values())

    @staticmethod
    def remove(removal: Removal) -> None:
        """It goes from every device."""
        netkit.keep_only(removal.pins, ())


class SocketHooks(Resource):
    """Hooks of a cgroup, by which processes of the node, and of its pods, reach Services."""

    _pods: Mapping[int, tuple[Address, ...]] = MappingProxyType({})

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Attach them under the new epoch, beside those of the generation before."""
        at, cgroup = self.context, self.context.request.cgroup
        if cgroup is None:
            return
        if at.request.socket_services == "pods":
            self._pods = self._found(generation)
        own = at.given.file.own_addresses
        socket_hooks.attach(
            *(at.pins, at.word.epoch, at.given.bundle, cgroup),
            *(own, self._pods, self.others[PolicyProgram].refusing, work.undo),
        )

    def _found(self, generation: Generation) -> Mapping[int, tuple[Address, ...]]:
        """The pods that are served; the others are noted, which the hooks at their devices serve."""
        pods = pod_sockets.found(generation.endpoints)
        if pods.others:
            named = ", ".join(pods.others[:_NAMED]) + (
                " and others" if pods.others[_NAMED:] else ""
            )
            self.context.note(
                f"--socket-services pods: the network namespace of {counted(len(pods.others), 'pod')} "
                f"is not found, or is that of two pods ({named}); the hooks at their devices "
                f"translate Services"
            )
        return pods.served

    def sweep(self, generation: Generation) -> None:
        """Those of earlier epochs go, and pods that are not served any more."""
        socket_hooks.keep_only(self.context.pins, generation.epoch)
        socket_hooks.keep_only_pods(self.context.pins, self._pods)

    @staticmethod
    def remove(removal: Removal) -> None:
        """All go."""
        socket_hooks.keep_only(removal.pins, epoch=0)


class Xdp(Resource):
    """XDP at uplinks, by which known packets go to other nodes."""

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Attach it, or replace the program before."""
        at = self.context
        xdp.attach(
            *(at.pins, at.given.bundle, at.uplinks, at.given.file.own_addresses),
            *(at.request.xdp_mode, at.note, work.held, work.undo),
        )

    def sweep(self, generation: Generation) -> None:
        """It goes from devices that are no uplinks any more."""
        wanted = self.context.uplinks.values() if self.context.request.xdp_mode else ()
        xdp.keep_only(self.context.pins, wanted)

    @staticmethod
    def remove(removal: Removal) -> None:
        """It goes from every device."""
        xdp.keep_only(removal.pins, ())
