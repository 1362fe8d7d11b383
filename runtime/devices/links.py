# SPDX-License-Identifier: Apache-2.0
"""Devices by our own rtnetlink messages: for requests that pyroute2 lacks, or without pyroute2."""

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import netlink as requests
from policyc.runtime.kernel.netlink import ACKNOWLEDGE, Attributes, unpacked

_SOL_NETLINK, _STRICT = 270, 12  # NETLINK_GET_STRICT_CHK
_DELETE_LINK, GET_LINK, GET_ADDRESS = 17, 18, 22  # RTM_*
LINK = struct.Struct("=BxHiII")  # ifinfomsg
INFO, KIND, OF_KIND = 18, 1, 2  # IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA
_LINK_ADDRESS, _VXLAN_PORT = 1, 15  # IFLA_ADDRESS, IFLA_VXLAN_PORT
GONE = (errno.ENODEV, errno.EINVAL)


@contextmanager
def connection(why: str) -> Iterator[socket.socket]:
    """A netlink socket; if the kernel refuses, `HostError` begins with `why`."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as made:
            made.setsockopt(_SOL_NETLINK, _STRICT, 1)
            yield made
    except OSError as error:
        raise HostError(f"{why}: {error.strerror}") from error


def about(netlink: socket.socket, ifindex: int) -> Attributes:
    """The attributes of a device; nothing if it vanished meanwhile."""
    try:
        ((_, found),) = asked(netlink, GET_LINK, LINK.pack(0, 0, ifindex, 0, 0), {}, 0)
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise
    return found


def kind_of(info: Attributes) -> bytes:
    """The kind of a device, from its IFLA_LINKINFO."""
    return info.get(KIND, b"").rstrip(b"\0")


def remove_veth(name: str, mac: str) -> None:
    """Remove the veth with that name and address; other devices of the name are left alone."""

    def is_it(of: Attributes) -> bool:
        info = unpacked(of.get(INFO, b""))
        return kind_of(info) == b"veth" and of.get(_LINK_ADDRESS) == bytes.fromhex(
            mac.replace(":", "")
        )

    _remove(name, is_it)


def remove_vxlan(name: str, port: int) -> None:
    """Remove the VXLAN device with that name and UDP port; other devices of the name are left alone."""

    def is_it(of: Attributes) -> bool:
        info = unpacked(of.get(INFO, b""))
        found = unpacked(info.get(OF_KIND, b"")).get(_VXLAN_PORT)
        return kind_of(info) == b"vxlan" and found == port.to_bytes(2, "big")

    _remove(name, is_it)


def _remove(name: str, is_it: Callable[[Attributes], bool]) -> None:
    try:
        ifindex = socket.if_nametoindex(name)
    except OSError:
        return
    with connection(f"cannot remove the device {name}") as netlink:
        if not is_it(about(netlink, ifindex)):
            return
        try:
            asked(netlink, _DELETE_LINK, LINK.pack(0, 0, ifindex, 0, 0), {}, ACKNOWLEDGE)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise


def asked(
    netlink: socket.socket, kind: int, head: bytes, attributes: Attributes, flags: int
) -> list[tuple[bytes, Attributes]]:
    """The header and the attributes of each object in the kernel's answer."""
    answer = requests.asked(netlink, kind, head + requests.packed(attributes), flags)
    return [(message, unpacked(message[len(head) :])) for message in answer]
