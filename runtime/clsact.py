# SPDX-License-Identifier: Apache-2.0
"""Attaching by a clsact filter, for kernels without tcx: a fixed place, and replaced in it.

Never deleted and added again: packets would pass in between. A qdisc or filter of somebody else
is left alone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from policyc.runtime.errors import HostError

KIND = "clsact"
PRIORITY = 1000
HANDLE = 1
_PARENTS = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
_ETH_P_ALL = 3
_TCA_BPF_ID = 11  # which pyroute2 0.9 does not know yet
_EEXIST, _ENOENT, _EINVAL, _ENODEV = 17, 2, 22, 19


@contextmanager
def _connection() -> Iterator[Any]:
    """A netlink socket; what the kernel refuses is an `OSError`, as with every system call."""
    with _netlink()() as netlink:
        try:
            yield netlink
        except _netlink_error() as error:
            raise OSError(_code(error), os.strerror(_code(error))) from error


@dataclass(frozen=True, slots=True)
class FilterInfo:
    """Our filter as the kernel has it."""

    prog_id: int
    name: str


def is_usable() -> bool:
    """Whether the Python package that speaks rtnetlink is installed."""
    return find_spec("pyroute2") is not None


@cache
def _netlink() -> Any:
    """The class that speaks rtnetlink. Imported here: nodes with tcx never need it."""
    try:
        from pyroute2 import IPRoute
    except ImportError as error:
        raise HostError(
            "attaching by clsact needs the Python package pyroute2", "pip install 'policyc[node]'"
        ) from error
    return IPRoute


@cache
def _netlink_error() -> type[Exception]:
    from pyroute2.netlink.exceptions import NetlinkError

    return NetlinkError  # type: ignore[no-any-return]


def attach(prog: int, ifindex: int, direction: str, name: str) -> None:
    """Put the program into our place at the device, whatever was in it of ours."""
    with _connection() as netlink:
        occupant = _find(netlink, ifindex, direction)
        if occupant and occupant.name != name:
            raise HostError(
                f"the tc filter {occupant.name!r} is in our place "
                f"(priority {PRIORITY}, handle {HANDLE}) at device {ifindex}",
                "move it to another priority",
            )
        try:
            netlink.tc("add", "clsact", ifindex)
        except _netlink_error() as error:
            if _code(error) != _EEXIST:
                raise
        netlink.tc(
            "replace-filter",
            "bpf",
            ifindex,
            HANDLE,
            fd=prog,
            name=name,
            parent=_PARENTS[direction],
            prio=PRIORITY,
            protocol=_ETH_P_ALL,
            classid=1,
            direct_action=True,
        )


def detach(ifindex: int, direction: str, name: str) -> None:
    """Remove our filter; nothing happens when it is not there. The qdisc stays: it may be shared."""
    with _connection() as netlink:
        occupant = _find(netlink, ifindex, direction)
        if occupant and occupant.name == name:
            netlink.tc(
                "del-filter",
                "bpf",
                ifindex,
                HANDLE,
                parent=_PARENTS[direction],
                prio=PRIORITY,
                protocol=_ETH_P_ALL,
            )


def find(ifindex: int, direction: str) -> FilterInfo | None:
    """The filter in our place, or None."""
    with _connection() as netlink:
        return _find(netlink, ifindex, direction)


def _find(netlink: Any, ifindex: int, direction: str) -> FilterInfo | None:
    try:
        filters = list(netlink.get_filters(index=ifindex, parent=_PARENTS[direction]))
    except _netlink_error() as error:
        if _code(error) in (_ENOENT, _EINVAL, _ENODEV):  # no such qdisc, or no such device
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
    """The id of the filter's program; an attribute that pyroute2 leaves undecoded."""
    for name, value in options["attrs"]:
        if name == "UNKNOWN" and value["header"]["type"] == _TCA_BPF_ID:
            return int.from_bytes(value.data[value.offset + 4 : value.offset + 8], sys.byteorder)
    return options.get_attr("TCA_BPF_ID") or 0


def _code(error: Exception) -> int:
    return int(getattr(error, "code", 0))
