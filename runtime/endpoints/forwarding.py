# SPDX-License-Identifier: Apache-2.0
"""Finds the pods to which packets can be redirected (fast path, datapath/forward.h).

The kernel redirects only to the peer of a veth or netkit, and drops if that peer is in the same network
namespace. So this reads the kind of every device.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from policyc.runtime.endpoints import pod_devices
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

Forwarding = Literal["redirect", "stack"]
"""The path of known connections between pods of this node: fast path or stack path."""
_OTHERWISE = "load with --forwarding stack"


def with_peers(ifindexes: Iterable[int], forwarding: Forwarding) -> frozenset[int]:
    """The devices that are pairs with the peer in another network namespace; none for `stack`.

    A device that vanished meanwhile is not among them: attaching to it will report that.
    """
    wanted = frozenset(ifindexes)
    if forwarding == "stack" or not wanted:
        return frozenset()
    try:
        asked = pod_devices.is_pair_to_elsewhere(wanted)
    except HostError as error:
        error.hint = _OTHERWISE
        raise
    return frozenset(each for each, is_pair in asked.items() if is_pair)


def without_master(uplinks: Mapping[str, int]) -> dict[str, int]:
    """The uplinks (name -> ifindex) that are part of no other device.

    Packets of pods by a bridge port are not sent to the node's MAC and use the stack path, so the return
    path must too.
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
