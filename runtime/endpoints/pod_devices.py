# SPDX-License-Identifier: Apache-2.0
"""Finds devices of a pod besides its veth with hooks: no policy decides their packets.

rtnetlink shows devices and addresses of another network namespace by its id in this namespace
(IFLA_TARGET_NETNSID), so no namespace has to be entered. pyroute2 lacks that request: it would filter
the devices of this namespace.
"""

import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.devices import links
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.errors import InputError
from policyc.runtime.kernel.netlink import DUMP, unpacked

_ADDRESS = struct.Struct("=BBBBI")  # ifaddrmsg
_NUMBER, _SCRUB = struct.Struct("=i"), struct.Struct("=I")
_NAME, _PEER, _MASTER = 3, 5, 10  # IFLA_IFNAME, IFLA_LINK, IFLA_MASTER
_PEER_SPACE, _LINK_SPACE = 37, 46  # IFLA_LINK_NETNSID, IFLA_TARGET_NETNSID
_PRIMARY, _MODE, _PEER_SCRUB = 2, 5, 7  # IFLA_NETKIT_*
_L3, _SCRUB_NONE = 1, 0  # NETKIT_L3, NETKIT_SCRUB_NONE
NO_MAC = "00:00:00:00:00:00"
_OWN_ADDRESS, _LOCAL_ADDRESS = 1, 2  # IFA_ADDRESS, IFA_LOCAL
_ADDRESS_SPACE = 10  # IFA_TARGET_NETNSID
_UP, _LOOPBACK = 0x1, 0x8  # IFF_*


@dataclass(frozen=True, slots=True)
class PodDevice:
    """A device in a pod's namespace that does not lead to one of our hooks."""

    name: str
    is_up: bool
    addresses: frozenset[bytes]


def require_hooks(
    path: Path,
    pods: Iterable[EndpointRecord],
    ifindexes: Mapping[str, int],
    note: Callable[[str], object],
) -> None:
    """Raise `InputError` for a pod that has its address at another device, too.

    Such a device may be a network interface of its own. The pod is one of the endpoints file at `path`.
    `note` is told of other devices that are up.

    `ifindexes` are those of the pods' devices, by name. Only the peers of veths are checked.
    """
    with _netlink() as netlink:
        for pod in pods:
            if pod.interface is None or pod.interface not in ifindexes:
                continue
            found = _others(netlink, ifindexes[pod.interface])
            own = {address.packed for address in pod.addresses.values()}
            for device in found:
                if device.addresses & own:
                    raise InputError(
                        f"{path}: {pod} also has its address on its device {device.name}, but "
                        f"policies are enforced only on {pod.interface}: traffic of the other device "
                        f"would bypass them",
                        "to use the pod only as a peer, leave out its `interface`, `mac` and `node`; "
                        "its own policies are then not enforced",
                    )
            names = " ".join(device.name for device in found if device.is_up)
            if names:
                note(f"{pod} has other devices ({names}): policies are not enforced on them")


def namespace_ids(ifindexes: Iterable[int]) -> dict[int, int]:
    """The id that this network namespace has for the namespace of each device's peer.

    A device has none if it has no peer, if the peer is in this namespace, or if the device vanished.
    """
    with _netlink() as netlink:
        about = {at: links.about(netlink, at) for at in ifindexes}
    found = {
        at: _NUMBER.unpack(each[_PEER_SPACE])[0]
        for at, each in about.items()
        if _PEER_SPACE in each
    }
    return {at: number for at, number in found.items() if number >= 0}


def require_passed(uplinks: Iterable[str], ifindexes: Mapping[str, int]) -> None:
    """Raise `InputError` for an uplink that is a bridge with pods on it, whose packets may bypass it.

    Other functions report an uplink that does not exist.
    """
    uplinks = tuple(uplinks)
    if not uplinks:
        return
    with _netlink() as netlink:
        bridges = {links.about(netlink, at).get(_MASTER): name for name, at in ifindexes.items()}
        for uplink in uplinks:
            own = _NUMBER.pack(_index(uplink))
            if own in bridges:
                raise InputError(
                    f"--uplink {uplink}: {bridges[own]}, which leads to a pod, is a port of that "
                    f"bridge, so pods' packets can bypass the uplink",
                    "name the port of the bridge that leads out of the node",
                )


