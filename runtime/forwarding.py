# SPDX-License-Identifier: Apache-2.0
"""Which pods packets can be handed to past the host's stack (datapath/forward.h).

The kernel hands over to the peer of a veth alone, and drops where that is in the same network
namespace; so every device is asked what it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from policyc.runtime import rtnetlink
from policyc.runtime.errors import HostError

Forwarding = Literal["redirect", "stack"]
"""How packets of known connections go from pod to pod of this node."""
_OTHERWISE = "load with --forwarding stack"


def with_peers(ifindexes: Iterable[int], forwarding: Forwarding) -> frozenset[int]:
    """Those of the devices that are veths with the peer in another network namespace; none for `stack`.

    A device that vanished meanwhile is none of them: attaching to it will say so.
    """
    wanted = frozenset(ifindexes)
    if forwarding == "stack" or not wanted:
        return frozenset()
    try:
        with rtnetlink.connection("handing packets over", f", or {_OTHERWISE}") as netlink:
            return frozenset(each for each in wanted if _has_peer(netlink, each))
    except OSError as error:
        raise HostError(
            f"rtnetlink does not tell what the pods' devices are: {error.strerror}", _OTHERWISE
        ) from error


def without_master(uplinks: Mapping[str, int]) -> dict[str, int]:
    """Those of the uplinks (name -> ifindex) that are part of no other device. What pods send by a port
    of a bridge never was to the node's MAC, and goes by the stack; so must what comes back.
    """
    if not uplinks:
        return {}
    try:
        with rtnetlink.connection("handing packets over", f", or {_OTHERWISE}") as netlink:
            return {name: at for name, at in uplinks.items() if not _has_master(netlink, at)}
    except OSError as error:
        raise HostError(
            f"rtnetlink does not tell what the uplinks are: {error.strerror}", _OTHERWISE
        ) from error


def _has_master(netlink: Any, ifindex: int) -> bool:
    (link,) = netlink.link("get", index=ifindex)
    return link.get_attr("IFLA_MASTER") is not None


def _has_peer(netlink: Any, ifindex: int) -> bool:
    """One by one: a list of all is cut short where a device comes or goes meanwhile."""
    link = rtnetlink.find_link(netlink, index=ifindex)
    return link is not None and _is_veth_to_elsewhere(link)


def _is_veth_to_elsewhere(link: Any) -> bool:
    """IFLA_LINK_NETNSID is there only where the peer is not here."""
    about = link.get_attr("IFLA_LINKINFO")
    kind = about.get_attr("IFLA_INFO_KIND") if about is not None else None
    return kind == "veth" and link.get_attr("IFLA_LINK_NETNSID") is not None
