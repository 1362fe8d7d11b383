# SPDX-License-Identifier: Apache-2.0
"""Ends the bypassed connections that a new policy denies.

Their ends may only read, and send nothing that a hook could decide. A program of the policy's object
lists the connections that it denies (datapath/policy_bypass.h). Another one lists all sockets
(datapath/bypass.bpf.c). Those of denied connections end by sock_diag: both ends see an error.
"""

import socket
from collections import defaultdict

from policyc.runtime import switch
from policyc.runtime.attach import ended_sockets
from policyc.runtime.attach.bypass import DENIED, LISTING
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.bypass import BypassedSockets
from policyc.runtime.state import Warn


def end(pins: Pins, epoch: int, warn: Warn) -> int:
    """End them, after the switch; the number of sockets that ended."""
    switch.wait_for_readers()  # until no program sends, or adds a connection, under the policy before
    programs = pins.generation(epoch)
    by_network: dict[int, set[tuple[int, int]]] = defaultdict(set)
    with BypassedSockets(pins) as sockets:
        with bpf_syscall.obj_get(programs / DENIED) as fd:
            denied = sockets.denied_by(fd)
        with bpf_syscall.obj_get(programs / LISTING) as fd:
            for each in sockets.listed_by(fd) if denied else ():
                if each.key in denied:
                    by_network[each.network].add((socket.IPPROTO_TCP, each.cookie))
    return ended_sockets.end(by_network, "that the policy denies", warn) if by_network else 0
