# SPDX-License-Identifier: Apache-2.0
"""Sockets of this network namespace by sock_diag(7).

    end(sockets)    ends TCP and UDP sockets by their cookies, SOCK_DESTROY
    listening()     where TCP sockets listen

A process that waits for an ended socket gets ECONNABORTED. A TCP peer gets a reset.
"""

import errno
import ipaddress
import socket
import struct
from collections.abc import Collection, Iterator

from policyc.runtime.kernel import netlink

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY, _DESTROY = 20, 21
_REQUEST = struct.Struct("=BBBBI48s")  # inet_diag_req_v2; the last is inet_diag_sockid
_ALL_STATES = 0xFFFFFFFF
_LISTEN = 1 << 10  # TCP_LISTEN, as a set of states
_ID_AT, _ID_SIZE = 4, 48  # in inet_diag_msg
_PORT_AT, _ADDRESS_AT = 0, 4  # in inet_diag_sockid: the socket's own, in network order
_COOKIE_AT = 40  # in inet_diag_sockid: the low word, then the high one, in host order
_COOKIE = struct.Struct("=II")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def end(sockets: Collection[tuple[int, int]]) -> int:
    """End the sockets, given as pairs of IP protocol and cookie; the number that ended.

    A socket that closed meanwhile is left out. `OSError` (EOPNOTSUPP) if the kernel cannot end sockets
    (CONFIG_INET_DIAG_DESTROY), or cannot list those of a protocol (CONFIG_INET_UDP_DIAG).
    """
    ended = 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as opened:
        for protocol in sorted({each for each, _ in sockets}):
            wanted = {cookie for each, cookie in sockets if each == protocol}
            for family in _FAMILIES:
                for ident in list(_listed(opened, family, protocol, wanted)):
                    ended += _end(opened, family, protocol, ident)
    return ended


def listening() -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """The address and port of each TCP socket that listens.

    The kernel walks no table of established connections for it. `OSError` if it cannot list sockets
    (CONFIG_INET_DIAG).
    """
    found: list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as opened:
        for family, size in zip(_FAMILIES, (4, 16), strict=True):
            for ident in _idents(opened, family, socket.IPPROTO_TCP, _LISTEN):
                address = ipaddress.ip_address(ident[_ADDRESS_AT : _ADDRESS_AT + size])
                found.append((address, int.from_bytes(ident[_PORT_AT : _PORT_AT + 2], "big")))
    return found


def _listed(
    opened: socket.socket, family: int, protocol: int, wanted: Collection[int]
) -> Iterator[bytes]:
    for ident in _idents(opened, family, protocol, _ALL_STATES):
        low, high = _COOKIE.unpack_from(ident, _COOKIE_AT)
        if low | high << 32 in wanted:
            yield ident


def _idents(opened: socket.socket, family: int, protocol: int, states: int) -> Iterator[bytes]:
    """The inet_diag_sockid of each socket in one of the states."""
    request = _REQUEST.pack(family, protocol, 0, 0, states, bytes(_ID_SIZE))
    for message in netlink.asked(opened, _BY_FAMILY, request, netlink.DUMP):
        yield message[_ID_AT : _ID_AT + _ID_SIZE]


def _end(opened: socket.socket, family: int, protocol: int, ident: bytes) -> bool:
    request = _REQUEST.pack(family, protocol, 0, 0, _ALL_STATES, ident)
    try:
        netlink.asked(opened, _DESTROY, request, netlink.ACKNOWLEDGE)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True
