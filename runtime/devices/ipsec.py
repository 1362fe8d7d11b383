# SPDX-License-Identifier: Apache-2.0
"""Whether this network namespace has IPsec policies (`ip xfrm policy`), as datapath/ipsec.h reads it."""

import errno
import socket
import struct

from policyc.runtime.errors import HostError

_NETLINK_XFRM = 6
_REQUEST = 1  # NLM_F_REQUEST
_ERROR = 2  # NLMSG_ERROR
_GET_COUNTS, _GET_DEFAULTS = 0x25, 0x28  # XFRM_MSG_GETSPDINFO, XFRM_MSG_GETDEFAULT
_COUNTS = 1  # XFRMA_SPD_INFO: struct xfrmu_spdinfo
_BLOCK = 1  # XFRM_USERPOLICY_BLOCK
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr


def has_policies() -> bool:
    """Whether there is a policy in some direction, or a default that blocks.

    Policies of single sockets do not count. A kernel without IPsec has none.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_XFRM) as xfrm:
            counts = _counts(_ask(xfrm, _GET_COUNTS))
            return any(counts) or _BLOCK in _ask(xfrm, _GET_DEFAULTS)[:3]
    except OSError as error:
        if error.errno in (errno.EPROTONOSUPPORT, errno.ECONNREFUSED):
            return False
        raise HostError(f"IPsec policies cannot be read: {error.strerror}") from error


def _ask(xfrm: socket.socket, kind: int) -> bytes:
    """What follows the header in the kernel's answer."""
    payload = bytes(4)  # the flags; the kernel reads no other field
    size = _HEADER.size + len(payload)
    xfrm.send(_HEADER.pack(size, kind, _REQUEST, 0, 0) + payload)
    found = xfrm.recv(1 << 16)
    size, kind, *_ = _HEADER.unpack_from(found)
    if kind == _ERROR:
        (code,) = struct.unpack_from("=i", found, _HEADER.size)
        raise OSError(-code, errno.errorcode.get(-code, "unknown error"))
    return found[_HEADER.size : size]


def _counts(answer: bytes) -> tuple[int, ...]:
    """Policies in, out and forwarded."""
    at = 4  # behind the flags
    while at + _ATTRIBUTE.size <= len(answer):
        size, kind = _ATTRIBUTE.unpack_from(answer, at)
        if kind == _COUNTS:
            return struct.unpack_from("=3I", answer, at + _ATTRIBUTE.size)
        at += max(_ATTRIBUTE.size, size + 3 & ~3)
    raise HostError("IPsec policies cannot be read: the kernel's answer lacks their number")
