# SPDX-License-Identifier: Apache-2.0
"""A sender of fragments over a wire, and what arrives."""

import random
import socket
from collections.abc import Sequence
from dataclasses import replace

from tests.kernel.support.fragments import (
    cut,
    send,
    udp_segment,
)
from tests.kernel.support.node_under_test import HOSTS
from tests.kernel.support.packets import Host
from tests.kernel.support.service_wire import (
    DEVICES,
    ServiceWire,
)
from tests.kernel.support.wire import link_address

SIZES = (1200, 800, 1000)

SPORT = 5000


class Sender:
    """A pod whose datagrams are fragmented by hand."""

    def __init__(self, wire: ServiceWire, pod: str, to: Host, family: int) -> None:
        self.wire, self.pod, self.family = wire, pod, family
        self.me = HOSTS[pod]
        self.to = replace(to, mac=link_address(DEVICES[pod]))
        self.ident = random.randrange(1, 60000)

    def frames(
        self, data: bytes, port: int, sizes: Sequence[int] = SIZES, **ip: int
    ) -> list[bytes]:
        self.ident += 1
        segment = udp_segment(self.me, self.to, SPORT, port, data, self.family)
        return cut(self.me, self.to, segment, sizes, self.family, ident=self.ident, **ip)

    def send(self, frames: Sequence[bytes]) -> None:
        self.wire.within(self.pod, lambda: send(f"{DEVICES[self.pod]}.p", frames))

    def send_in(self, order: Sequence[int], data: bytes, port: int, **ip: int) -> None:
        frames = self.frames(data, port, **ip)
        self.send([frames[at] for at in order])


def _captured(wire: ServiceWire, pod: str) -> socket.socket:
    def there() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.bind((f"{DEVICES[pod]}.p", 3))
        made.setblocking(False)
        return made

    return wire.within(pod, there)
