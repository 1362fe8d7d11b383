# SPDX-License-Identifier: Apache-2.0
"""What devices a pod has beside the one whose host's side has hooks: nobody decides what passes there.

rtnetlink shows devices and addresses of another network namespace by the number that this one has for
it (IFLA_TARGET_NETNSID), so that no namespace has to be entered. pyroute2 would not ask so, but choose
from what this namespace has.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.endpoints import EndpointRecord
from policyc.runtime.errors import HostError, InputError

_SOL_NETLINK, _STRICT = 270, 12  # NETLINK_GET_STRICT_CHK
_GET_LINK, _GET_ADDRESS = 18, 22  # RTM_*
_REQUEST, _DUMP = 0x1, 0x300  # NLM_F_*
_ERROR, _DONE = 2, 3  # NLMSG_*
_HEAD, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_LINK, _ADDRESS = struct.Struct("=BxHiII"), struct.Struct("=BBBBI")  # ifinfomsg, ifaddrmsg
_NUMBER, _SCRUB = struct.Struct("=i"), struct.Struct("=I")
_NAME, _PEER, _MASTER = 3, 5, 10  # IFLA_IFNAME, IFLA_LINK, IFLA_MASTER
_PEER_SPACE, _LINK_SPACE = 37, 46  # IFLA_LINK_NETNSID, IFLA_TARGET_NETNSID
_INFO, _KIND, _OF_KIND = 18, 1, 2  # IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA
_PEER_SCRUB, _SCRUB_NONE = 7, 0  # IFLA_NETKIT_PEER_SCRUB, NETKIT_SCRUB_NONE
_OWN_ADDRESS, _LOCAL_ADDRESS = 1, 2  # IFA_ADDRESS, IFA_LOCAL
_ADDRESS_SPACE = 10  # IFA_TARGET_NETNSID
_UP, _LOOPBACK = 0x1, 0x8  # IFF_*
_GONE = (errno.ENODEV, errno.EINVAL)

Attributes = dict[int, bytes]


@dataclass(frozen=True, slots=True)
class PodDevice:
    """A device in a pod's namespace that leads by none of ours."""

    name: str
    is_up: bool
    addresses: frozenset[bytes]


