# SPDX-License-Identifier: Apache-2.0
"""Random changes of Services."""

from dataclasses import replace
from ipaddress import ip_address

from tests.kernel.support.connection_model import Packet


def changed_by(before: Packet, after: bytes | None) -> Packet | None:
    """The packet as the kernel has made it, as far as hooks may change it."""
    if after is None:
        return None
    length = 4 if before.family == 4 else 16
    ends_at = 14 + (12 if before.family == 4 else 8)
    ports_at = 14 + (20 if before.family == 4 else 40)
    src, dst = after[ends_at : ends_at + length], after[ends_at + length : ends_at + 2 * length]
    return replace(
        before,
        src=str(ip_address(src)),
        dst=str(ip_address(dst)),
        sport=int.from_bytes(after[ports_at : ports_at + 2], "big"),
        dport=int.from_bytes(after[ports_at + 2 : ports_at + 4], "big"),
    )
