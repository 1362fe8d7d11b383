# SPDX-License-Identifier: Apache-2.0
"""Attaches by a clsact filter, for kernels without tcx: in a fixed place, and replaced in place.

A filter is never deleted and added again: packets would pass in between. Qdiscs and filters of other
programs are left alone.
"""

import sys
from dataclasses import dataclass
from typing import Any

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

KIND = "clsact"
PRIORITY = 1000
HANDLE = 1
PARENTS = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
_ETH_P_ALL = 3
_TCA_BPF_ID = 11  # pyroute2 0.9 does not know it yet
_EEXIST, _ENOENT, _EINVAL, _ENODEV = 17, 2, 22, 19


@dataclass(frozen=True, slots=True)
class FilterInfo:
    """Our filter, as the kernel reports it."""

    prog_id: int
    name: str


def attach(prog: int, ifindex: int, direction: str, name: str) -> None:
    """Put the program into our place at the device, in place of our previous program."""
    with rtnetlink.connection("attaching by clsact") as netlink:
        occupant = _find(netlink, ifindex, direction)
        if occupant and occupant.name != name:
            raise HostError(
                f"the tc filter {occupant.name!r} occupies the place of policyc's filter (priority "
                f"{PRIORITY}, handle {HANDLE}) at device {ifindex}",
                "move it to another priority",
            )
        try:
            netlink.tc("add", "clsact", ifindex)
        except rtnetlink.refused() as error:
            if rtnetlink.code_of(error) != _EEXIST:
                raise
        netlink.tc(
            "replace-filter",
            "bpf",
            ifindex,
            HANDLE,
            fd=prog,
            name=name,
            parent=PARENTS[direction],
            prio=PRIORITY,
            protocol=_ETH_P_ALL,
            classid=1,
            direct_action=True,
        )


def detach(ifindex: int, direction: str, name: str) -> None:
    """Remove our filter; does nothing if there is none. The qdisc stays, as it may be shared.

    The device, the qdisc or the filter may vanish between the lookup and the removal.
    """
    with rtnetlink.connection("attaching by clsact") as netlink:
        if not _is_ours(netlink, ifindex, direction, name):
            return
        try:
            netlink.tc(
                "del-filter",
                "bpf",
                ifindex,
                HANDLE,
                parent=PARENTS[direction],
                prio=PRIORITY,
                protocol=_ETH_P_ALL,
            )
        except rtnetlink.refused():
            if _is_ours(netlink, ifindex, direction, name):
                raise


def _is_ours(netlink: Any, ifindex: int, direction: str, name: str) -> bool:
    occupant = _find(netlink, ifindex, direction)
    return occupant is not None and occupant.name == name


def find(ifindex: int, direction: str) -> FilterInfo | None:
    """The filter in our place, or None."""
    with rtnetlink.connection("attaching by clsact") as netlink:
        return _find(netlink, ifindex, direction)


def _find(netlink: Any, ifindex: int, direction: str) -> FilterInfo | None:
    try:
        filters = rtnetlink.dump(
            lambda: netlink.get_filters(index=ifindex, parent=PARENTS[direction])
        )
    except rtnetlink.refused() as error:
        if rtnetlink.code_of(error) in (
            _ENOENT,
            _EINVAL,
            _ENODEV,
        ):  # no such qdisc, or no such device
            return None
        raise
    for each in filters:
        if each["info"] >> 16 != PRIORITY or each["handle"] != HANDLE:
            continue
        options = each.get_attr("TCA_OPTIONS")
        if options is not None:
            name = options.get_attr("TCA_BPF_NAME") or ""
            return FilterInfo(_prog_id(options), name)
    return None


def _prog_id(options: Any) -> int:
    """The id of the filter's program, from an attribute that pyroute2 leaves undecoded."""
    for name, value in options["attrs"]:
        if name == "UNKNOWN" and value["header"]["type"] == _TCA_BPF_ID:
            return int.from_bytes(value.data[value.offset + 4 : value.offset + 8], sys.byteorder)
    return options.get_attr("TCA_BPF_ID") or 0
