# SPDX-License-Identifier: Apache-2.0
"""Links, addresses, routes and neighbours of a lab, by netlink. Runs in a child of its own.

Every leaf (a pod, or the external clients) hangs on the node by one pair, as most CNIs do it:

    leaf    its addresses as /32 and /128 on eth0, default routes by 169.254.1.1 and fe80::1
    node    fe80::1 on its side of the pair, a route to each address of the leaf

Pods of the kind ipvlan hang on the uplink instead, and so does the node, by a slave of its own that has
its addresses. Their gateway is the external host.

All neighbours are permanent, and nothing is autoconfigured. So a probe's first packet never waits for
ARP, neighbour discovery or duplicate address detection, and a quiet lab stays quiet.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Literal

from pyroute2 import IPRoute

from policyc.runtime.lab import netkit
from policyc.runtime.lab.children import enter

GATEWAY4 = "169.254.1.1"
GATEWAY6 = "fe80::1"
LEAF_INTERFACE = "eth0"

_PERMANENT = 0x80  # NUD_PERMANENT
_NO_DAD = 0x02  # IFA_F_NODAD
_SCOPE_LINK = 253

# `default` is set before a link is made, so that the link starts with it.
_QUIET = {
    # No rate limit on any type of message: a refused probe must not look like a dropped one. This sets
    # the masks, not the rates, because the kernel's global limit (50 at once) reads only the masks.
    "net/ipv4/icmp_ratemask": "0",
    "net/ipv6/icmp/ratemask": "255",  # a set, which cannot be empty; 255 is reserved
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/default/disable_ipv6": "0",
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/dad_transmits": "0",
    "net/ipv6/conf/default/accept_ra": "0",
    "net/ipv6/conf/default/addr_gen_mode": "1",  # no link-local address, no router solicitations
}
_ROUTER = {
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
}

Address = IPv4Address | IPv6Address
Pair = Literal["veth", "netkit", "netkit-l3", "ipvlan"]
"""The kind of a pair. netkit-l3 has no MAC addresses; ipvlan is no pair."""
NODE_SLAVE = "node0"
"""The node's own ipvlan slave."""
NO_MAC = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A namespace on the node: the pair's name on the node, both MAC addresses, its addresses.

    With ipvlan `interface` is the node's own slave, and `interface_mac` the gateway's.
    """

    namespace: Path
    interface: str
    interface_mac: str
    mac: str
    addresses: tuple[Address, ...]
    pair: Pair = "veth"


def wire(
    node: Path, node_addresses: Sequence[Address], uplink: str, leaves: Sequence[Leaf]
) -> None:
    """Connect the leaves to the node, whose own addresses go on the interface `uplink`.

    It moves the calling thread between namespaces, so it must run in a child.
    """
    with node.open("rb") as file:
        enter(file.fileno())
    _write_sysctls(_QUIET | _ROUTER)
    with IPRoute() as netlink:
        _set_up(netlink, "lo")
        slaves = [leaf for leaf in leaves if leaf.pair == "ipvlan"]
        for leaf in leaves:
            if leaf not in slaves:
                _add_pair(netlink, leaf)
        for leaf in slaves:
            with leaf.namespace.open("rb") as file:
                _add_slave(netlink, uplink, LEAF_INTERFACE, net_ns_fd=file.fileno())
        if slaves:
            _add_slave(netlink, uplink, NODE_SLAVE)
            _set_up(netlink, NODE_SLAVE)
        index = _index(netlink, NODE_SLAVE if slaves else uplink)
        for address in node_addresses:
            _add_address(netlink, index, address)
        for leaf in leaves:
            _route_to_leaf(netlink, leaf, node_addresses)
    for leaf in leaves:
        _furnish_leaf(leaf, node_addresses)


def _write_sysctls(values: dict[str, str]) -> None:
    for name, value in values.items():
        (Path("/proc/sys") / name).write_text(value)


def _add_pair(netlink: IPRoute, leaf: Leaf) -> None:
    with leaf.namespace.open("rb") as file:
        if leaf.pair == "veth":
            peer = {"ifname": LEAF_INTERFACE, "address": leaf.mac, "net_ns_fd": file.fileno()}
            netlink.link(
                "add", ifname=leaf.interface, kind="veth", address=leaf.interface_mac, peer=peer
            )
        else:
            is_l3 = leaf.pair == "netkit-l3"
            netkit.add(
                leaf.interface,
                LEAF_INTERFACE,
                into=file.fileno(),
                mac="" if is_l3 else leaf.interface_mac,
                peer_mac="" if is_l3 else leaf.mac,
                mode="l3" if is_l3 else "l2",
            )
    _set_up(netlink, leaf.interface)


def _add_slave(netlink: IPRoute, parent: str, name: str, **more: int) -> None:
    """An ipvlan slave in mode L2, with flag bridge."""
    netlink.link(
        "add", ifname=name, kind="ipvlan", link=_index(netlink, parent), ipvlan_mode=0, **more
    )


def _route_to_leaf(netlink: IPRoute, leaf: Leaf, node_addresses: Sequence[Address]) -> None:
    index = _index(netlink, leaf.interface)
    if leaf.pair != "ipvlan":
        _add_address(netlink, index, IPv6Address(GATEWAY6))
    for address in leaf.addresses:
        _add_neighbour(netlink, index, address, leaf.mac)
        own = next((a for a in node_addresses if a.version == address.version), None)
        source = {} if own is None else {"prefsrc": str(own)}
        _add_route(netlink, index, address, **source)


def _furnish_leaf(leaf: Leaf, node_addresses: Sequence[Address]) -> None:
    with leaf.namespace.open("rb") as file:
        enter(file.fileno())
    with IPRoute() as netlink:
        index = _index(netlink, LEAF_INTERFACE)
        _set_up(netlink, "lo")
        _write_sysctls(_QUIET | _of_interface(LEAF_INTERFACE))
        _set_up(netlink, LEAF_INTERFACE)
        for address in leaf.addresses:
            _add_address(netlink, index, address)
        for version in sorted({address.version for address in leaf.addresses}):
            _add_default_route(netlink, index, version, leaf.interface_mac)
        for address in node_addresses if leaf.pair == "ipvlan" else ():
            _add_neighbour(netlink, index, address, leaf.mac)
            _add_route(netlink, index, address)


def _of_interface(name: str) -> dict[str, str]:
    """Sysctls of the leaf's side of a pair, which was made on the node and missed `default`."""
    prefix = "net/ipv6/conf/default/"
    return {
        setting.replace("default", name): value
        for setting, value in _QUIET.items()
        if setting.startswith(prefix)
    }


