# SPDX-License-Identifier: Apache-2.0
"""Replaces all Services of a node that has a bundle loaded."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from policyc.runtime import (
    command_lock,
    switch,
)
from policyc.runtime.attach import gone_sockets, network
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.command_lock import Patience
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import host
from policyc.runtime.kernel.pins import (
    DEFAULT_ROOT,
    Pins,
)
from policyc.runtime.services import tables
from policyc.runtime.services.all_objects import serve
from policyc.runtime.services.claims import Ranges
from policyc.runtime.services.services import (
    Frontend,
    OwnNode,
)
from policyc.runtime.services.tables import Filled
from policyc.runtime.services.wanted_tables import TableFullError
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import Generation, StateDir, Warn, unheard
from policyc.runtime.switch import Word
from policyc.runtime.undo import Undo


def update_services(
    objects: Sequence[JsonValue],
    *,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    external: Ranges | None = None,
    patience: Patience = command_lock.NONE,
    note: Warn = unheard,
    warn: Warn = unheard,
    strict: bool = False,
) -> tuple[Frontend, ...]:
    """Replace the node's Services by these, in one step. A failure changes nothing.

    `external` are the allowed ranges of externalIPs from now on; None: the previous ones. `note` is told
    which Services the node cannot serve, and `warn` which ones are left out. `strict`: a malformed
    object is an `InputError`.
    """
    with loaded(bpffs, state_root, patience) as node:
        ranges = node.external if external is None else external
        served = serve(objects, node.own, ranges, note, warn, strict)
        with Undo() as undo:
            if ranges != node.external:
                undo.by(node.state.write, node.generation)
                node.remember_external(ranges)
            undo.by(node.state.set_left_out, node.state.left_out())
            node.state.set_left_out(served.left_out)
            node.replace(served.frontends)
            undo.forget()
        node.end_gone_sockets(warn)
    return served.frontends


@dataclass(frozen=True, slots=True)
class LoadedNode:
    """The loaded node, locked against other commands."""

    pins: Pins
    word: Word
    generation: Generation
    state: StateDir

    @property
    def own(self) -> OwnNode:
        """The node for which Services are read."""
        addresses = tuple(map(ipaddress.ip_address, self.generation.node_addresses))
        of = self.generation
        pods = frozenset(
            ipaddress.ip_address(address)
            for each in of.endpoints
            if not (each.is_node or each.is_host)
            for address in each.addresses
        )
        return OwnNode(of.node, addresses, of.node_zone, of.masquerade_ports, pods)

    @property
    def external(self) -> Ranges:
        """The ranges of the last `--external-cidr`."""
        return tuple(map(ipaddress.ip_network, self.generation.external_cidrs))

    def remember_external(self, ranges: Ranges) -> None:
        """Set other ranges, for Services that are given later."""
        after = replace(self.generation, external_cidrs=tuple(map(str, ranges)))
        if after != self.generation:
            self.state.write(after)

    def end_gone_sockets(self, warn: Warn) -> None:
        """End connections of sockets to endpoints that the last change removed."""
        gone_sockets.end(self.pins, self.word.epoch, warn)

    def replace(self, frontends: Iterable[Frontend]) -> Filled:
        """Replace all frontends by these, in one step.

        If removed endpoints leave no room for new ones, it takes two steps: the removal comes first.
        """
        wanted = tuple(frontends)
        try:
            return self._replaced(wanted, self.word)
        except TableFullError:
            plan = tables.planner(self.pins, self.generation.nodes)
            staying = plan.without_new_endpoints(wanted, tables.all_backends(self.pins))
            return self._replaced(wanted, self._replaced(staying, self.word).word)

    def _replaced(self, frontends: Iterable[Frontend], word: Word) -> Filled:
        with Undo() as undo:
            filled = tables.fill(self.pins, word, frontends, self.generation.nodes, undo)
            switch.store(self.pins.map("pc_state"), filled.word)
            undo.forget()
        filled.finish(self.pins)
        return filled


def is_loaded(bpffs: Path) -> bool:
    """Whether policy and hooks are active, even while a command changes them."""
    try:
        return switch.read(Pins(bpffs).map("pc_state")).epoch != 0
    except OSError:
        return False  # it vanishes during the call


LoadMark = tuple[int, int, int]


def load_mark(bpffs: Path) -> LoadMark | None:
    """A mark that changes with each load or replacement of Services; None if nothing is loaded.

    It also changes if an unload came between two loads.
    """
    pin = Pins(bpffs).map("pc_state")
    try:
        word = switch.read(pin)
        return (word.epoch, word.services, pin.stat().st_ino) if word.epoch else None
    except OSError:
        return None  # it vanishes during the call


@contextmanager
def loaded(
    bpffs: Path, state_root: Path, patience: Patience = command_lock.NONE
) -> Iterator[LoadedNode]:
    """The loaded node, locked; `HostError` if nothing is loaded."""
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    with state.lock("services", patience):
        network.require_here(where, state)
        word = switch.read(where.map("pc_state"))
        generation = state.read(word.epoch) if word.epoch else None
        if generation is None:
            raise HostError(
                "no loaded bundle can use Services",
                "`policyc node load BUNDLE --endpoints FILE --services FILE`",
            )
        yield LoadedNode(where, word, generation, state)
