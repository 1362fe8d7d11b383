# SPDX-License-Identifier: Apache-2.0
"""The paths between an external client of a Service and its endpoint, and datagrams that take them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from policyc.runtime.attach import xdp
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.external_wire import NODE_PORT, PORT, TARGET, UDP, services
from tests.kernel.support.linked_nodes import OwnLink, SameLink
from tests.kernel.support.two_nodes import EXTERNAL, NODES, TwoNodes, address

QUESTION = b"question" * 30
"""More bytes than the kernel checks at once."""


class Case(NamedTuple):
    """How the client's packets reach the endpoint, and its replies the client."""

    lab: type[TwoNodes]
    endpoint: str
    to: str
    """A node, by its node port, or the external IP."""
    outside: Outside
    xdp_mode: xdp.Mode | None = None
    outer: Sequence[int] = (4, 6)
    """The families of the nodes' addresses; the tunnel has the first one."""

    @property
    def node(self) -> str:
        return self.endpoint[-1]

    def target(self, family: int) -> tuple[str, int]:
        return (address(self.to, family), NODE_PORT) if self.to else (EXTERNAL[family], PORT)


CASES = {
    "node port": Case(TwoNodes, "pod-a", "a", "tunnel"),
    "external IP": Case(TwoNodes, "pod-a", "", "tunnel"),
    "by the tunnel both ways": Case(TwoNodes, "pod-b", "a", "tunnel"),
    "by the tunnel, with DSR": Case(TwoNodes, "pod-b", "", "dsr-vxlan"),
    "by the tunnel, with XDP": Case(TwoNodes, "pod-b", "a", "tunnel", "generic"),
    "by a tunnel over IPv6": Case(TwoNodes, "pod-b", "", "dsr-vxlan", outer=(6,)),
    "by the link": Case(SameLink, "pod-b", "a", "dsr"),
    "by another link": Case(OwnLink, "pod-b", "a", "dsr-l2"),
}


@pytest.fixture
def lab(case: Case, loads: None, tmp_path: Path) -> Iterator[TwoNodes]:
    """Nothing is loaded yet. The router takes replies from either node."""
    with ExitStack() as owned:
        made = case.lab(tmp_path, owned)
        made.check_no_paths("router")
        yield made
        for node in made.loaded:
            made.unload(node)


def loaded(lab: TwoNodes, case: Case, bundle: Path, masquerade: Masquerade | None = None) -> None:
    """Both nodes, with the endpoint."""
    for node in NODES:
        found = services(case.endpoint)
        lab.load(
            node,
            bundle,
            found,
            case.outside,
            case.outer,
            xdp_mode=case.xdp_mode,
            masquerade=masquerade,
        )


class Talk:
    """A client's datagrams to the Service, and the replies."""

    def __init__(self, lab: TwoNodes, case: Case, family: int, client: str = "client1"):
        self.lab, self.node, self.family = lab, case.node, family
        self.server = lab.server(case.endpoint, family, UDP, TARGET)
        self.client = lab.open_socket(client, family, UDP)
        self.client.connect(case.target(family))
        self.peer = address(client, family)

    def ask(self, n: int = 1, reply: bytes = b"answer") -> None:
        """All are answered, and the endpoint sees the client's own address."""
        for _ in range(n):
            self.client.send(QUESTION)
            data, peer = self.server.recvfrom(1000)
            assert (data, peer[0]) == (QUESTION, self.peer)
            self.server.sendto(reply, peer)
            assert self.client.recv(len(reply) + 1) == reply

    def routed(self, n: int) -> int:
        """How many packets of so many questions and answers the stack forwards."""
        before = self.lab.routed(self.node, self.family)
        self.ask(n)
        return self.lab.routed(self.node, self.family) - before
