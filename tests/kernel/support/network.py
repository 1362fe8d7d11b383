# SPDX-License-Identifier: Apache-2.0
"""Links, addresses, routes, rules and neighbours of a lab's network namespace, by netlink."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_interface, ip_network

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from policyc.runtime.lab import netkit

PODS = os.environ.get("POLICYC_TEST_PODS", "veth")
"""The kind of the pods' devices; "netkit" needs Linux 6.7."""
MAIN = 254
"""The table of routes that is meant where none is named."""
_PERMANENT, _NO_DAD, _ONLINK, _LINK_SCOPE = 0x80, 0x02, 4, 253
_EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}


class Network:
    """Of the namespace that it is made in, whoever calls it and from where; see `network`."""

    def __init__(self, netlink: IPRoute) -> None:
        self._netlink = netlink

    def index(self, device: str) -> int:
        """The number of a device."""
        (link,) = self._netlink.link("get", ifname=device)
        return int(link["index"])

    def mac(self, device: str) -> str:
        """The address of a device on its link."""
        (link,) = self._netlink.link("get", ifname=device)
        return str(link.get("address"))

    def received(self, device: str) -> int:
        """Packets that came in by the device, so far."""
        (link,) = self._netlink.link("get", ifname=device)
        return int(link.get_attr("IFLA_STATS64")["rx_packets"])

    def kind(self, device: str) -> str:
        """As ip(8) names it: veth, netkit, ..."""
        (link,) = self._netlink.link("get", ifname=device)
        return str(link.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_KIND"))

    def add(self, device: str, kind: str, **attributes: object) -> None:
        """A device, which is down; the attributes are IFLA_* in pyroute2's spelling."""
        self._netlink.link("add", ifname=device, kind=kind, **attributes)

    def add_veth(self, device: str, peer: str, into: int) -> None:
        """A pair, whose other side is in the namespace of that descriptor."""
        self.add(device, "veth", peer={"ifname": peer, "net_ns_fd": into})

    def add_pod_pair(self, device: str, peer: str, into: int | None = None, group: int = 0) -> None:
        """The pair of a pod: veth, or netkit where $POLICYC_TEST_PODS says so.

        The caller must be in the namespace. Without `into` both sides are here.
        """
        if PODS == "netkit":
            netkit.add(device, peer, into=into, group=group)
            return
        at = {} if into is None else {"net_ns_fd": into}
        self.add(device, "veth", group=group, peer={"ifname": peer, **at})

    def change(self, device: str, **attributes: object) -> None:
        """`state`, `address`, `mtu`, `master` (a number), `ifname`."""
        self._netlink.link("set", index=self.index(device), **attributes)

    def remove(self, device: str) -> None:
        """With the other side of a pair; one that is gone by now, or cannot go, stays as it is."""
        with suppress(NetlinkError):
            self._netlink.link("del", index=self.index(device))

    def remove_group(self, group: int) -> None:
        """Every device of the group."""
        with suppress(NetlinkError):
            self._netlink.link("del", index=0, group=group)

    def up(self, device: str) -> None:
        """Start it."""
        self.change(device, state="up")

    def reflect(self, device: str) -> None:
        """What comes by this device of a bridge may leave by it."""
        self._netlink.brport("set", index=self.index(device), mode=1)

    def add_address(self, device: str, prefix: str, command: str = "add") -> None:
        """An address with its length; one of IPv6 is not looked for on the link first."""
        own = ip_interface(prefix)
        flags = {"flags": _NO_DAD} if own.version == 6 else {}
        self._netlink.addr(
            command,
            index=self.index(device),
            address=str(own.ip),
            prefixlen=own.network.prefixlen,
            **flags,
        )

    def flush_addresses(self, device: str) -> None:
        """It has none any more."""
        self._netlink.flush_addr(index=self.index(device))

    def route(
        self,
        prefix: str,
        *,
        via: str = "",
        device: str = "",
        table: int = MAIN,
        is_onlink: bool = False,
        command: str = "add",
    ) -> None:
        """A route to the prefix, "add" or "replace"; `is_onlink`: `via` is at the device."""
        to = ip_network(prefix)
        how: dict[str, object] = {"gateway": via} if via else {"scope": _scope(to.version)}
        if device:
            how["oif"] = self.index(device)
        if is_onlink:
            how["flags"] = _ONLINK
        self._netlink.route(command, family=_family(to.version), dst=prefix, table=table, **how)

    def default_route(
        self,
        via: str,
        *,
        device: str = "",
        table: int = MAIN,
        is_onlink: bool = False,
        command: str = "add",
    ) -> None:
        """As `route`, to wherever no other one leads."""
        prefix = _EVERYTHING[ip_interface(via).version]
        how = {"via": via, "device": device, "command": command}
        self.route(prefix, table=table, is_onlink=is_onlink, **how)

    def forget_route(self, prefix: str) -> None:
        """Delete the route of the main table."""
        family = _family(ip_network(prefix).version)
        self._netlink.route("del", family=family, dst=prefix)

    def port_rule(self, priority: int, table: int, family: int, **ports: int) -> None:
        """What has this `source` or `to` port is routed by another table."""
        which = {
            f"{'s' if end == 'source' else 'd'}port_range": f"{n}:{n}" for end, n in ports.items()
        }
        self._netlink.rule("add", family=_family(family), table=table, priority=priority, **which)

    def rule(
        self, priority: int, table: int, *, source: str = "", to: str = "", mark: int = 0
    ) -> None:
        """What is routed by another table: from or to a prefix, or of IPv4 with these bits of a mark."""
        which: dict[str, object] = {"fwmark": mark, "fwmask": mark} if mark else {}
        for end, prefix in (("src", source), ("dst", to)):
            if prefix:
                net = ip_network(prefix)
                which |= {end: str(net.network_address), f"{end}_len": net.prefixlen}
        family = _family(ip_network(source or to or _EVERYTHING[4]).version)
        self._netlink.rule("add", family=family, table=table, priority=priority, **which)

    def neighbour(self, address: str, mac: str, device: str) -> None:
        """A permanent neighbour entry for the address at the device."""
        self._netlink.neigh(
            "add",
            family=_family(ip_interface(address).version),
            ifindex=self.index(device),
            dst=address,
            lladdr=mac,
            state=_PERMANENT,
        )

    def known_mac(self, address: str, device: str) -> str:
        """The MAC of a neighbour; empty where the kernel does not know it."""
        family = _family(6 if ":" in address else 4)
        for each in self._netlink.get_neighbours(family=family, ifindex=self.index(device)):
            if each.get_attr("NDA_DST") == address:
                return str(each.get_attr("NDA_LLADDR") or "")
        return ""


@contextmanager
def network() -> Iterator[Network]:
    """That of the namespace which the caller is in now."""
    with IPRoute() as netlink:
        yield Network(netlink)


def _family(version: int) -> int:
    return socket.AF_INET if version == 4 else socket.AF_INET6


def _scope(version: int) -> int:
    return _LINK_SCOPE if version == 4 else 0