def require_hooks(
    path: Path,
    pods: Iterable[EndpointRecord],
    ifindexes: Mapping[str, int],
    note: Callable[[str], object],
) -> None:
    """`InputError` for a pod of the endpoints file at `path` that has its address at another device,
    too, as with a network interface of its own. `note` is told of other devices that are up.

    `ifindexes` are those of the pods' devices, by name. What is no veth is not looked behind.
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
                        f"{path}: {pod} has its address at its device {device.name}, too, and only what "
                        f"passes {pod.interface} is seen here: no policy would hold for the rest",
                        "to have it as a peer alone, by its labels, leave out its `interface`, `mac` "
                        "and `node`; its own policies are not enforced then",
                    )
            names = " ".join(device.name for device in found if device.is_up)
            if names:
                note(f"{pod} has other devices ({names}): no policy holds for what passes there")


def namespace_ids(ifindexes: Iterable[int]) -> dict[int, int]:
    """The id that this network namespace has for the one at the other side of each device.

    A device without another side, with it in this namespace, or that vanished meanwhile has none.
    """
    with _netlink() as netlink:
        about = {at: _about(netlink, at) for at in ifindexes}
    found = {
        at: _NUMBER.unpack(each[_PEER_SPACE])[0]
        for at, each in about.items()
        if _PEER_SPACE in each
    }
    return {at: number for at, number in found.items() if number >= 0}


def require_passed(uplinks: Iterable[str], ifindexes: Mapping[str, int]) -> None:
    """`InputError` for an uplink that is a bridge with pods on it: what they send need not pass that.

    An uplink that is not there is for others to tell of.
    """
    with _netlink() as netlink:
        bridges = {_about(netlink, at).get(_MASTER): name for name, at in ifindexes.items()}
        for uplink in uplinks:
            own = _NUMBER.pack(_index(uplink))
            if own in bridges:
                raise InputError(
                    f"--uplink {uplink}: {bridges[own]}, which leads to a pod, is a port of that "
                    "bridge, so what pods send need not pass it",
                    "name the port of the bridge that leads out of the node",
                )


def require_scrubbed(devices: Mapping[str, int], uplinks: Iterable[str] = ()) -> None:
    """`InputError` for a netkit device that keeps the marks of packets that its peer sends.

    Hooks know packets of their own by marks. Linux before 6.12 clears every mark, and has no such mode.
    """
    with _netlink() as netlink:
        for name, ifindex in {**devices, **{each: _index(each) for each in uplinks}}.items():
            info = _attributes(_about(netlink, ifindex).get(_INFO, b""))
            if _kind(info) != b"netkit":
                continue
            scrub = _attributes(info.get(_OF_KIND, b"")).get(_PEER_SCRUB)
            if scrub == _SCRUB.pack(_SCRUB_NONE):
                raise InputError(
                    f"{name}: this netkit device does not scrub what its peer sends (peer scrub none), "
                    "so the peer could set marks by which the node knows its own packets",
                    "create it with `peer scrub default`",
                )


def is_veth_to_elsewhere(ifindexes: Iterable[int]) -> dict[int, bool]:
    """Of each device: whether it is a veth whose peer is in another network namespace. One that is gone
    is none. IFLA_LINK_NETNSID is there only where the peer is not here.
    """
    found: dict[int, bool] = {}
    with _netlink() as netlink:
        for each in ifindexes:
            about = _about(netlink, each)
            kind = _kind(_attributes(about.get(_INFO, b"")))
            found[each] = kind == b"veth" and _PEER_SPACE in about
    return found


def _kind(info: Attributes) -> bytes:
    return info.get(_KIND, b"").rstrip(b"\0")


def _index(device: str) -> int:
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


@contextmanager
def _netlink() -> Iterator[socket.socket]:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as made:
            made.setsockopt(_SOL_NETLINK, _STRICT, 1)
            yield made
    except OSError as error:
        raise HostError(
            f"rtnetlink does not tell what devices the pods have: {error.strerror}"
        ) from error


def _about(netlink: socket.socket, ifindex: int) -> Attributes:
    """Nothing of a device that has gone meanwhile."""
    try:
        ((_, about),) = _asked(netlink, _GET_LINK, _LINK.pack(0, 0, ifindex, 0, 0), {}, 0)
    except OSError as error:
        if error.errno in _GONE:
            return {}
        raise
    return about


def _others(netlink: socket.socket, ifindex: int) -> list[PodDevice]:
    """Nothing where the device has no other side elsewhere, or goes meanwhile."""
    about = _about(netlink, ifindex)
    if _PEER_SPACE not in about or _PEER not in about:
        return []
    try:
        return list(_in_namespace(netlink, about[_PEER_SPACE], about[_PEER]))
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise


def _in_namespace(netlink: socket.socket, number: bytes, peer: bytes) -> Iterator[PodDevice]:
    addresses: dict[int, set[bytes]] = {}
    everywhere = _ADDRESS.pack(0, 0, 0, 0, 0)
    for head, about in _asked(netlink, _GET_ADDRESS, everywhere, {_ADDRESS_SPACE: number}, _DUMP):
        at = _ADDRESS.unpack_from(head)[4]
        address = about.get(_LOCAL_ADDRESS, about.get(_OWN_ADDRESS, b""))
        addresses.setdefault(at, set()).add(address)
    every = _LINK.pack(0, 0, 0, 0, 0)
    for head, about in _asked(netlink, _GET_LINK, every, {_LINK_SPACE: number}, _DUMP):
        _, _, ifindex, flags, _ = _LINK.unpack_from(head)
        if flags & _LOOPBACK or _NUMBER.pack(ifindex) == peer:
            continue
        name = about[_NAME].rstrip(b"\0").decode(errors="replace")
        yield PodDevice(name, bool(flags & _UP), frozenset(addresses.get(ifindex, ())))


def _asked(
    netlink: socket.socket, kind: int, head: bytes, attributes: Attributes, flags: int
) -> list[tuple[bytes, Attributes]]:
    """Header and attributes of each object that the kernel answers with."""
    body = head + b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), name) + value
        for name, value in attributes.items()
    )
    netlink.send(_HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | flags, 0, 0) + body)
    found: list[tuple[bytes, Attributes]] = []
    while True:
        for answer, message in _messages(netlink.recv(1 << 16)):
            # A list that the kernel cannot give ends with the reason.
            if answer in (_DONE, _ERROR) and (code := -_NUMBER.unpack_from(message)[0]):
                raise OSError(code, os.strerror(code))
            if answer in (_DONE, _ERROR):
                return found
            found.append((message, _attributes(message[len(head) :])))
            if not flags:
                return found


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, kind, *_ = _HEAD.unpack_from(data)
        yield kind, data[_HEAD.size : size]
        data = data[(size + 3) & ~3 :]


def _attributes(data: bytes) -> Attributes:
    found: Attributes = {}
    while len(data) >= _ATTRIBUTE.size:
        size, name = _ATTRIBUTE.unpack_from(data)
        found[name & 0x3FFF] = data[_ATTRIBUTE.size : size]
        data = data[(size + 3) & ~3 :]
    return found
