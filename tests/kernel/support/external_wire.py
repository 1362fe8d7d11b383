# SPDX-License-Identifier: Apache-2.0
"""External clients of node ports, in namespaces: two nodes, a tunnel, Services."""

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.tunnel import PORT as TUNNEL_PORT
from policyc.runtime.devices.uplinks import Outside
from tests.kernel.support.arrival import WAITS, arrived_from, is_silent
from tests.kernel.support.bundles import (
    compiled,
    policy_for_web,
)
from tests.kernel.support.packets import packed
from tests.kernel.support.service_yaml import (
    service,
    slices,
    value,
)
from tests.kernel.support.two_nodes import (
    CLIENT1,
    EXTERNAL,
    PODS,
    TwoNodes,
    address,
)

families = pytest.mark.parametrize("family", [4, 6])

TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM

PORT, NODE_PORT, TARGET = 80, 30080, 8080

BULK = 3_000_000

PORT_OF_TUNNEL = TUNNEL_PORT.to_bytes(2, "big")

REQUESTS, ANSWERS = b"\x70\x63\x01", b"\x70\x63\x02"
"""PC_VNI_REQUEST, PC_VNI_REPLY."""

POLICY = policy_for_web(*CLIENT1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """client1 alone may reach the pods."""
    return compiled(tmp_path_factory.mktemp("outside"), POLICY)


def services(
    *names: str,
    node_port: int = NODE_PORT,
    annotations: dict[str, str] | None = None,
    of: str = "web",
    **spec: object,
) -> list[JsonValue]:
    """One of type NodePort, with an external IP, for TCP and UDP; its endpoints are these."""
    ports = [
        {"name": name, "protocol": name.upper(), "port": PORT, "nodePort": node_port}
        for name in ("tcp", "udp")
    ]
    exposed = {"type": "NodePort", "ports": ports, "externalIPs": list(EXTERNAL.values())} | spec
    made = service(of, **exposed)
    metadata = made.raw["metadata"] | {"annotations": annotations}
    found = [value(made.raw | {"metadata": metadata})]
    for each in slices([], name=of):
        family = int(each.raw["addressType"][-1])
        found.append(
            value(
                each.raw
                | {
                    "ports": [
                        {"name": name, "protocol": name.upper(), "port": TARGET}
                        for name in ("tcp", "udp")
                    ],
                    "endpoints": [
                        {
                            "addresses": [address(name, family)],
                            "conditions": {"ready": True},
                            "nodeName": PODS.get(name, name),
                        }
                        for name in names
                    ],
                }
            )
        )
    return found


def loaded(lab: TwoNodes, bundle: Path, *names: str, return_path: Outside = "tunnel") -> None:
    for node in ("a", "b"):
        lab.load(node, bundle, services(*names), return_path)


def exchange(client: socket.socket, server: socket.socket, size: int) -> None:
    """Both send at once, and get it whole."""
    data = os.urandom(size)
    failures: list[BaseException] = []

    def send(end: socket.socket) -> None:
        try:
            end.sendall(data)
        except OSError as failure:
            failures.append(failure)

    for end in (client, server):
        end.settimeout(WAITS)
    senders = [threading.Thread(target=send, args=(end,)) for end in (client, server)]
    for each in senders:
        each.start()
    for end in (client, server):
        found = bytearray()
        while len(found) < size:
            part = end.recv(1 << 16)
            assert part, "the connection ended"
            found += part
        assert found == data
    for each in senders:
        each.join()
    assert not failures


TOO_BIG = 1.0
"""Seconds of silence after which a datagram counts as too big: one that is late would be sent twice."""


def received(
    end: socket.socket, sender: socket.socket, data: bytes, *to: tuple[str, int]
) -> tuple[bytes, tuple[str, int]]:
    """A datagram; sent again if it was too big for the tunnel, of which the sender has heard."""
    if is_silent(end, TOO_BIG):
        if not to:  # a connected socket says first what it has heard
            assert sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in (0, errno.EMSGSIZE)
        sender.sendto(data, *(to or [sender.getpeername()]))
    found, peer = arrived_from(end, 9000)
    return found, peer


def accepted(listening: socket.socket) -> tuple[socket.socket, str]:
    server, peer = listening.accept()
    return server, str(peer[0])


def frames_of(capture: socket.socket) -> list[bytes]:
    """What was captured so far."""
    found = []
    while True:
        try:
            found.append(capture.recv(1 << 16))
        except BlockingIOError:
            return found


def to_node_port(frames: list[bytes], family: int) -> int:
    """How many of the frames are to the node port of node a, as the client sent them."""
    at, port, size = (30, 36, 4) if family == 4 else (38, 56, 16)
    target = packed(address("a", family))
    return sum(
        each[at : at + size] == target and each[port : port + 2] == NODE_PORT.to_bytes(2, "big")
        for each in frames
    )


def is_plain_answer(frame: bytes, family: int, source: str, port: int) -> bool:
    """TCP from the Service itself, not in a tunnel."""
    at, head = (12, 20) if family == 4 else (8, 40)
    size = 4 if family == 4 else 16
    proto = frame[14 + (9 if family == 4 else 6)]
    return (
        proto == 6
        and frame[14 + at : 14 + at + size] == packed(source)
        and frame[14 + head : 14 + head + 2] == port.to_bytes(2, "big")
    )


def is_tunnelled(frame: bytes) -> bool:
    return frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == PORT_OF_TUNNEL


OFFLOADS = [
    (True, True),
    pytest.param((True, False), marks=pytest.mark.slow),
    pytest.param((False, True), marks=pytest.mark.slow),
    (False, False),
]
"""What devices do for their stacks: checksums, and cutting large packets. These are all four."""
