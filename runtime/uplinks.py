# SPDX-License-Identifier: Apache-2.0
"""The devices by which clients outside the cluster reach the node, as `--uplink` names them."""

import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Literal

from policyc.runtime import reassembly, service_route, tunnel
from policyc.runtime.errors import InputError

Outside = Literal["tunnel", "dsr"]
"""How a client is answered that came to another node: back by that one, or by the endpoint's own."""

_OURS: Mapping[str, str] = {
    tunnel.NAME: "by which nodes hand packets to each other",
    reassembly.NAME: "by which fragments are put in order",
    service_route.NAME: "by which the node itself reaches Services",
}
_SIOCGIFHWADDR, _ARPHRD_ETHER = 0x8927, 1
_IFREQ = struct.Struct("=16sH22x")


def find(names: Iterable[str], pods: Mapping[str, int]) -> dict[str, int]:
    """Name -> ifindex. `InputError` for one that is not there, is a pod's (`pods`, by name), or has no
    Ethernet headers: the hooks look for the packet behind one.
    """
    found: dict[str, int] = {}
    for name in names:
        if name in pods:
            raise InputError(
                f"--uplink {name}: the endpoints file says that a pod is behind that device",
                "name the device that leads out of the node",
            )
        if name in _OURS:
            raise InputError(
                f"--uplink {name}: that is the device {_OURS[name]}",
                "name the device that leads out of the node",
            )
        try:
            found[name] = socket.if_nametoindex(name)
        except OSError as error:
            raise InputError(
                f"--uplink {name}: there is no such device here",
                "`ip route` shows by which devices the node reaches others",
            ) from error
        if _kind(name) != _ARPHRD_ETHER:
            raise InputError(
                f"--uplink {name}: its packets have no Ethernet headers",
                "name the device below it that has them, or none",
            )
    return found


def _kind(name: str) -> int:
    """ARPHRD_* of <linux/if_arp.h>."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        raw = fcntl.ioctl(asked, _SIOCGIFHWADDR, _IFREQ.pack(name.encode(), 0))
    return int(_IFREQ.unpack(raw)[1])
