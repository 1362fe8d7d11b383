# SPDX-License-Identifier: Apache-2.0
"""The routes by which the node itself reaches Services where no socket hook translates.

    --service-cidr CIDR  ->  route CIDR dev policyc-svc src (the node's address)

Packets on such a route never reach the peer of that veth. The hook at its egress (datapath/to_route.h)
translates and redirects them, and answers come in by the same device. One more route leads to the
address that represents the node when it is its own endpoint (datapath/hairpin_addr.h).
"""

import errno
import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.devices import (
    links,
    own_device,
)
from policyc.runtime.endpoints.endpoints import EndpointsFile
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import rtnetlink
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.settings import ServiceRouteDevice
from policyc.runtime.state import Attachment
from policyc.runtime.undo import Undo

NAME, FAR = own_device.SERVICE_ROUTE, own_device.SERVICE_ROUTE_FAR
_MAC, _FAR_MAC = "02:70:63:00:00:03", "02:70:63:00:00:04"  # PC_ROUTE_MAC; never on another wire
_PURPOSE = "--service-cidr"
_MTU = 65535
_FAMILIES = {4: 2, 6: 10}  # AF_INET, AF_INET6
_NO_ARP = 0x80
_ITSELF = {4: "169.254.255.1/32", 6: "fd70:6353:6870::1/128"}  # PC_HAIRPIN4, PC_HAIRPIN6_*

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Route:
    """A route to a range by the device, with the source address of the node's packets."""

    to: Network
    source: Address


def read(
    texts: Sequence[str], file: EndpointsFile, uplinks: Sequence[str], is_guarded: bool
) -> tuple[Route, ...]:
    """The ranges of `--service-cidr` with the node's own addresses; `InputError` for impossible ones."""
    if not texts:
        return ()
    if is_guarded:
        raise InputError(
            "--service-cidr: this node is under host policy, which would not see the node's own "
            "traffic to Services",
            "load without --service-cidr; --cgroup also serves the node's own connections to Services",
        )
    elsewhere = any(not each.is_local for each in file.endpoints) or len(file.nodes) > 1
    if elsewhere and not uplinks:
        raise InputError(
            "--service-cidr: endpoints on other nodes need an --uplink for their replies",
            "name it with --uplink",
        )
    return tuple(_route(each, file) for each in dict.fromkeys(map(_network, texts)))


def _network(text: str) -> Network:
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(
            f"--service-cidr {text}: {error}",
            "write a range as 10.96.0.0/12 or fd00:10:96::/112",
        ) from error
    if not found.prefixlen or found.is_loopback or found.is_multicast or found.is_link_local:
        raise InputError(
            f"--service-cidr {text}: this range cannot hold Services",
            "name the range that the API server allocates Service addresses from",
        )
    return found


def _route(to: Network, file: EndpointsFile) -> Route:
    held: Iterator[tuple[Address, str]] = (
        *((at, f"the pod {pod}") for pod in file.endpoints for at in pod.addresses.values()),
        *((at, f"the node {node.name}") for node in file.nodes for at in node.addresses),
    ).__iter__()
    for address, who in held:
        if address in to:
            raise InputError(
                f"--service-cidr {to}: {who} has the address {address} in this range",
                "name a range that holds only addresses of Services",
            )
    for own in file.own_addresses:
        if own.version == to.version:
            return Route(to, own)
    raise InputError(
        f"--service-cidr {to}: the endpoints file has no IPv{to.version} address of this node",
        "add that address: endpoints of Services see it as the source",
    )


def make(routes: Sequence[Route], kind: str, undo: Undo) -> tuple[Attachment, ...]:
    """Make the device if there are routes and it does not exist; gives where its hook belongs.

    A new device is down: see `start`. `InputError` if a range already has a route that is not ours.
    """
    if not routes:
        return ()
    return (Attachment(NAME, _make(routes, undo), kind, "route"),)


def _make(routes: Sequence[Route], undo: Undo) -> int:
    there = own_device.find(NAME, _MAC, _PURPOSE)
    with rtnetlink.connection(_PURPOSE) as netlink:
        _require_free(netlink, routes, there.ifindex if there else 0)
    if there is not None and there.is_up:  # otherwise a load died before it was complete
        return there.ifindex
    remove()
    undo.by(remove)
    try:
        with rtnetlink.connection(_PURPOSE) as netlink:
            far = {"ifname": FAR, "address": _FAR_MAC, "mtu": _MTU}
            netlink.link("add", ifname=NAME, kind="veth", address=_MAC, mtu=_MTU, peer=far)
            _settle_in(netlink)
    except OSError as error:
        raise HostError(
            f"cannot make the device {NAME}: {error.strerror}",
            f"check for another device named {NAME} or {FAR}",
        ) from error
    made = own_device.find(NAME, _MAC, _PURPOSE)
    if made is None:
        raise HostError(f"the device {NAME} vanished while it was made")
    return made.ifindex


