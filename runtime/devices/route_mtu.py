# SPDX-License-Identifier: Apache-2.0
"""Finds the uplinks with a very small MTU, or with routes whose MTU is below the device's.

The host's IP stack obeys a route's MTU. The kernel's FIB lookup for datapath/forward_out.h reports it
only if it is locked. And datapath/mtu.h checks no packet of up to 576 bytes. So packets use the fast
path by other uplinks only.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

_OTHERWISE = "load with --forwarding stack"
_FAMILIES = (2, 10)
_SMALLEST = 576
"""Of IPv4, which every host takes (RFC 791)."""


def narrower(ifindexes: Iterable[int]) -> frozenset[int]:
    """The devices with an MTU below 576, or with a route, of any table, that has a smaller one."""
    wanted = frozenset(ifindexes)
    found = set[int]()
    if not wanted:
        return frozenset()
    try:
        with rtnetlink.connection("the fast path", f", or {_OTHERWISE}") as netlink:
            mtus = {each: _mtu(netlink, each) for each in wanted}
            found |= {each for each, mtu in mtus.items() if mtu < _SMALLEST}
            for family in _FAMILIES:
                for route in rtnetlink.dump(partial(netlink.get_routes, family=family)):
                    mtu = _own_mtu(route)
                    if mtu:
                        found |= {out for out in _devices(route) if mtu < mtus.get(out, 0)}
    except OSError as error:
        raise HostError(
            f"rtnetlink cannot read the routes: {error.strerror}", _OTHERWISE
        ) from error
    return frozenset(found)


def none_narrower(uplinks: Mapping[str, int], note: Callable[[str], object]) -> list[int]:
    """The uplinks (name -> ifindex) without such routes; `note` is told about the others."""
    found = narrower(uplinks.values())
    for name, ifindex in uplinks.items():
        if ifindex in found:
            note(
                f"{name}: a route sets its own MTU, or the device's is below {_SMALLEST}, so pods' "
                "packets to this device take the stack path"
            )
    return [ifindex for ifindex in uplinks.values() if ifindex not in found]


def _mtu(netlink: Any, ifindex: int) -> int:
    (link,) = netlink.link("get", index=ifindex)
    return int(link.get_attr("IFLA_MTU"))


def _own_mtu(route: Any) -> int:
    """The route's MTU; 0: none."""
    metrics = route.get_attr("RTA_METRICS")
    return int(metrics.get_attr("RTAX_MTU") or 0) if metrics is not None else 0


def _devices(route: Any) -> set[int]:
    hops = route.get_attr("RTA_MULTIPATH") or ()
    return {int(route.get_attr("RTA_OIF") or 0), *(int(hop["oif"]) for hop in hops)}
