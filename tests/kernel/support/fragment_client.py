# SPDX-License-Identifier: Apache-2.0
"""An external client that sends and receives fragments."""

from collections.abc import Sequence

from tests.kernel.support.fragments import (
    cut,
    send,
    udp_segment,
)
from tests.kernel.support.packets import Host
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)
from tests.kernel.support.wire import link_address

SPORT = 5000


def host(lab: TwoNodes, name: str, device: str) -> Host:
    mac = lab.at[name].within(lambda: link_address(device))
    return Host(mac, address(name, 4), address(name, 6))


class Client:
    """Fragments its datagrams by hand."""

    def __init__(self, lab: TwoNodes, name: str, to: str) -> None:
        self.lab, self.name = lab, name
        self.me = host(lab, name, UPLINK)
        router = lab.at["router"].within(lambda: link_address(f"to-{name}"))
        self.to = Host(router, address(to, 4), address(to, 6))
        self.ident = 0

    def send(self, order: Sequence[int], data: bytes, port: int, family: int) -> None:
        self.ident += 1
        segment = udp_segment(self.me, self.to, SPORT, port, data, family)
        frames = cut(self.me, self.to, segment, (1200, 1200), family, ident=self.ident)
        ordered = [frames[at] for at in order]
        self.lab.at[self.name].within(lambda: send(UPLINK, ordered))
