# SPDX-License-Identifier: Apache-2.0
"""Requests to Services over real sockets."""

import socket

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.node_under_test import HOSTS
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    service,
    slices,
    value,
)

TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM


def served(*pods: str | None, port: int = TARGET) -> list[JsonValue]:
    """The Service for TCP and UDP, with these endpoints."""
    hosts = [HOSTS[pod or "node"] for pod in pods]
    both = service(
        ports=[
            {"name": protocol.lower(), "protocol": protocol, "port": PORT}
            for protocol in ("TCP", "UDP")
        ]
    )
    found = []
    for each in slices(hosts, port=port):
        ports = [
            {"name": protocol.lower(), "protocol": protocol, "port": port}
            for protocol in ("TCP", "UDP")
        ]
        found.append(value(each.raw | {"ports": ports}))
    return [both, *found]


def received(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = end.recv(size - len(found))
        assert part, "the connection ended"
        found += part
    return found
