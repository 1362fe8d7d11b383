# SPDX-License-Identifier: Apache-2.0
"""Other Services on a node that has a bundle loaded, in the place of all that it has."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from policyc.runtime import host, network, service_maps, switch
from policyc.runtime.errors import HostError
from policyc.runtime.json_value import JsonValue
from policyc.runtime.pins import DEFAULT_ROOT, Pins
from policyc.runtime.services import Frontend, OwnNode, read_services
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import StateDir, Warn, to_nobody
from policyc.runtime.undo import Undo


def update_services(
    objects: Sequence[JsonValue],
    *,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    note: Warn = to_nobody,
) -> tuple[Frontend, ...]:
    """Replace the node's Services by these, in one step. One that fails changes nothing.

    `note` is told what of them the node cannot have.
    """
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    with state.lock():
        network.require_here(where, state)
        word = switch.read(where.map("pc_state"))
        generation = state.read(word.epoch) if word.epoch else None
        if generation is None:
            raise HostError(
                "nothing is loaded here that could use Services",
                "`policyc node load BUNDLE --endpoints FILE --services FILE`",
            )
        addresses = tuple(map(ipaddress.ip_address, generation.node_addresses))
        own = OwnNode(generation.node, addresses, generation.node_zone)
        frontends = read_services(objects, own, note)
        with Undo() as undo:
            filled = service_maps.fill(where, word, frontends, undo)
            switch.store(where.map("pc_state"), filled.word)
            undo.forget()
        filled.finish(where)
    return frontends
