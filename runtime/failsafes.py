# SPDX-License-Identifier: Apache-2.0
"""Failsafe ports: the ports of a node under host policy that no policy closes (datapath/failsafe.h).

The defaults are Felix's FailsafeInboundHostPorts and FailsafeOutboundHostPorts, as
`policyc.ir.semantics.FAILSAFE_PORTS` has them for `eval`.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.undo import Undo

Side = Literal["inbound", "outbound"]
MAP = "pc_failsafes"
MOST = 256
"""The limit per direction: the map also holds the previous load's ports until the load is complete."""
_KEY = struct.Struct("=I2sBB")  # struct pc_failsafe
_IN, _OUT = 0, 1  # enum pc_failsafe_side
_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_PORT = re.compile(r"(?:([a-z]+):)?([0-9]{1,5})")
_CONTROL_PLANE = "tcp:179,tcp:2379,tcp:2380,tcp:5473,tcp:6443,tcp:6666,tcp:6667"
_NO_PORTS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failsafes:
    """The ports that stay open, as `tcp:22`: at the node, and at other hosts for the node."""

    inbound: tuple[str, ...] = ()
    outbound: tuple[str, ...] = ()

    def entries(self, epoch: int) -> Iterator[bytes]:
        """The map's entries, one per port, for the generation of that epoch."""
        for side, ports in ((_IN, self.inbound), (_OUT, self.outbound)):
            for text in ports:
                protocol, _, port = text.partition(":")
                yield _KEY.pack(epoch, struct.pack("!H", int(port)), _PROTOCOLS[protocol], side)

    def describe(self) -> str:
        """Both lists in words."""
        return (
            f"inbound {', '.join(self.inbound) or 'none'}; "
            f"outbound {', '.join(self.outbound) or 'none'}"
        )


def read_ports(text: str, side: Side) -> tuple[str, ...]:
    """Parse `tcp:22,udp:68`, or `none`; without a protocol it is TCP. `InputError` for anything else."""
    if text == "none":
        return _NO_PORTS
    found: dict[str, None] = {}
    for item in text.split(","):
        match = _PORT.fullmatch(item.strip().lower())
        protocol = match[1] or "tcp" if match else ""
        if not match or protocol not in _PROTOCOLS or not 1 <= int(match[2]) <= 65535:
            raise InputError(
                f"--failsafe-{side} {text}: {item.strip()!r} is no port",
                "write ports as tcp:22,udp:68, or none",
            )
        found[f"{protocol}:{int(match[2])}"] = None
    if len(found) > MOST:
        raise InputError(f"--failsafe-{side}: {len(found)} ports exceed the limit of {MOST}")
    return tuple(found)


DEFAULT = Failsafes(
    read_ports(f"tcp:22,udp:68,{_CONTROL_PLANE}", "inbound"),
    read_ports(f"udp:53,udp:67,{_CONTROL_PLANE}", "outbound"),
)


def write(pins: Pins, failsafes: Failsafes, epoch: int, in_force: int, undo: Undo) -> None:
    """Write the ports of the next generation beside those of `in_force`, and remove all others."""
    keep_only(pins, in_force)  # removes leftovers of a load that died
    undo.by(keep_only, pins, in_force)
    with bpf_syscall.obj_get(pins.map(MAP)) as fd:
        for key in failsafes.entries(epoch):
            bpf_syscall.map_update(fd, key, struct.pack("=I", 1))


def keep_only(pins: Pins, epoch: int) -> None:
    """Remove the ports of every other generation: no hook has read them since the switch."""
    with bpf_syscall.obj_get(pins.map(MAP)) as fd:
        for key in list(bpf_syscall.map_keys(fd, _KEY.size)):
            if _KEY.unpack(key)[0] != epoch:
                bpf_syscall.map_delete(fd, key)
