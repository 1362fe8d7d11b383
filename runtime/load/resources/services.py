# SPDX-License-Identifier: Apache-2.0
"""Services in the place of those that are loaded, if the load gives any."""

import ipaddress
from typing import TYPE_CHECKING

from policyc.runtime.attach import gone_sockets
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.state import Generation
from policyc.runtime.switch import Word

if TYPE_CHECKING:  # a load without Services imports nothing of theirs
    from policyc.runtime.services.all_objects import Served
    from policyc.runtime.services.tables import Filled


class Services(Resource):
    """Filled beside the tables in force; the switch puts both generation and Services in force."""

    _served: "Served | None" = None
    _filled: "Filled | None" = None

    def check(self) -> None:
        """Read the objects; with `strict_services` a wrong one is an `InputError`."""
        at, file = self.context, self.context.given.file
        if at.request.services is None:
            return
        from policyc.runtime.services.all_objects import serve
        from policyc.runtime.services.services import OwnNode

        own = OwnNode(file.node, file.own_addresses, file.own_zone, at.ports, file.pods)
        ranges = tuple(map(ipaddress.ip_network, at.external_cidrs))
        strict = at.request.strict_services
        self._served = serve(at.request.services, own, ranges, at.note, at.warn, strict)

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Fill the buffer that no hook reads."""
        if self._served is None:
            return
        from policyc.runtime.services import tables

        at, frontends = self.context, self._served.frontends
        self._filled = tables.fill(at.pins, at.word, frontends, generation.nodes, work.undo)

    @property
    def word(self) -> Word:
        """What the switch stores."""
        return self._filled.word if self._filled else self.context.word

    def sweep(self, generation: Generation) -> None:
        """Tables of the Services before are emptied."""
        at = self.context
        if self._filled:
            self._filled.finish(at.pins)
            gone_sockets.end(at.pins, generation.epoch, at.warn)
        if self._served:
            at.state.set_left_out(self._served.left_out)
        elif at.before and at.before.external_cidrs != at.external_cidrs and at.word.services:
            at.note(
                "--external-cidr: the loaded Services stay unchanged until `policyc node services`"
            )
