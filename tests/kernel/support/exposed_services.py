# SPDX-License-Identifier: Apache-2.0
"""Services with a node port, exposed to clients."""

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import (
    PORT,
    VIP,
    service,
    slices,
)

NODE_PORT = 30080

EXTERNAL = Host(VIP.mac, "192.0.2.80", "2001:db8:80::1")


def exposed(*on_nodes: tuple[Host, str], protocol: str = "TCP", **spec: object) -> list[JsonValue]:
    """A Service of type LoadBalancer, with endpoints on nodes."""
    port = {"name": "main", "protocol": protocol, "port": PORT, "nodePort": NODE_PORT}
    spec = {
        "type": "LoadBalancer",
        "ports": [port],
        "externalIPs": [EXTERNAL.ip4, EXTERNAL.ip6],
    } | spec
    found = slices([host for host, _ in on_nodes], protocol=protocol)
    for each in found:
        for endpoint, (_, node) in zip(each.raw["endpoints"], on_nodes, strict=True):
            endpoint["nodeName"] = node
    return [service(protocol=protocol, **spec), *found]
