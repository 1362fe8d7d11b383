# SPDX-License-Identifier: Apache-2.0
"""Which pods packets can be handed to past the host's stack (datapath/forward.h).

The kernel hands over to the peer of a veth alone, and drops where that is in the same network
namespace; so every device is asked what it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from policyc.runtime.endpoints import pod_devices
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

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
        asked = pod_devices.is_veth_to_elsewhere(wanted)
    except HostError as error:
        error.hint = _OTHERWISE
        raise
    return frozenset(each for each, is_veth in asked.items() if is_veth)


def without_master(uplinks: Mapping[str, int]) -> dict[str, int]:
    """Those of the uplinks (name -> ifindex) that are part of no other device. What pods send by a port
    of a bridge never was to the node's MAC, and goes by the stack; so must what comes back.
    """
    if not uplinks:
        return {}
    try:
        with rtnetlink.connection("the fast path", f", or {_OTHERWISE}") as netlink:
            return {name: at for name, at in uplinks.items() if not _has_master(netlink, at)}
    except OSError as error:
        raise HostError(
            f"rtnetlink cannot read the uplinks: {error.strerror}", _OTHERWISE
        ) from error


def _has_master(netlink: Any, ifindex: int) -> bool:
    (link,) = netlink.link("get", index=ifindex)
    return link.get_attr("IFLA_MASTER") is not None
