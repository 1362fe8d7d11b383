# SPDX-License-Identifier: Apache-2.0
"""Load balancers with source ranges, and clients inside and outside of them."""

import json
from pathlib import Path

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.node_commands import Commands
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    frame,
    tcp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

OUTSIDE = Host(VIP.mac, "198.51.100.9", "2001:db8:51::9")

IN_RANGE = Host(VIP.mac, "203.0.113.9", "2001:db8:113::9")

RANGES = "--external-cidr", "203.0.113.0/24", "--external-cidr", "2001:db8:113::/48"


def objects(*at: Host) -> list[JsonValue]:
    """A Service with these external addresses, and its endpoint B."""
    external = [address for each in at for address in (each.ip4, each.ip6)]
    return [service(externalIPs=external), *slices([B])]


def written(commands: Commands, *at: Host) -> Path:
    made = commands.node.folder / "services.json"
    items = [each.raw for each in objects(*at)]
    made.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return made


def policy(node: NodeUnderTest) -> TablePolicy:
    return node.policy().allow("a", "b", ANY).allow("a", "world", ANY)


def load(commands: Commands, *options: str) -> str:
    code, said = commands.load(policy(commands.node), *options)
    assert code == 0, said
    return said


class Client:
    """Opens a connection from A at each question, from a port of its own."""

    def __init__(self, node: NodeUnderTest) -> None:
        self._node, self._sport = node, 4000

    def is_served(self, at: Host, family: int = 4) -> bool:
        """Whether a Service has the address: packets to it leave for B."""
        self._sport += 1
        segment = tcp(self._sport, PORT, SYN)
        got = self._node.leaves("a", frame(A, at, segment, family=family))
        to_b = tcp(self._sport, TARGET, SYN)
        return got == frame(A, at, to_b, family=family, daddr=B.address(family))