def require_scrubbed(devices: Mapping[str, int], uplinks: Iterable[str] = ()) -> None:
    """Raise `InputError` for a netkit device that keeps the marks of packets that its peer sends.

    Hooks recognise our own packets by marks. Linux before 6.12 clears every mark, and has no such mode.
    """
    with _netlink() as netlink:
        for name, ifindex in {**devices, **{each: _index(each) for each in uplinks}}.items():
            info = unpacked(links.about(netlink, ifindex).get(links.INFO, b""))
            if links.kind_of(info) != b"netkit":
                continue
            scrub = unpacked(info.get(links.OF_KIND, b"")).get(_PEER_SCRUB)
            if scrub == _SCRUB.pack(_SCRUB_NONE):
                raise InputError(
                    f"{name}: this netkit device does not scrub its peer's packets (peer scrub "
                    f"none), so the peer could forge the marks of the node's own packets",
                    "create the device with `peer scrub default`",
                )


def require_macs(path: Path, pods: Iterable[EndpointRecord], ifindexes: Mapping[str, int]) -> None:
    """Raise `InputError` for a pod without a MAC address whose device is not netkit in mode L3.

    The pod is one of the endpoints file at `path`. Only that mode has no addresses (NETKIT_L3).
    """
    without = [each for each in pods if each.mac == NO_MAC and each.interface in ifindexes]
    if not without:
        return
    with _netlink() as netlink:
        for pod in without:
            assert pod.interface
            info = unpacked(links.about(netlink, ifindexes[pod.interface]).get(links.INFO, b""))
            of_kind = unpacked(info.get(links.OF_KIND, b""))
            is_l3 = of_kind.get(_MODE) == _SCRUB.pack(_L3)
            if not (links.kind_of(info) == b"netkit" and is_l3):
                raise InputError(
                    f"{path}: {pod}: {pod.interface} is not netkit in mode L3, so the pod has a MAC "
                    f"address, but `mac` is {NO_MAC}",
                    "give the address of the pod's own device: `ip link` in its network namespace",
                )


def is_pair_to_elsewhere(ifindexes: Iterable[int]) -> dict[int, bool]:
    """Whether each device is a veth or netkit whose peer is in another network namespace.

    A vanished device is not one. IFLA_LINK_NETNSID exists only if the peer is in another namespace.
    """
    found: dict[int, bool] = {}
    with _netlink() as netlink:
        for each in ifindexes:
            about = links.about(netlink, each)
            kind = links.kind_of(unpacked(about.get(links.INFO, b"")))
            found[each] = kind in (b"veth", b"netkit") and _PEER_SPACE in about
    return found


def netkit_devices(devices: Mapping[str, int]) -> dict[str, int]:
    """Those (name -> ifindex) that are netkit, and by which both sides can be given programs."""
    found: dict[str, int] = {}
    with _netlink() as netlink:
        for name, ifindex in devices.items():
            info = unpacked(links.about(netlink, ifindex).get(links.INFO, b""))
            of_kind = unpacked(info.get(links.OF_KIND, b""))
            if links.kind_of(info) == b"netkit" and of_kind.get(_PRIMARY) == b"\1":
                found[name] = ifindex
    return found


def _index(device: str) -> int:
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def _netlink() -> AbstractContextManager[socket.socket]:
    return links.connection("rtnetlink cannot read the pods' devices")


def _others(netlink: socket.socket, ifindex: int) -> list[PodDevice]:
    """The other devices; none if the device has no peer in another namespace, or vanishes meanwhile."""
    about = links.about(netlink, ifindex)
    if _PEER_SPACE not in about or _PEER not in about:
        return []
    try:
        return list(_in_namespace(netlink, about[_PEER_SPACE], about[_PEER]))
    except OSError as error:
        if error.errno in links.GONE:
            return []
        raise


def _in_namespace(netlink: socket.socket, number: bytes, peer: bytes) -> Iterator[PodDevice]:
    addresses: dict[int, set[bytes]] = {}
    everywhere = _ADDRESS.pack(0, 0, 0, 0, 0)
    for head, about in links.asked(
        netlink, links.GET_ADDRESS, everywhere, {_ADDRESS_SPACE: number}, DUMP
    ):
        at = _ADDRESS.unpack_from(head)[4]
        address = about.get(_LOCAL_ADDRESS, about.get(_OWN_ADDRESS, b""))
        addresses.setdefault(at, set()).add(address)
    every = links.LINK.pack(0, 0, 0, 0, 0)
    for head, about in links.asked(netlink, links.GET_LINK, every, {_LINK_SPACE: number}, DUMP):
        _, _, ifindex, flags, _ = links.LINK.unpack_from(head)
        if flags & _LOOPBACK or _NUMBER.pack(ifindex) == peer:
            continue
        name = about[_NAME].rstrip(b"\0").decode(errors="replace")
        yield PodDevice(name, bool(flags & _UP), frozenset(addresses.get(ifindex, ())))