def _add_default_route(netlink: IPRoute, index: int, version: int, gateway_mac: str) -> None:
    if version == 4:
        gateway: Address = IPv4Address(GATEWAY4)
        _add_route(netlink, index, gateway)
    else:
        gateway = IPv6Address(GATEWAY6)
    _add_neighbour(netlink, index, gateway, gateway_mac)
    everything = "0.0.0.0/0" if version == 4 else "::/0"
    netlink.route("add", family=_family(gateway), dst=everything, gateway=str(gateway), oif=index)


def _add_route(netlink: IPRoute, index: int, address: Address, **more: str) -> None:
    """The address is on the link."""
    netlink.route(
        "add",
        family=_family(address),
        dst=f"{address}/{address.max_prefixlen}",
        oif=index,
        scope=_SCOPE_LINK if address.version == 4 else 0,
        **more,
    )


def _add_neighbour(netlink: IPRoute, index: int, address: Address, mac: str) -> None:
    netlink.neigh(
        "add",
        family=_family(address),
        ifindex=index,
        dst=str(address),
        lladdr=mac,
        state=_PERMANENT,
    )


def _add_address(netlink: IPRoute, index: int, address: Address) -> None:
    flags = {"IFA_FLAGS": _NO_DAD} if address.version == 6 else {}
    length = 64 if address.is_link_local else address.max_prefixlen
    netlink.addr("add", index=index, address=str(address), prefixlen=length, **flags)


def _set_up(netlink: IPRoute, name: str) -> None:
    netlink.link("set", index=_index(netlink, name), state="up")


def _index(netlink: IPRoute, name: str) -> int:
    index: int = netlink.link_lookup(ifname=name)[0]
    return index


def _family(address: Address) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6
