# SPDX-License-Identifier: Apache-2.0
"""Our own veths, found by name and address: other devices of such a name are left alone.

Hooks find such a device by a map with its ifindex.
"""

import errno
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.kernel import rtnetlink
from policyc.runtime.undo import Undo

ROLES = ("tunnel", "reassembly", "route")
"""Roles of attachments whose device is up only while its hook is attached."""
SERVICE_ROUTE, SERVICE_ROUTE_FAR = "policyc-svc", "policyc-svc-far"
"""The two ends of the veth of `--service-cidr` (services/route.py)."""


@dataclass(frozen=True, slots=True)
class OwnDevice:
    """A veth of ours that exists."""

    ifindex: int
    is_up: bool


def find(name: str, mac: str, purpose: str) -> OwnDevice | None:
    """Find the veth with that name and address."""
    with rtnetlink.connection(purpose) as netlink:
        try:
            (link,) = netlink.link("get", ifname=name)
        except rtnetlink.refused() as error:
            if rtnetlink.code_of(error) == errno.ENODEV:
                return None
            raise
        about = link.get_attr("IFLA_LINKINFO")
        kind = about.get_attr("IFLA_INFO_KIND") if about is not None else None
        ours = kind == "veth" and link.get_attr("IFLA_ADDRESS") == mac
        return OwnDevice(int(link["index"]), link["state"] == "up") if ours else None


def start(ifindex: int, purpose: str, undo: Undo) -> None:
    """Set the device up, now that its hook is attached."""
    with rtnetlink.connection(purpose) as netlink:
        (link,) = netlink.link("get", index=ifindex)
        if link["state"] != "up":
            undo.by(_set_state, ifindex, "down", purpose)
            netlink.link("set", index=ifindex, state="up")


def stop(ifindex: int, purpose: str) -> None:
    """Set the device down: it has lost its hook, and gets another one."""
    _set_state(ifindex, "down", purpose)


def _set_state(ifindex: int, state: str, purpose: str) -> None:
    with rtnetlink.connection(purpose) as netlink:
        netlink.link("set", index=ifindex, state=state)


def quieten(name: str) -> None:
    """Make the node send nothing by this device in IPv6."""
    with suppress(FileNotFoundError):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
