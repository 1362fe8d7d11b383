# SPDX-License-Identifier: Apache-2.0
"""Turns on fragment reassembly (nf_defrag) in this network namespace, before routing.

nf_defrag is active if some rule reads connection state. This makes one such rule in its own nf_tables
table; the rule also turns tracking off. It speaks netlink, as `nft` may be missing. nf_defrag has
priority -400, the rule -300, connection tracking -200.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator

_NETLINK_NETFILTER = 12
_SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
_BEGIN, _END = 0x10, 0x11  # NFNL_MSG_BATCH_*
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_SUBSYSTEM << 8 | kind for kind in (0, 3, 6))
_REQUEST, _ACK, _CREATE, _APPEND, _ERROR = 0x1, 0x4, 0x400, 0x800, 2
_INET = 1  # NFPROTO_INET: both families
_PREROUTING, _RAW = 0, -300
_NESTED = 0x8000
_CT_STATE, _REGISTER = 0, 1
_TABLE, _CHAIN = b"policyc\0", b"defrag\0"
_SECONDS = 10.0


def enable() -> None:
    """Turn it on for both families. `OSError` if the kernel lacks nf_tables or connection tracking."""
    messages = (
        (_BEGIN, 0, b""),
        (_NEW_TABLE, _CREATE, _attribute(1, _TABLE)),
        (_NEW_CHAIN, _CREATE, _chain()),
        (_NEW_RULE, _CREATE | _APPEND, _rule()),
        (_END, 0, b""),
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as netlink:
        netlink.bind((0, 0))
        netlink.settimeout(_SECONDS)
        netlink.send(b"".join(_message(number, *each) for number, each in enumerate(messages)))
        waiting = {number for number, each in enumerate(messages) if each[1]}
        while waiting:
            for number, code in _answers(netlink.recv(65536)):
                if code:
                    raise OSError(-code, f"nf_tables: {os.strerror(-code)}")
                waiting.discard(number)


def _chain() -> bytes:
    hook = _attribute(1, struct.pack("!I", _PREROUTING)) + _attribute(2, struct.pack("!i", _RAW))
    return _joined([(1, _TABLE), (3, _CHAIN), (4 | _NESTED, hook), (7, b"filter\0")])


def _rule() -> bytes:
    state = _joined([(1, struct.pack("!I", _REGISTER)), (2, struct.pack("!I", _CT_STATE))])
    expressions = [
        (1 | _NESTED, _joined([(1, b"ct\0"), (2 | _NESTED, state)])),
        (1 | _NESTED, _joined([(1, b"notrack\0")])),
    ]
    return _joined([(1, _TABLE), (2, _CHAIN), (4 | _NESTED, _joined(expressions))])


def _joined(attributes: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(_attribute(*each) for each in attributes)


def _attribute(kind: int, value: bytes) -> bytes:
    padding = -len(value) % 4
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(padding)


def _message(number: int, kind: int, flags: int, attributes: bytes) -> bytes:
    """A message with struct nfgenmsg; batch edges name the subsystem in it, other messages a family."""
    is_edge = kind in (_BEGIN, _END)
    family = struct.pack("!BBH", *((0, 0, _SUBSYSTEM) if is_edge else (_INET, 0, 0)))
    body = family + attributes
    flags |= _REQUEST | (0 if is_edge else _ACK)
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def _answers(data: bytes) -> Iterator[tuple[int, int]]:
    """The number of each answered message, and 0 or a negative errno."""
    at = 0
    while at + 20 <= len(data):
        size, kind, _, number, _, code = struct.unpack_from("=IHHIIi", data, at)
        if kind == _ERROR:
            yield number, code
        at += max(16, size + 3 & ~3)