def _settle_in(netlink: Any) -> None:
    """Configure the device: no neighbour resolution, and no autoconfigured address.

    The kernel's FIB lookup for an endpoint (bpf_fib_lookup) finds no neighbour if the device does not
    forward.
    """
    own_device.quieten(FAR)
    settings = {"addr_gen_mode": "1", "disable_ipv6": "0", "forwarding": "1", "accept_ra": "0"}
    for name, value in settings.items():
        with suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{NAME}/{name}").write_text(value)
    Path(f"/proc/sys/net/ipv4/conf/{NAME}/forwarding").write_text("1")
    for name in (NAME, FAR):
        (ifindex,) = netlink.link_lookup(ifname=name)
        netlink.link("set", index=ifindex, flags=_NO_ARP, mask=_NO_ARP)
    netlink.link("set", index=ifindex, state="up")  # the peer; our side gets its hook first


def _require_free(netlink: Any, routes: Sequence[Route], own: int) -> None:
    """Reject conflicting routes: our range may be inside another route's range, but not the reverse."""
    for family in {each.to.version for each in routes}:
        for found in rtnetlink.dump(partial(netlink.get_routes, family=_FAMILIES[family])):
            to = _destination(found)
            if to is None or found.get_attr("RTA_OIF") == own:
                continue
            for each in routes:
                if _is_within(to, each.to):
                    raise InputError(
                        f"--service-cidr {each.to}: there is a route to {to} already",
                        "`ip route show table all` shows it; give a range that only Services use",
                    )


def _is_within(inner: Network, outer: Network) -> bool:
    return (
        inner.version == outer.version
        and inner.network_address in outer
        and inner.broadcast_address in outer
    )


def _destination(route: Any) -> Network | None:
    """The route's range; None: it is the default route."""
    to = route.get_attr("RTA_DST")
    return ipaddress.ip_network((to, route["dst_len"]), strict=False) if to else None


def start(
    pins: Pins, ifindex: int, routes: Sequence[Route], others: Iterable[int], undo: Undo
) -> None:
    """Set the device up, now that its hook is attached.

    Its MTU is the minimum over `others`, the devices by which its packets may leave.
    """
    with ServiceRouteDevice(pins) as device:
        device.set_device(ifindex, undo)
    own_device.start(ifindex, _PURPOSE, undo)
    try:
        with rtnetlink.connection(_PURPOSE) as netlink:
            before = {_destination(each): each for each in _ours(netlink, ifindex)}
            mtu = min(_mtus(netlink, others), default=_MTU)
            for each in _with_itself(routes):
                undo.by(_restore, ifindex, each.to, before.get(each.to))
                _put(netlink, ifindex, each.to, str(each.source), mtu)
    except OSError as error:
        raise HostError(
            f"cannot route {', '.join(str(each.to) for each in routes)} to {NAME}: {error.strerror}",
            "check that this node has the addresses in the endpoints file",
        ) from error


def settle(pins: Pins, routes: Sequence[Route]) -> None:
    """Keep only these routes, after the switch; without any, remove the device, too."""
    if not routes:
        with ServiceRouteDevice(pins) as device:
            device.set_device(0, Undo())
        remove()
        return
    there = own_device.find(NAME, _MAC, _PURPOSE)
    if there is None:
        return
    wanted = {each.to for each in _with_itself(routes)}
    with rtnetlink.connection(_PURPOSE) as netlink:
        for each in _ours(netlink, there.ifindex):
            to = _destination(each)
            if to is not None and to not in wanted:
                _delete(netlink, there.ifindex, to)


def remove() -> None:
    """Remove the device and its routes; does nothing if there is none of ours."""
    links.remove_veth(NAME, _MAC)


def _with_itself(routes: Sequence[Route]) -> Iterator[Route]:
    yield from routes
    for version, source in {each.to.version: each.source for each in routes}.items():
        yield Route(ipaddress.ip_network(_ITSELF[version]), source)


def _ours(netlink: Any, ifindex: int) -> list[Any]:
    """The main table's routes by the device."""
    main = 254
    return [
        each
        for family in _FAMILIES.values()
        for each in rtnetlink.dump(partial(netlink.get_routes, family=family, table=main))
        if each.get_attr("RTA_OIF") == ifindex
    ]


def _put(netlink: Any, ifindex: int, to: Network, source: str, mtu: int) -> None:
    netlink.route(
        "replace",
        family=_FAMILIES[to.version],
        dst=str(to),
        oif=ifindex,
        prefsrc=source,
        metrics={"mtu": mtu},
    )


def _delete(netlink: Any, ifindex: int, to: Network) -> None:
    """Delete the route; does nothing if the route, or its device, is gone."""
    try:
        netlink.route("del", family=_FAMILIES[to.version], dst=str(to), oif=ifindex)
    except rtnetlink.refused() as error:
        if rtnetlink.code_of(error) not in (errno.ESRCH, errno.ENODEV):
            raise


def _restore(ifindex: int, to: Network, before: Any) -> None:
    with rtnetlink.connection(_PURPOSE) as netlink:
        if before is None:
            _delete(netlink, ifindex, to)  # which may not exist yet
            return
        metrics = before.get_attr("RTA_METRICS")
        _put(netlink, ifindex, to, before.get_attr("RTA_PREFSRC"), metrics.get_attr("RTAX_MTU"))


def _mtus(netlink: Any, devices: Iterable[int]) -> Iterator[int]:
    """The MTU of each device; none for a device that vanished meanwhile."""
    for each in devices:
        link = rtnetlink.find_link(netlink, index=each)
        if link is not None:
            yield int(link.get_attr("IFLA_MTU"))
