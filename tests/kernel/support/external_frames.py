# SPDX-License-Identifier: Apache-2.0
"""Frames of external clients of a node port."""

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.node_under_test import (
    NODE,
    WORLD,
    A,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.service_yaml import (
    TARGET,
    service,
    slices,
)

EXTERNAL = Host(NODE.mac, "192.0.2.80", "2001:db8:80::1")

ROUTER = Host(WORLD.mac, "198.51.100.1", "2001:db8:51::1")


def served(*pods: Host, protocol: str = "TCP", port: int = TARGET) -> list[JsonValue]:
    """A Service with an external IP, and these endpoints."""
    external = service(protocol=protocol, externalIPs=[EXTERNAL.ip4, EXTERNAL.ip6])
    return [external, *slices(pods, protocol=protocol, port=port)]


def sent(payload: Payload, family: int = 4, client: Host = WORLD) -> bytes:
    return frame(client, EXTERNAL, payload, family=family)


def answer(payload: Payload, family: int = 4) -> bytes:
    """What pod a answers, as the stack sends it on."""
    return frame(NODE, WORLD, payload, family=family, saddr=A.address(family))


def answered(payload: Payload, family: int = 4) -> bytes:
    """The same as the client gets it."""
    return frame(NODE, WORLD, payload, family=family, saddr=EXTERNAL.address(family))
