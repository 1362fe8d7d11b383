# SPDX-License-Identifier: Apache-2.0
"""First and later fragments of a datagram, as frames."""

from tests.kernel.support.node_under_test import (
    A,
    B,
)
from tests.kernel.support.packets import (
    FRAGMENT,
    MORE,
    UDP,
    Host,
    fragment6,
    frame,
    frame6,
    packed,
    raw,
    udp,
)

DATAGRAM = udp(5000, 53, bytes(64)).build(packed(A.ip6), packed(B.ip6))


def first(src: Host, dst: Host, family: int, ident: int = 1) -> bytes:
    if family == 4:
        return frame(src, dst, udp(5000, 53, bytes(64)), fragment=MORE, ident=ident)
    return frame6(src, dst, FRAGMENT, fragment6(UDP, DATAGRAM, offset=0, more=True, ident=ident))


def later(src: Host, dst: Host, family: int, ident: int = 1, offset: int = 72) -> bytes:
    if family == 4:
        return frame(src, dst, raw(UDP, bytes(40)), fragment=offset // 8, ident=ident)
    return frame6(
        src, dst, FRAGMENT, fragment6(UDP, bytes(40), offset=offset, more=False, ident=ident)
    )
