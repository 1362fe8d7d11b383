# SPDX-License-Identifier: Apache-2.0
"""Failsafe ports: the ports of a node under host policy that no policy closes (datapath/failsafe.h).

The defaults are Felix's FailsafeInboundHostPorts and FailsafeOutboundHostPorts, as
`policyc.ir.semantics.FAILSAFE_PORTS` has them for `eval`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from policyc.runtime.errors import InputError
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.failsafe_ports import INBOUND, OUTBOUND, FailsafePorts
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.undo import Undo

Side = Literal["inbound", "outbound"]
_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_PORT = re.compile(r"(?:([a-z]+):)?([0-9]{1,5})")
_CONTROL_PLANE = "tcp:179,tcp:2379,tcp:2380,tcp:5473,tcp:6443,tcp:6666,tcp:6667"
_NO_PORTS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failsafes:
    """The ports that stay open, as `tcp:22`: at the node, and at other hosts for the node."""

    inbound: tuple[str, ...] = ()
    outbound: tuple[str, ...] = ()

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Protocol number, port, and enum pc_failsafe_side of each port."""
        for side, ports in ((INBOUND, self.inbound), (OUTBOUND, self.outbound)):
            for text in ports:
                protocol, _, port = text.partition(":")
                yield _PROTOCOLS[protocol], int(port), side

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
    return tuple(found)


DEFAULT = Failsafes(
    read_ports(f"tcp:22,udp:68,{_CONTROL_PLANE}", "inbound"),
    read_ports(f"udp:53,udp:67,{_CONTROL_PLANE}", "outbound"),
)


def write(pins: Pins, failsafes: Failsafes, epoch: int, in_force: int, undo: Undo) -> None:
    """Write the ports of the next generation beside those of `in_force`, and remove all others.

    Raises `InputError` if a list has more ports than the map holds.
    """
    keep_only(pins, in_force)  # removes leftovers of a load that died
    with FailsafePorts(pins) as there:
        _require_room(failsafes, there.most)
        undo.by(keep_only, pins, in_force)
        for entry in failsafes.entries():
            there.put(there.key_of(epoch, *entry), PRESENT)


def _require_room(failsafes: Failsafes, most: int) -> None:
    for side, ports in (("inbound", failsafes.inbound), ("outbound", failsafes.outbound)):
        if len(ports) > most:
            raise InputError(f"--failsafe-{side}: {len(ports)} ports exceed the limit of {most}")


def keep_only(pins: Pins, epoch: int) -> None:
    """Remove the ports of every other generation: no hook has read them since the switch."""
    with FailsafePorts(pins) as there:
        for key in there.all_keys():
            if there.epoch_of(key) != epoch:
                there.delete(key)
