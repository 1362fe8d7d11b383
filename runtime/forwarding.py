# SPDX-License-Identifier: Apache-2.0
"""Which pods packets can be handed to past the host's stack (datapath/forward.h).

The kernel hands over to the peer of a veth alone, and drops where that is in the same network
namespace; so every device is asked what it is.
"""

import errno
from collections.abc import Iterable
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


def _has_peer(netlink: Any, ifindex: int) -> bool:
    """One by one: a list of all is cut short where a device comes or goes meanwhile."""
    try:
        (link,) = netlink.link("get", index=ifindex)
    except rtnetlink.refused() as error:
        if rtnetlink.code_of(error) == errno.ENODEV:
            return False
        raise
    return _is_veth_to_elsewhere(link)


def _is_veth_to_elsewhere(link: Any) -> bool:
    """IFLA_LINK_NETNSID is there only where the peer is not here."""
    about = link.get_attr("IFLA_LINKINFO")
    kind = about.get_attr("IFLA_INFO_KIND") if about is not None else None
    return kind == "veth" and link.get_attr("IFLA_LINK_NETNSID") is not None
