# SPDX-License-Identifier: Apache-2.0
"""Maps about the node and its cluster: failsafe ports, SNAT, the other nodes."""

from policyc.runtime import failsafes, switch
from policyc.runtime.bundle.address_value import Address
from policyc.runtime.devices import host_nat, route_mtu, route_rules
from policyc.runtime.endpoints import forwarding
from policyc.runtime.errors import InputError
from policyc.runtime.failsafes import Failsafes
from policyc.runtime.load.cluster_nodes import Nodes
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.snat import reserved_ports, snat
from policyc.runtime.state import Generation


class FailsafePorts(Resource):
    """Ports of a node under host policy that no policy closes."""

    def write(self, generation: Generation, work: Transaction) -> None:
        """Beside those of the generation before, by epoch."""
        at = self.context
        wanted = at.given.host_policy.failsafes if at.given.host_policy else Failsafes()
        failsafes.write(at.pins, wanted, at.word.epoch, at.before_word.epoch, work.undo)

    def sweep(self, generation: Generation) -> None:
        """Those of the generation before go."""
        failsafes.keep_only(self.context.pins, generation.epoch)


class GracePeriod(Resource):
    """An RCU grace period after the switch.

    Resources that sweep after this one remove what only the word before leads to. Those that sweep
    earlier remove keys of shared maps: a hook that still runs by the word before misses them, as one of
    the new generation does. Services wait for a grace period of their own.
    """

    def sweep(self, generation: Generation) -> None:
        """Wait until every hook that read the word before has ended."""
        switch.wait_for_readers()


class Snat(Resource):
    """SNAT of pods at uplinks: the ports that no socket may bind, and the maps of the hooks."""

    def check(self) -> None:
        """Tell of uplinks without an address; refuse ports that Services of the node have."""
        at = self.context
        if not at.ports:
            return
        at.snat.note_gaps(at.note)
        if at.request.services is None and at.before_word.epoch:
            self._refuse_node_ports()
        reserved_ports.require_free(at.state, at.ports)

    def _refuse_node_ports(self) -> None:
        """`InputError` where Services of an earlier load have one of the ports."""
        from policyc.runtime.services import tables as service_tables

        if taken := service_tables.node_ports(self.context.pins, self.context.ports):
            raise InputError(
                f"--masquerade-ports {reserved_ports.shown(self.context.ports)}: "
                f"{taken[0]} is the node port of a Service",
                "choose others with --masquerade-ports",
            )

    def prepare(self, work: Transaction) -> None:
        """Reserve the ports (net.ipv4.ip_local_reserved_ports)."""
        if self.context.ports:
            reserved_ports.reserve(self.context.state, self.context.ports, work.undo)

    def write(self, generation: Generation, work: Transaction) -> None:
        """The node's addresses, and what keeps its own."""
        self.context.snat.write(work.undo)

    def sweep(self, generation: Generation) -> None:
        """What only the load before asked for goes, its reserved ports too."""
        at = self.context
        at.snat.forget_others()
        reserved_ports.settle(at.state, at.ports, at.warn)

    @staticmethod
    def remove(removal: Removal) -> None:
        """The reserved ports are given back; those of a network namespace that is gone are forgotten."""
        if removal.is_reachable:
            reserved_ports.settle(removal.state, range(0), removal.warn)
        else:
            removal.state.set_reserved(())


class ClusterNodes(Resource):
    """The nodes of the cluster, and by which devices packets of external clients go."""

    nodes: Nodes
    fast_path: frozenset[int]
    """The uplinks at which it is allowed."""

    def prepare(self, work: Transaction) -> None:
        """Number the nodes: those that are known keep their number."""
        self.nodes = Nodes(self.context.pins, self.context.given.file)

    def write(self, generation: Generation, work: Transaction) -> None:
        """The nodes, and the uplinks at which the fast path is allowed."""
        at = self.context
        tunnels = (each.ifindex for each in generation.attachments if each.role == "tunnel")
        self.nodes.write(work.undo)
        unenslaved = forwarding.without_master(at.uplinks) if at.fast_path_devices else {}
        wide = route_mtu.none_narrower(unenslaved, at.note)
        fast_path, marks = route_rules.told_of(wide, at.note)
        self.fast_path = frozenset(fast_path)
        own4 = {each: self._own4_at(each) for each in at.uplinks.values()}
        if any(own4.values()):  # encapsulated packets are routed by hooks, too
            marks = route_rules.read()[0]
        self.nodes.configure(
            tunnel=next(tunnels, 0),
            uplinks=own4,
            fast_path=fast_path,
            outside=at.request.outside,
            marks=marks,
            host_nat=host_nat.told_of(fast_path, at.note),
            undo=work.undo,
        )

    def _own4_at(self, uplink: int) -> Address | None:
        """The node's IPv4 address at an uplink; None where the hooks encapsulate nothing."""
        if not self.nodes.has_others() or self.context.request.forwarding == "stack":
            return None
        return snat.listed_addresses(uplink, self.nodes.own, "the tunnel between nodes").get(4)

    def sweep(self, generation: Generation) -> None:
        """Nodes that are no more go."""
        self.nodes.forget_others()
