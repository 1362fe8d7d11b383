# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices for tests, as the API server would give them."""

from collections.abc import Iterable
from pathlib import Path

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.packets import Host

VIP = Host("02:00:00:00:00:ff", "10.96.0.10", "fd96::10")
"""The address of the tests' Service; frames to it go to the node's own MAC."""
OTHER_VIP = Host("02:00:00:00:00:ff", "10.96.0.11", "fd96::11")
PORT = 80
TARGET = 8080


def service(
    name: str = "web",
    vip: Host = VIP,
    protocol: str = "TCP",
    port: int = PORT,
    **spec: object,
) -> JsonValue:
    """A Service with a ClusterIP of each family."""
    found = {
        "clusterIPs": [vip.ip4, vip.ip6],
        "ports": [{"name": "main", "protocol": protocol, "port": port, "targetPort": "main"}],
    } | spec
    return value(
        {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name), "spec": found}
    )


def slices(
    backends: Iterable[Host | tuple[Host, dict[str, bool]]],
    name: str = "web",
    protocol: str = "TCP",
    port: int = TARGET,
) -> list[JsonValue]:
    """The EndpointSlices of both families; a backend may come with its conditions."""
    listed = [each if isinstance(each, tuple) else (each, {"ready": True}) for each in backends]
    return [
        value(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": _metadata(f"{name}-{family}")
                | {"labels": {"kubernetes.io/service-name": name}},
                "addressType": f"IPv{family}",
                "ports": [{"name": "main", "protocol": protocol, "port": port}],
                "endpoints": [
                    {"addresses": [host.address(family)], "conditions": conditions}
                    for host, conditions in listed
                ],
            }
        )
        for family in (4, 6)
    ]


def web(
    *backends: Host | tuple[Host, dict[str, bool]], protocol: str = "TCP", port: int = TARGET
) -> list[JsonValue]:
    """The tests' Service, with these endpoints."""
    return [service(protocol=protocol), *slices(backends, protocol=protocol, port=port)]


def value(raw: object) -> JsonValue:
    return JsonValue(raw, Path("services.json"))


def _metadata(name: str) -> dict[str, object]:
    return {"namespace": "shop", "name": name}
