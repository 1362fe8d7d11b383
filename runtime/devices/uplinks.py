# SPDX-License-Identifier: Apache-2.0
"""The devices by which external clients reach the node, as `--uplink` names them."""

import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from policyc.runtime.devices import (
    own_device,
    reassembly,
    tunnel,
)
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import rtnetlink

ReturnPath = Literal["tunnel", "dsr"]
"""The return path to a client that came to another node: by that node, or by the endpoint's own."""
Outside = Literal[ReturnPath, "dsr-l2", "dsr-vxlan"]
"""What a load says: the return path. With dsr, packets for node ports go to a node on the same link
without a tunnel, if they came in by that link; with dsr-l2 also if not; with dsr-vxlan never."""

_OURS: Mapping[str, str] = {
    tunnel.NAME: "of the tunnel between nodes",
    reassembly.NAME: "of reassembly",
    own_device.SERVICE_ROUTE: "of the node's route to Services",
}
_SIOCGIFHWADDR, _ARPHRD_ETHER = 0x8927, 1
_IFREQ = struct.Struct("=16sH22x")
_MASTERS = 8
"""The maximum nesting of devices in Linux (MAX_NEST_DEV)."""


def find(names: Iterable[str], pods: Mapping[str, int]) -> dict[str, int]:
    """Find the uplinks: name -> ifindex.

    `InputError` for a device that does not exist, is a pod's (`pods`, by name), has no Ethernet headers
    (the hooks expect one), or is part of a VRF, whose routes no hook looks up.
    """
    found: dict[str, int] = {}
    for name in names:
        if name in pods:
            raise InputError(
                f"--uplink {name}: the endpoints file gives that device to a pod",
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
                "`ip route` shows the devices that lead out of the node",
            ) from error
        if _kind(name) != _ARPHRD_ETHER:
            raise InputError(
                f"--uplink {name}: its packets have no Ethernet headers",
                "name the underlying device that has them",
            )
    for name, ifindex in found.items():
        vrf = _vrf_of(name, ifindex)
        if vrf:
            raise InputError(
                f"--uplink {name}: the device belongs to the VRF {vrf}, which has its own routes",
                "name a device outside of every VRF",
            )
    return found


def _vrf_of(name: str, ifindex: int) -> str:
    """The VRF of the device, or of a bond or bridge that the device is part of."""
    try:
        with rtnetlink.connection("--uplink") as netlink:
            for _ in range(_MASTERS):
                link = rtnetlink.find_link(netlink, index=ifindex)
                if link is None or _kind_of(link) == "vrf":
                    return link.get_attr("IFLA_IFNAME") if link is not None else ""
                ifindex = link.get_attr("IFLA_MASTER") or 0
                if not ifindex:
                    return ""
    except OSError as error:
        raise HostError(
            f"--uplink {name}: rtnetlink cannot read the device's master: {error.strerror}"
        ) from error
    return ""


def _kind_of(link: Any) -> str:
    about = link.get_attr("IFLA_LINKINFO")
    return str(about.get_attr("IFLA_INFO_KIND") or "") if about is not None else ""


def _kind(name: str) -> int:
    """ARPHRD_* of <linux/if_arp.h>."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        raw = fcntl.ioctl(asked, _SIOCGIFHWADDR, _IFREQ.pack(name.encode(), 0))
    return int(_IFREQ.unpack(raw)[1])
