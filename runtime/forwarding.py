# SPDX-License-Identifier: Apache-2.0
"""Which pods packets can be handed to past the host's stack (datapath/forward.h).

The kernel hands over to the peer of a veth alone, and drops where that is in the same network
namespace; so every device is asked what it is.
"""

from collections.abc import Iterable
from typing import Any, Literal

from policyc.runtime import rtnetlink

Forwarding = Literal["redirect", "stack"]
"""How packets of known connections go from pod to pod of this node."""


def with_peers(ifindexes: Iterable[int], forwarding: Forwarding) -> frozenset[int]:
    """Those of the devices that are veths with the peer in another network namespace; none for `stack`.

    A device that vanished meanwhile is none of them: attaching to it will say so.
    """
    wanted = frozenset(ifindexes)
    if forwarding == "stack" or not wanted:
        return frozenset()
    with rtnetlink.connection(
        "handing packets over", ", or load with --forwarding stack"
    ) as netlink:
        return wanted & {link["index"] for link in netlink.get_links() if _has_peer(link)}


def _has_peer(link: Any) -> bool:
    """IFLA_LINK_NETNSID is there only where the peer is not here."""
    about = link.get_attr("IFLA_LINKINFO")
    kind = about.get_attr("IFLA_INFO_KIND") if about is not None else None
    return kind == "veth" and link.get_attr("IFLA_LINK_NETNSID") is not None
