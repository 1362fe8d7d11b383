# SPDX-License-Identifier: Apache-2.0
"""Two pods and a Service between them on the fast path."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.kernel.support.forwarding_pair import (
    Outcome,
    Pair,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    NEXT,
    UPLINK,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Payload,
    frame,
    tcp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
)
from tests.kernel.support.wire import Wire

REPLIED, FINS, RESET, NAT, CAME_SRC, CAME_DST, FRONT = 1, 6, 8, 512, 128, 256, 1024


class ServicePair(Pair):
    """Pod a speaks to the Service, behind which pod b is."""

    vip = VIP
    port = PORT

    def asks(self, payload: Payload, family: int = 4, **fields: object) -> bytes:
        vip = replace(self.vip, mac=self.gateways["a"])
        return frame(HOSTS["a"], vip, payload, family=family, **fields)

    def answers(self, payload: Payload, family: int = 4, **fields: object) -> bytes:
        return self.frame("b", payload, family=family, **fields)

    def forwarded(self, pod: str, payload: Payload, family: int, hops: int = 63) -> bytes:
        """The frame as the pod gets it, from its gateway."""
        source = self.vip if pod == "a" else HOSTS["a"]
        gateway = replace(source, mac=self.gateways[pod])
        word = {"ttl": hops} if family == 4 else {"hop_limit": hops}
        return frame(gateway, HOSTS[pod], payload, family=family, **word)

    def stack_brings(self, pod: str, sent: Outcome) -> bytes:
        """What the hook has made of a frame goes through the stack, to the other pod's device."""
        assert sent.verdict == NEXT
        return self.bring(pod, sent.frame)

    def shake_hands(self, family: int = 4, port: int = 4000) -> None:
        """Afterwards, packets of both directions have arrived."""
        syn, ack = tcp(port, self.port, SYN), tcp(TARGET, port, SYN | ACK)
        self.stack_brings("b", self.send("a", self.asks(syn, family)))
        self.stack_brings("a", self.send("b", self.answers(ack, family)))

    def entries(self, family: int = 4) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The pre-NAT entry and the post-NAT entry of the only connection."""
        found = self.node.connections(family)
        assert len(found) == 2
        found.sort(key=lambda each: not state_of(each) & FRONT)
        return found[0], found[1]


def state_of(entry: dict[str, bytes]) -> int:
    return int.from_bytes(entry["state"], "little")


@pytest.fixture
def pair(node: NodeUnderTest) -> Iterator[ServicePair]:
    with ExitStack() as owned:
        wire = Wire(node, owned)
        wire.move_away("b", UPLINK)
        yield ServicePair(node, wire)
