# SPDX-License-Identifier: Apache-2.0
"""The node's VXLAN device, through which nodes forward packets of external clients to each other.

Each packet carries its remote end (datapath/tunnel.h), so one device suffices for any number of nodes.
The device is ours by its name, kind and port: other devices of that name are left alone.
"""

from collections.abc import Iterable
from typing import Any

from policyc.runtime.devices import links
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink
from policyc.runtime.undo import Undo

NAME = "policyc-vxlan"
PORT = 8477
"""The UDP port; the nodes' firewalls must accept it from other nodes."""
COUNTS = "pc_tunnel_count"
"""Its map of datapath/tunnel_count.h."""
_PURPOSE = "the tunnel between nodes"
_OVERHEAD = {4: 50, 6: 70}  # excludes the outer Ethernet header, includes the inner one


def make(uplinks: Iterable[int], family: int, undo: Undo) -> int:
    """Make the device if it does not exist; gives its ifindex. A new one is down: see `start`.

    Its MTU is what fits into a packet of the family (4 or 6) at the uplink with the smallest MTU.
    """
    try:
        with rtnetlink.connection(_PURPOSE) as netlink:
            mtu = min(_mtu(netlink, each) for each in uplinks) - _OVERHEAD[family]
            ifindex = _find(netlink)
            if ifindex is None:
                undo.by(remove)
                netlink.link("add", ifname=NAME, kind="vxlan", vxlan_port=PORT,
                             vxlan_collect_metadata=1, vxlan_learning=0)  # fmt: skip
                (ifindex,) = netlink.link_lookup(ifname=NAME)
            else:
                undo.by(_set, ifindex, "mtu", _mtu(netlink, ifindex))
            netlink.link("set", index=ifindex, mtu=mtu)
            return int(ifindex)
    except OSError as error:
        raise HostError(
            f"cannot make the device {NAME}: {error.strerror}",
            f"VXLAN with UDP port {PORT} is needed to reach endpoints on other nodes; check whether "
            f"another device uses the port",
        ) from error


def start(ifindex: int, undo: Undo) -> None:
    """Set the device up, now that its hook checks senders."""
    with rtnetlink.connection(_PURPOSE) as netlink:
        (link,) = netlink.link("get", index=ifindex)
    if link["state"] != "up":
        undo.by(_set, ifindex, "state", "down")
        _set(ifindex, "state", "up")


def _set(ifindex: int, what: str, to: int | str) -> None:
    with rtnetlink.connection(_PURPOSE) as netlink:
        netlink.link("set", index=ifindex, **{what: to})


def remove() -> None:
    """Remove the device; does nothing if there is none of ours."""
    links.remove_vxlan(NAME, PORT)


def _find(netlink: Any) -> int | None:
    link = rtnetlink.find_link(netlink, ifname=NAME)
    return int(link["index"]) if link is not None and _is_ours(link) else None


def _is_ours(link: Any) -> bool:
    about = link.get_attr("IFLA_LINKINFO")
    if about is None or about.get_attr("IFLA_INFO_KIND") != "vxlan":
        return False
    data = about.get_attr("IFLA_INFO_DATA")
    return data is not None and data.get_attr("IFLA_VXLAN_PORT") == PORT


def _mtu(netlink: Any, ifindex: int) -> int:
    (link,) = netlink.link("get", index=ifindex)
    return int(link.get_attr("IFLA_MTU"))
