# SPDX-License-Identifier: Apache-2.0
"""The program at the peer of a netkit device: it sends out what the pod's hook would send out, alike.

It runs here on frames, beside the hook. Real packets take it in the guests (tests/guest/netkit).
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from tests.eventually import eventually
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bundles import compiled
from tests.kernel.support.node_under_test import NEXT, run_through
from tests.kernel.support.packets import FIN, MORE, SYN, Host, Payload, frame, raw, tcp, udp
from tests.kernel.support.two_nodes import TwoNodes, address

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
REDIRECT = 7
TARGET, TUNNEL = 8080, 8477
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress, Egress]
  ingress: [{}]
  egress: [{}]
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that allows pods every connection."""
    return compiled(tmp_path_factory.mktemp("opened"), POLICY)


@dataclass
class Conversation:
    """pod-a and client1 exchange datagrams, whose later ones leave by a redirect."""

    lab: TwoNodes
    family: int

    def __post_init__(self) -> None:
        lab, family = self.lab, self.family
        self.server = lab.server("client1", family, socket.SOCK_DGRAM, TARGET)
        self.client = lab.open_socket("pod-a", family, socket.SOCK_DGRAM)
        self.client.connect((address("client1", family), TARGET))
        self.port = int(self.client.getsockname()[1])
        self.server.settimeout(WAITS)
        for _ in range(5):
            self.exchange()

    def exchange(self) -> None:
        self.client.send(b"question")
        _, peer = self.server.recvfrom(100)
        self.server.sendto(b"answer", peer)
        self.client.recv(100)

    def sent(self, payload: Payload | None = None, **lies: object) -> bytes:
        """The next datagram as the pod's device sends it, but for the lies."""
        device = self.lab.device("pod-a")
        gateway = self.lab.at["a"].network.mac(device)
        ends = (
            Host(mac, address(name, 4), address(name, 6))
            for name, mac in (("pod-a", self.lab.mac("pod-a")), ("client1", gateway))
        )
        return frame(*ends, payload or udp(self.port, TARGET), family=self.family, **lies)  # type: ignore[arg-type]

    def through(self, program: str, data: bytes, came_in: bool, mark: int = 0) -> tuple[int, bytes]:
        """The verdict of the program on the frame, and the frame that it leaves."""
        node = self.lab.at["a"]
        device = node.network.index(self.lab.device("pod-a"))

        def run() -> tuple[int, bytes]:
            with bpf_syscall.obj_get(Pins(self.lab.bpffs("a")).hook(program)) as fd:
                return run_through(fd, data, device, device if came_in else 0, mark)

        return node.within(run)

    def at_peer(self, data: bytes, mark: int = 0) -> tuple[int, bytes]:
        return self.through("pc_from_netkit", data, came_in=False, mark=mark)

    def at_hook(self, data: bytes) -> tuple[int, bytes]:
        return self.through("pc_from_pod", data, came_in=True)


@families
def test_it_sends_out_what_the_hook_sends_out_and_as_the_hook_does(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Conversation(lab, family)
    sent = talk.sent()
    eventually(lambda: talk.at_hook(sent)[0] == REDIRECT, "the hook redirects")
    verdict, left = talk.at_peer(sent)
    assert (verdict, left) == talk.at_hook(sent)
    assert left[:12] != sent[:12], "from the node's MAC to the router's"


LIES: dict[str, Callable[[Conversation], bytes]] = {
    "another MAC": lambda talk: talk.sent(smac="02:00:00:00:00:77"),
    "another pod's address": lambda talk: talk.sent(saddr=address("pod-b", talk.family)),
    "an unknown connection": lambda talk: talk.sent(udp(talk.port, TARGET + 1)),
    "to the tunnel's port": lambda talk: talk.sent(udp(talk.port, TUNNEL)),
    "TCP's first packet": lambda talk: talk.sent(tcp(talk.port, TARGET, SYN)),
    "TCP without a connection": lambda talk: talk.sent(tcp(talk.port, TARGET, FIN)),
    "another protocol": lambda talk: talk.sent(raw(50, bytes(20))),
    "the last hop": lambda talk: talk.sent(**{"ttl" if talk.family == 4 else "hop_limit": 1}),
    "cut short": lambda talk: talk.sent()[: 38 if talk.family == 4 else 58],
    "ARP": lambda talk: talk.sent()[:12] + b"\x08\x06" + bytes(28),
}


@families
@pytest.mark.parametrize("lie", LIES)
def test_it_leaves_all_else_to_the_hook_unchanged(
    lab: TwoNodes, opened: Path, family: int, lie: str
) -> None:
    lab.load("a", opened, None)
    talk = Conversation(lab, family)
    sent = talk.sent()
    eventually(lambda: talk.at_peer(sent)[0] == REDIRECT, "the program redirects")
    other = LIES[lie](talk)
    assert talk.at_peer(other) == (NEXT, other)


@families
def test_it_leaves_a_marked_packet_to_the_hook(lab: TwoNodes, opened: Path, family: int) -> None:
    lab.load("a", opened, None)
    talk = Conversation(lab, family)
    sent = talk.sent()
    eventually(lambda: talk.at_peer(sent)[0] == REDIRECT, "the program redirects")
    assert talk.at_peer(sent, mark=0x10) == (NEXT, sent)


def test_it_leaves_fragments_to_the_hook(lab: TwoNodes, opened: Path) -> None:
    lab.load("a", opened, None)
    talk = Conversation(lab, 4)
    eventually(lambda: talk.at_peer(talk.sent())[0] == REDIRECT, "the program redirects")
    for word in (MORE, 3):
        part = talk.sent(fragment=word)
        assert talk.at_peer(part) == (NEXT, part)


@families
def test_it_leaves_the_first_packet_after_a_new_policy_to_the_hook(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Conversation(lab, family)
    sent = talk.sent()
    eventually(lambda: talk.at_peer(sent)[0] == REDIRECT, "the program redirects")
    lab.load("a", opened, None)
    assert talk.at_peer(sent) == (NEXT, sent)
    talk.exchange()
    eventually(lambda: talk.at_peer(sent)[0] == REDIRECT, "the program redirects again")


@families
def test_it_leaves_what_the_stack_is_to_route_to_the_hook(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None, forward="stack")
    talk = Conversation(lab, family)
    assert talk.at_peer(talk.sent()) == (NEXT, talk.sent())
