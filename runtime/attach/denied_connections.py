# SPDX-License-Identifier: Apache-2.0
"""Ends the bypassed connections that a new policy denies.

Their ends may only read, and send nothing that a hook could decide. A program lists the sockets
(datapath/bypass.bpf.c). A program of the policy's object decides each connection
(datapath/policy_bypass.h). The sockets of denied ones end by sock_diag: both ends see an error.
"""

import socket
from collections import defaultdict
from collections.abc import Collection

from policyc.runtime import switch
from policyc.runtime.attach import ended_sockets
from policyc.runtime.attach.bypass import DENIED
from policyc.runtime.attach.socket_listing import BYPASSED
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.bypass import BypassedSockets
from policyc.runtime.state import Warn

_HEADER = 14  # bytes of an Ethernet header
_DROP = 2  # TC_ACT_SHOT


def end(pins: Pins, epoch: int, warn: Warn) -> int:
    """End them, after the switch; the number of sockets that ended."""
    switch.wait_for_readers()  # until no program sends, or adds a connection, under the policy before
    programs = pins.generation(epoch)
    with BypassedSockets(pins) as sockets:
        found = sockets.read(BYPASSED.read(programs, sockets.fd))
    with bpf_syscall.obj_get(programs / DENIED) as fd:
        denied = _denied(fd, {each.connection for each in found})
    by_network: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for each in found:
        if each.connection in denied:
            by_network[each.network].add((socket.IPPROTO_TCP, each.cookie))
    return ended_sockets.end(by_network, "that the policy denies", warn) if by_network else 0


def _denied(program: int, tuples: Collection[bytes]) -> set[bytes]:
    """Those of the connections that the program drops, which gets them as frames."""
    if not tuples:
        return set()
    decide = bpf_syscall.TestRun(program)
    return {each for each in tuples if decide(bytes(_HEADER) + each) == _DROP}
