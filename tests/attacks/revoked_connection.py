# SPDX-License-Identifier: Apache-2.0
"""Connections of pods whose policy changes while they are open."""

import os
import socket
import time
from dataclasses import dataclass
from typing import Literal

import pytest

from tests.kernel.support.node_under_test import (
    HOSTS,
    NodeUnderTest,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

families = pytest.mark.parametrize("family", [4, 6])

TCP = socket.SOCK_STREAM

PORT = 80

SILENCE = 1.0
"""Seconds in which a stack retransmits more than once."""

Ends = tuple[str, str]

Where = Literal["ingress at the server", "egress at the client"]

BOTH_HERE: Ends = ("a", "b")

PAIRS = {"of one node": BOTH_HERE, "server elsewhere": ("a", "c"), "client elsewhere": ("c", "b")}

LOCAL_PODS = ("a", "b")


def open_policy(node: NodeUnderTest, *but: tuple[str, str]) -> TablePolicy:
    """Everything is allowed, but the egress at the first end to the second of each pair."""
    policy = node.policy()
    for src in ("a", "b", "c", "world"):
        for dst in ("a", "b", "c", "world"):
            if src != "world":
                policy.allow_egress(src, dst, ANY)
            if dst != "world":
                policy.allow_ingress(src, dst, ANY)
    return policy


def denying(node: NodeUnderTest, where: Where, client: str, server: str) -> TablePolicy:
    """The open policy, without what the client opens."""
    policy = open_policy(node)
    cells, cell = (
        (policy.ingress, (server, client))
        if where == "ingress at the server"
        else (policy.egress, (client, server))
    )
    del cells[policy.number(cell[0]), policy.number(cell[1])]
    return policy


@dataclass
class Open:
    """A connection with data under way: what each end has got so far."""

    client: socket.socket
    server: socket.socket

    def ends(self) -> tuple[tuple[socket.socket, socket.socket], ...]:
        return (self.client, self.server), (self.server, self.client)

    def talks(self) -> bool:
        """Both send, and both get it."""
        for sender, receiver in self.ends():
            data = os.urandom(100)
            sender.sendall(data)
            if received(receiver, len(data)) != data:
                return False
        return True

    def is_silent(self, *speakers: Literal["client", "server"]) -> bool:
        """The speakers send; nothing arrives while their stacks retransmit."""
        for speaker in speakers:
            getattr(self, speaker).sendall(b"after the revocation")
        end = time.monotonic() + SILENCE
        for _, receiver in self.ends():
            receiver.settimeout(max(0.05, end - time.monotonic()))
            try:
                if receiver.recv(1):
                    return False
            except TimeoutError:
                continue
        return True


def received(end: socket.socket, size: int, patience: float = 20) -> bytes:
    end.settimeout(patience)
    found = b""
    while len(found) < size:
        part = end.recv(size - len(found))
        if not part:
            break
        found += part
    return found


def connect(wire: ServiceWire, client: str, server: str, family: int) -> Open:
    listening = wire.server(server, family, TCP, PORT)
    made = wire.open_socket(client, family, TCP)
    made.settimeout(20)
    made.connect((HOSTS[server].address(family), PORT))
    listening.settimeout(20)
    accepted, _ = listening.accept()
    wire.own(accepted)
    found = Open(made, accepted)
    assert found.talks()
    return found


def cases(where: Where, ends: Ends) -> bool:
    """Whether the denied end is of the node under test."""
    return ends[1 if where == "ingress at the server" else 0] in LOCAL_PODS


CASES = [
    pytest.param(where, ends, id=f"{where}, {name}")
    for where in ("ingress at the server", "egress at the client")
    for name, ends in PAIRS.items()
    if cases(where, ends)
]
