# SPDX-License-Identifier: Apache-2.0
"""Frames to a Service's address and from its endpoints."""

import struct

from tests.kernel.support.node_under_test import (
    WORLD,
    A,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.service_yaml import VIP

REPLIED, NAT, FRONT = 1, 512, 1024  # enum pc_ct_state

GATEWAY = "02:00:00:00:00:ff"

SECOND = Host(GATEWAY, WORLD.ip4, WORLD.ip6)  # an endpoint that is no pod: a node's, or outside


def to_vip(payload: Payload, family: int = 4, vip: Host = VIP) -> bytes:
    return frame(A, vip, payload, family=family)


def as_to(host: Host, payload: Payload, family: int = 4) -> bytes:
    """The same as it leaves for an endpoint: only the address is another one."""
    return frame(A, VIP, payload, family=family, daddr=host.address(family))


def answer(host: Host, payload: Payload, family: int = 4) -> bytes:
    """What an endpoint says to the client, as the node's stack forwards it."""
    return frame(Host(GATEWAY, host.ip4, host.ip6), A, payload, family=family)


def ports_of(sent: bytes | None, family: int = 4) -> tuple[int, int]:
    assert sent is not None
    at = 14 + (20 if family == 4 else 40)
    return struct.unpack_from("!HH", sent, at)


def _state(entry: dict[str, bytes]) -> int:
    return int.from_bytes(entry["state"], "little")
