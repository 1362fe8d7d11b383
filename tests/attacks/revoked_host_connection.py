# SPDX-License-Identifier: Apache-2.0
"""Connections with a node under host policy whose policy changes while they are open."""

from pathlib import Path
from typing import Literal

import pytest

from tests.attacks.revoked_connection import (
    Open,
)
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import TCP
from tests.kernel.support.host_policy_wire import (
    CLOSED,
    OUT,
)
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)

Side = Literal["ingress", "egress"]

sides = pytest.mark.parametrize("side", ["ingress", "egress"])

ENDS: dict[Side, tuple[str, str, int]] = {
    "ingress": ("client1", "a", CLOSED),
    "egress": ("a", "client2", OUT),
}
"""The client, the server and its port; the node's policy of that direction decides."""


def policy(ingress: str, egress: str) -> str:
    """Rules of the node's own policy; what none of them allows is denied."""
    return f"""\
apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {{name: a-all, labels: {{role: node}}}}
spec: {{node: a, interfaceName: {UPLINK}}}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {{name: node}}
spec:
  selector: role == 'node'
  types: [Ingress, Egress]
  ingress: [{ingress}]
  egress: [{egress}]
"""


def rule(action: str, side: Side) -> str:
    return f"{{action: {action}, protocol: TCP, destination: {{ports: [{ENDS[side][2]}]}}}}"


ALL = "{action: Allow}"

OPEN = policy(ALL, ALL)

DENYING: dict[Side, str] = {
    "ingress": policy(f"{rule('Deny', 'ingress')}, {ALL}", ALL),
    "egress": policy(ALL, f"{rule('Deny', 'egress')}, {ALL}"),
}


class Bundles:
    """Compiled when they are asked for, once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Path] = {}

    def of(self, text: str) -> Path:
        if text not in self._made:
            folder = self._folder / str(len(self._made))
            folder.mkdir()
            self._made[text] = compiled(folder, text)
        return self._made[text]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return Bundles(tmp_path_factory.mktemp("revoked"))


def connect(lab: TwoNodes, client: str, server: str, port: int, family: int) -> Open:
    listening = lab.server(server, family, TCP, port)
    made = lab.connect(client, family, address(server, family), port)
    assert made
    found = Open(made, lab.accept(listening))
    assert found.talks()
    return found
