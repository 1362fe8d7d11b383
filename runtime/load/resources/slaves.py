# SPDX-License-Identifier: Apache-2.0
"""Pods on ipvlan slaves: programs at the slaves, at their parents, and at the node's own slaves."""

import errno

from policyc.runtime.attach import slaves
from policyc.runtime.attach.slaves import Attaching, Place
from policyc.runtime.endpoints import slaves as pod_slaves
from policyc.runtime.errors import HostError
from policyc.runtime.load.context import Removal
from policyc.runtime.load.resources.programs import Hooks
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.state import Generation

_GONE = (errno.ENOENT, errno.ENODEV)


class Slaves(Resource):
    """Beside the hooks, which the programs at slaves call by a map."""

    _at_node: tuple[Place, ...] = ()

    def check(self) -> None:
        """Bundle and kernel must be able to enforce policies there."""
        if self.context.slaves:
            slaves.require(self.context.given.bundle, self.context.attach_kind)

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Parents first: a slave drops what none of them has marked."""
        at, hooks = self.context, self.others[Hooks].programs
        if not at.slaves and not at.pins.map(slaves.MAP).exists():
            return
        attaching = Attaching(at.pins, at.given.bundle, work.undo, work.held)
        attaching.make_map()
        attaching.fill(hooks.programs, hooks.before)
        parents = sorted({each.parent for each in at.slaves.values()})
        of_node = pod_slaves.of_node(parents)
        for ifindex in parents:
            attaching.at_parent(ifindex)
        for ifindex in of_node.values():
            attaching.at_node(ifindex)
        for name, slave in at.slaves.items():
            try:
                attaching.at_slave(slave, at.slave_numbers[name])
            except OSError as error:
                if at.request.missing == "skip" and error.errno in _GONE:
                    at.warn(f"the device {name} vanished meanwhile: no packet passes there")
                    continue
                raise HostError(f"cannot attach to {name}: {error.strerror or error}") from error
        self._at_node = (
            *(Place("parent", each) for each in parents),
            *(Place("node", each) for each in of_node.values()),
        )
        of_pods = (
            Place("slave", each.ifindex, each.cookie, slaves.number_of(at.slave_numbers[name]))
            for name, each in at.slaves.items()
        )
        attaching.renew((*self._at_node, *of_pods))

    def sweep(self, generation: Generation) -> None:
        """Programs go from devices that are gone, and from parents without slaves."""
        slaves.keep_only(self.context.pins, self._at_node)

    @staticmethod
    def remove(removal: Removal) -> None:
        """All go."""
        slaves.remove(removal.pins)
