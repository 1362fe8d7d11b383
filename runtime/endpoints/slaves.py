# SPDX-License-Identifier: Apache-2.0
"""Finds pods' ipvlan slaves, which are devices in the pods' network namespaces without a node's side.

A slave has to be of mode L2 with flag bridge, and its parent an uplink. Hooks at the slave and at its
parent then see every packet (docs/decisions/0053-pods-without-a-host-side-device.md).
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from policyc.runtime.devices import links
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.endpoints.local_devices import SKIP_HINT, Missing
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import namespaces
from policyc.runtime.kernel.netlink import Attributes, unpacked

T = TypeVar("T")

_ADDRESS, _LINK, _LINK_NETNSID = 1, 5, 37  # IFLA_*
_MODE, _FLAGS = 1, 2  # IFLA_IPVLAN_*
_L2, _BRIDGE = 0, 0  # IPVLAN_MODE_L2; no IPVLAN_F_*
_MODES = {0: "l2", 1: "l3", 2: "l3s"}
_FLAG_NAMES = {1: "private", 2: "vepa"}
_NUMBER, _SHORT = struct.Struct("=i"), struct.Struct("=H")
_HERE = Path("/proc/thread-self/ns/net")

_AS_PEER = (
    "to use the pod only as a peer, leave out `netns`, `interface`, `mac` and `node`; its own policies "
    "are then not enforced"
)
_REASONS: Mapping[str, str] = {
    "macvlan": "the pod can add macvlan devices to it, which get no hooks",
    "macvtap": "the pod can add macvlan devices to it, which get no hooks",
    "veth": "the pod's traffic passes the node's side of that pair",
    "netkit": "the pod's traffic passes the node's side of that pair",
}
_PAIRS = ("veth", "netkit")
_OWN_INTERFACE = "packets that bypass its queueing discipline, and those of AF_XDP, pass no hook"


@dataclass(frozen=True, slots=True)
class Slave:
    """An ipvlan slave. `ifindex` counts in its namespace, `parent` in the node's."""

    name: str  # NETNS:DEVICE
    netns: Path
    cookie: int  # of its namespace, which is never reused
    ifindex: int
    parent: int

    def run_in(self, work: Callable[[], T]) -> T:
        """Do the work in the slave's network namespace; `OSError` if that is gone or another one now."""
        with _opened(self.netns) as namespace:
            return namespaces.run_in(namespace, lambda: self._checked(work))

    def _checked(self, work: Callable[[], T]) -> T:
        if namespaces.cookie() != self.cookie:
            raise FileNotFoundError(errno.ENOENT, f"{self.netns} is another network namespace now")
        return work()


def found(
    path: Path,
    records: Iterable[EndpointRecord],
    uplinks: Mapping[str, int],
    missing: Missing,
    warn: Callable[[str], object],
) -> dict[str, Slave]:
    """The slaves of pods of the endpoints file at `path`, by name.

    A missing one is an `InputError`, or with `skip` left out with a warning. So is any other device than
    such a slave, as policies could not be enforced on it.
    """
    slaves: dict[str, Slave] = {}
    for record in records:
        if record.slave is None or record.interface is None:
            continue
        try:
            slaves[record.interface] = _found(path, record, uplinks)
        except OSError as error:
            if missing == "skip":
                warn(
                    f"the device {record.interface} of the pod {record} is missing: no packet is "
                    f"delivered to this pod"
                )
                continue
            raise InputError(
                f"{path}: {record}: there is no device {record.interface}: "
                f"{error.strerror or error}",
                "`netns` is the file of the pod's network namespace, and `interface` the name of the "
                "device in it; " + SKIP_HINT,
            ) from error
    _require_macs(slaves.values())
    return slaves


def _require_macs(slaves: Iterable[Slave]) -> None:
    """Raise `InputError` if two parents have one MAC address: by it the hooks tell a pod's parent."""
    of: dict[bytes, int] = {}
    for parent in {each.parent for each in slaves}:
        mac = mac_of(parent)
        if of.setdefault(mac, parent) != parent:
            names = " and ".join(socket.if_indextoname(each) for each in (of[mac], parent))
            raise InputError(
                f"the parents {names} of ipvlan devices have the same MAC address {mac.hex(':')}",
                "give one of them another address, and its pods' records, too",
            )


