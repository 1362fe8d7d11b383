# SPDX-License-Identifier: Apache-2.0
"""A node under host policy in namespaces, and its ports."""

import pytest

from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)

families = pytest.mark.parametrize("family", [4, 6])

OPEN, LOGGED, CLOSED, OUT, SSH = 8080, 8082, 8081, 9090, 22


def host_policy(open_port: int = OPEN) -> str:
    """Node a is under host policy: client1 reaches one port of it, and it reaches one port of any
    host.
    """
    allowed = "\n".join(
        f"  - {{action: Allow, protocol: {protocol}, source: {{nets: ["
        f'"{address("client1", family)}/{32 if family == 4 else 128}"'
        f"]}}, destination: {{ports: [{open_port}]}}}}"
        for protocol in ("TCP", "UDP")
        for family in (4, 6)
    )
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
  ingress:
  - {{action: Log, protocol: TCP, destination: {{ports: [{LOGGED}]}}}}
{allowed}
  egress:
  - {{action: Allow, protocol: TCP, destination: {{ports: [{OUT}]}}}}
  - {{action: Allow, protocol: UDP, destination: {{ports: [{OUT}]}}}}
"""


def drops(lab: TwoNodes) -> dict[str, int]:
    return lab.status("a").drops
