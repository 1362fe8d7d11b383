# SPDX-License-Identifier: Apache-2.0
"""Ends TCP and UDP sockets of this network namespace by their cookies: sock_diag(7), SOCK_DESTROY.

A process that waits for such a socket gets ECONNABORTED. A TCP peer gets a reset.
"""

import errno
import socket
import struct
from collections.abc import Collection, Iterator

from policyc.runtime.kernel import netlink

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY, _DESTROY = 20, 21
_REQUEST = struct.Struct("=BBBBI48s")  # inet_diag_req_v2; the last is inet_diag_sockid
_ALL_STATES = 0xFFFFFFFF
_ID_AT, _ID_SIZE = 4, 48  # in inet_diag_msg
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


def _listed(
    opened: socket.socket, family: int, protocol: int, wanted: Collection[int]
) -> Iterator[bytes]:
    request = _REQUEST.pack(family, protocol, 0, 0, _ALL_STATES, bytes(_ID_SIZE))
    for message in netlink.asked(opened, _BY_FAMILY, request, netlink.DUMP):
        ident = message[_ID_AT : _ID_AT + _ID_SIZE]
        low, high = _COOKIE.unpack_from(ident, _COOKIE_AT)
        if low | high << 32 in wanted:
            yield ident


def _end(opened: socket.socket, family: int, protocol: int, ident: bytes) -> bool:
    request = _REQUEST.pack(family, protocol, 0, 0, _ALL_STATES, ident)
    try:
        netlink.asked(opened, _DESTROY, request, netlink.ACKNOWLEDGE)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True