def of_node(parents: Iterable[int]) -> dict[str, int]:
    """The node's own ipvlan slaves of these parents, by which it reaches its pods: name -> ifindex."""
    wanted = {_NUMBER.pack(each) for each in parents}
    devices: dict[str, int] = {}
    with links.connection("rtnetlink cannot read the node's devices") as netlink:
        for ifindex, name in socket.if_nameindex() if wanted else ():
            about = links.about(netlink, ifindex)
            info = unpacked(about.get(links.INFO, b""))
            if links.kind_of(info) == b"ipvlan" and about.get(_LINK) in wanted:
                devices[name] = ifindex
    return devices


def mac_of(ifindex: int) -> bytes:
    """The MAC address of a device of the node, which is also that of its slaves."""
    with links.connection("rtnetlink cannot read the parent device") as netlink:
        return links.about(netlink, ifindex).get(_ADDRESS, b"")


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of a network namespace."""
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


@dataclass(frozen=True, slots=True)
class _Device:
    """A device as seen in its namespace. `parent_is_here`: its parent is in the node's namespace."""

    cookie: int
    ifindex: int
    about: Attributes
    parent_is_here: bool


def _found(path: Path, record: EndpointRecord, uplinks: Mapping[str, int]) -> Slave:
    assert record.slave is not None and record.interface is not None
    netns, device = record.slave
    with _opened(netns) as there, _opened(_HERE) as here:
        try:
            seen = namespaces.run_in(there, lambda: _look(device, here))
        except PermissionError as error:
            raise HostError(f"{netns}: this process may not enter it") from error
    parent = _checked(f"{path}: {record}: {record.interface}", record, seen, uplinks)
    return Slave(record.interface, netns, seen.cookie, seen.ifindex, parent)


def _look(device: str, node: int) -> _Device:
    """Runs in the pod's namespace; `node` is a descriptor of the node's."""
    ifindex = socket.if_nametoindex(device)
    with links.connection(f"rtnetlink cannot read the device {device}") as netlink:
        about = links.about(netlink, ifindex)
        number = about.get(_LINK_NETNSID)
        is_here = number is not None and _NUMBER.unpack(number)[0] == namespaces.id_of(
            netlink, node
        )
    return _Device(namespaces.cookie(), ifindex, about, is_here)


def _checked(where: str, record: EndpointRecord, seen: _Device, uplinks: Mapping[str, int]) -> int:
    """The parent's ifindex in the node's namespace; `InputError` for a device without support."""
    info = unpacked(seen.about.get(links.INFO, b""))
    kind = links.kind_of(info).decode(errors="replace")
    if kind != "ipvlan":
        what = f"{kind} device" if kind else "device of its own"
        reason = _REASONS.get(kind, _OWN_INTERFACE)
        hint = (
            "name the node's side in `interface`, without `netns`" if kind in _PAIRS else _AS_PEER
        )
        raise InputError(f"{where} is a {what}, on which policies are not enforced: {reason}", hint)
    of_kind = unpacked(info.get(links.OF_KIND, b""))
    mode = _SHORT.unpack(of_kind.get(_MODE, b"\xff\xff"))[0]
    flags = _SHORT.unpack(of_kind.get(_FLAGS, bytes(2)))[0]
    if (mode, flags) != (_L2, _BRIDGE):
        found = f"mode {_MODES.get(mode, mode)} {_FLAG_NAMES.get(flags, 'bridge')}"
        raise InputError(
            f"{where}: the ipvlan device has the {found}, and policies are enforced only in mode l2 "
            f"with flag bridge",
            "create the slaves of that parent with `mode l2 bridge`; " + _AS_PEER,
        )
    parent = _NUMBER.unpack(seen.about.get(_LINK, bytes(4)))[0]
    if not seen.parent_is_here or parent not in uplinks.values():
        raise InputError(
            f"{where}: the parent of the ipvlan device is not an uplink: hooks there check what "
            f"leaves the pods",
            "give its parent as --uplink DEVICE",
        )
    mac = seen.about.get(_ADDRESS, b"").hex(":")
    if mac != record.mac:
        raise InputError(
            f"{where} has the MAC address {mac}, but `mac` is {record.mac}",
            "an ipvlan slave has the MAC address of its parent",
        )
    return int(parent)
