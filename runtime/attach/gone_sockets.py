# SPDX-License-Identifier: Apache-2.0
"""Ends connections of sockets to endpoints that were removed.

The hooks at connect() connect such a socket to the endpoint itself, so no packet of it tells of the
Service. The kernel keeps, with each socket, the endpoint that it was given. A program lists those
whose endpoint is gone (datapath/sockets.bpf.c), and sock_diag ends them.
"""

from collections import defaultdict
from pathlib import Path

from policyc.runtime import switch
from policyc.runtime.attach import ended_sockets
from policyc.runtime.attach.socket_listing import REMOVED
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.sockets import SocketServices
from policyc.runtime.state import Warn, unheard

_PASSES = 2
"""A socket that had its endpoint and was not connecting yet is there in the second one."""


def end(pins: Pins, epoch: int, warn: Warn) -> int:
    """End them, after the switch; the number of sockets that ended.

    `warn` is told of a kernel that cannot, and of sockets in a network namespace that is not found:
    these connections go on.
    """
    folder = pins.sockets(epoch)
    if not REMOVED.pin(folder).exists():
        return 0
    switch.wait_for_readers()  # until no hook at connect() uses what was removed
    ended = 0
    for left in reversed(range(_PASSES)):
        by_network = _listed(pins, folder)
        if not by_network:
            break
        ended += ended_sockets.end(
            by_network, "of sockets to removed endpoints", unheard if left else warn
        )
    return ended


def _listed(pins: Pins, folder: Path) -> dict[int, set[tuple[int, int]]]:
    """Protocol and cookie of each socket, by the cookie of its network namespace."""
    found: dict[int, set[tuple[int, int]]] = defaultdict(set)
    with SocketServices(pins) as services:
        for each in services.read(REMOVED.read(folder, services.fd)):
            found[each.network].add((each.protocol, each.cookie))
    return found
