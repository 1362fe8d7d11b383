# SPDX-License-Identifier: Apache-2.0
"""Devices that a load makes: the tunnel between nodes, for reassembly, and the route to Services."""

from policyc.runtime.devices import reassembly, tunnel
from policyc.runtime.errors import HostError
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.node_maps import ClusterNodes
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.services import route as service_route
from policyc.runtime.state import Attachment, Generation


class ServiceRoute(Resource):
    """The veth by which the host's stack reaches Services (`--service-cidr`)."""

    _made: tuple[Attachment, ...] = ()

    def prepare(self, work: Transaction) -> None:
        """Make the veth; its routes come with `start`."""
        routes = self.context.given.routes
        self._made = service_route.make(routes, self.context.attach_kind, work.undo)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The veth, if there is a route."""
        return self._made

    def start(self, attachment: Attachment, work: Transaction) -> None:
        """Route the ranges to the veth."""
        at = self.context
        by = (*at.devices.values(), *at.uplinks.values())
        service_route.start(at.pins, attachment.ifindex, at.given.routes, by, work.undo)

    def sweep(self, generation: Generation) -> None:
        """Routes of the load before go, and the veth where there are none."""
        service_route.settle(self.context.pins, self.context.given.routes)

    @staticmethod
    def remove(removal: Removal) -> None:
        """The veth goes, and its routes with it."""
        if removal.is_reachable:
            service_route.remove()


class Reassembly(Resource):
    """The namespace in which the kernel reassembles fragments that come before their first one."""

    _made: tuple[Attachment, ...] = ()

    def prepare(self, work: Transaction) -> None:
        """Make the namespace and its veth. A kernel that cannot is a warning."""
        at = self.context
        if not at.request.reassemble:
            return
        try:
            ifindex = reassembly.make(at.state.reassembly, work.undo)
        except HostError as error:
            at.warn(f"out-of-order fragments are dropped: {error}")
            return
        self._made = (Attachment(reassembly.NAME, ifindex, at.attach_kind, "reassembly"),)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The veth, if fragments are reassembled."""
        return self._made

    def start(self, attachment: Attachment, work: Transaction) -> None:
        """Bring the veth up."""
        reassembly.start(attachment.ifindex, work.undo)

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Tell the hooks where fragments go."""
        ifindex = next((each.ifindex for each in self._made), 0)
        reassembly.configure(self.context.pins, ifindex, work.undo)

    def sweep(self, generation: Generation) -> None:
        """Without the option the namespace goes."""
        if not self._made:
            reassembly.remove(self.context.state.reassembly)

    @staticmethod
    def remove(removal: Removal) -> None:
        """The namespace goes, and what is remembered of it."""
        if removal.is_reachable:
            reassembly.remove(removal.state.reassembly)
        reassembly.forget(removal.state.reassembly)


class Tunnel(Resource):
    """The VXLAN device by which packets of external clients go to other nodes."""

    _made: tuple[Attachment, ...] = ()

    def prepare(self, work: Transaction) -> None:
        """Make the device, if any packet is to go to another node."""
        at, nodes = self.context, self.others[ClusterNodes].nodes
        if at.uplinks and nodes.has_others():
            ifindex = tunnel.make(at.uplinks.values(), nodes.outer_family, work.undo)
            self._made = (Attachment(tunnel.NAME, ifindex, at.attach_kind, "tunnel"),)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The device, if there is one."""
        return self._made

    def start(self, attachment: Attachment, work: Transaction) -> None:
        """Bring the device up."""
        tunnel.start(attachment.ifindex, work.undo)

    def sweep(self, generation: Generation) -> None:
        """A device that no packet takes is removed before its hook."""
        if not self._made:
            tunnel.remove()

    @staticmethod
    def remove(removal: Removal) -> None:
        """Remove the device before its hook, which checks the senders."""
        if removal.is_reachable:
            tunnel.remove()
