# SPDX-License-Identifier: Apache-2.0
"""From Kubernetes Services (v1) and EndpointSlices (discovery.k8s.io/v1) to frontends and backends.

`read_services` takes the objects as JSON values and gives what the datapath is to do: for every
address and port of a Service, the endpoints behind it. Which of those take new connections is what
KEP-1672 says: those that are ready; where none is, those that still serve while they terminate.

Headless Services and those of type ExternalName have no addresses to translate, and give nothing.
What is not supported yet is refused, not left out.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policyc.runtime.address_value import Address
from policyc.runtime.json_value import JsonValue
from policyc.runtime.service_objects import Endpoint, EndpointSlice, Service, ServicePort, objects

PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}
"""The names of the API's `protocol`, and the numbers of the wire."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An endpoint as a Service's port reaches it."""

    address: Address
    port: int
    takes_new: bool
    """New connections go there. If not, it only keeps what TCP and SCTP have open."""
    drains: bool
    """It terminates and still serves, so that UDP goes on as well."""


@dataclass(frozen=True, slots=True)
class Frontend:
    """One address and port of a Service, and every endpoint that its EndpointSlices list for it."""

    service: str
    """NAMESPACE/NAME, for messages."""
    address: Address
    protocol: str
    port: int
    backends: tuple[Backend, ...]


def read_services(roots: Iterable[JsonValue], node: str) -> tuple[Frontend, ...]:
    """Every frontend, as this node has it (`internalTrafficPolicy: Local`), sorted.

    `InputError` where an object is wrong, asks for what is not supported, or has what another has.
    """
    services, slices = objects(roots)
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        by_service.setdefault((each.namespace, each.service), []).append(each)
    found: dict[tuple[Address, str, int], Frontend] = {}
    for service in services:
        own = by_service.get((service.namespace, service.name), [])
        for frontend in _frontends(service, own, node):
            key = frontend.address, frontend.protocol, frontend.port
            if key in found:
                service.place.fail(
                    f"{frontend.address} port {frontend.port}/{frontend.protocol} is also that of "
                    f"the Service {found[key].service}"
                )
            found[key] = frontend
    return tuple(
        sorted(found.values(), key=lambda f: (f.address.version, f.address, f.port, f.protocol))
    )


def _frontends(service: Service, slices: list[EndpointSlice], node: str) -> Iterator[Frontend]:
    for port in service.ports:
        for address in service.addresses:
            backends = _backends(service, port, slices, address.version, node)
            yield Frontend(
                f"{service.namespace}/{service.name}",
                address,
                port.protocol,
                port.port,
                backends,
            )


def _backends(
    service: Service, port: ServicePort, slices: list[EndpointSlice], family: int, node: str
) -> tuple[Backend, ...]:
    """Of one family; the same endpoint in two slices is one, and ready if it is in either."""
    listed: dict[tuple[Address, int], Endpoint] = {}
    for each in slices:
        number = each.ports.get((port.name, port.protocol))
        if each.family != family or number is None:
            continue
        if port.protocol == "SCTP" and number != port.port:
            port.place.fail(
                f"SCTP to port {port.port} goes to port {number} of the endpoints, and its "
                "checksum covers the port",
                "policyc does not compute it anew: give the Service the endpoints' port",
            )
        for endpoint in each.endpoints:
            known = listed.get((endpoint.address, number))
            if known is None or endpoint.rank > known.rank:
                listed[endpoint.address, number] = endpoint
    usable = [
        each
        for each in listed.values()
        if not service.is_local or (each.node == node and each.node != "")
    ]
    best = max((each.rank for each in usable), default=0)
    return tuple(
        Backend(
            address,
            number,
            takes_new=endpoint.rank == best > 0 and endpoint in usable,
            drains=endpoint.rank > 0,
        )
        for (address, number), endpoint in sorted(
            listed.items(), key=lambda item: (int(item[0][0]), item[0][1])
        )
    )


def packed(address: Address) -> bytes:
    """As struct pc_addr6 has it: of IPv4 in the first word."""
    return address.packed.ljust(16, b"\0")


def unpacked(raw: bytes, family: int) -> Address:
    """The other way."""
    return ipaddress.ip_address(raw[:4] if family == 4 else raw)
