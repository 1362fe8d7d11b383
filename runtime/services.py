# SPDX-License-Identifier: Apache-2.0
"""From Kubernetes Services (v1) and EndpointSlices (discovery.k8s.io/v1) to frontends and backends.

`read_services` takes the objects as JSON values and gives what the datapath is to do: for every
address and port of a Service, the endpoints behind it. Which of those take new connections is what
KEP-1672 says: those that are ready; where none is, those that still serve while they terminate.
Clients outside the cluster may be held to those of this node (KEP-1669), which are told apart.

Headless Services and those of type ExternalName have no addresses to translate, and give nothing.
What is not supported yet is refused, not left out.
"""

import hashlib
import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from policyc.runtime.address_value import Address
from policyc.runtime.json_value import JsonValue
from policyc.runtime.service_objects import (
    READY,
    Endpoint,
    EndpointSlice,
    Network,
    Service,
    ServicePort,
    objects,
)
from policyc.runtime.state import Warn, to_nobody
from policyc.runtime.uplinks import Outside

PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}
"""The names of the API's `protocol`, and the numbers of the wire."""


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The node that Services are read for, as its endpoints file has it."""

    name: str
    addresses: tuple[Address, ...] = ()
    """Where its node ports are."""
    zone: str = ""
    """Its label topology.kubernetes.io/zone, which hints of endpoints name."""
    masquerade_ports: range = range(0)
    """By which its pods leave the cluster: no node port is one of these."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An endpoint as a Service's port reaches it."""

    address: Address
    port: int
    takes_new: bool
    """New connections go there."""
    takes_local: bool
    """And those that are to stay on this node. If neither, it only keeps what TCP and SCTP have."""
    drains: bool
    """It terminates and still serves, so that UDP goes on as well."""
    node: str = ""
    """Its nodeName, if that is another node."""

    @property
    def name(self) -> bytes:
        """The same on every node."""
        return f"{self.address} {self.port}".encode()


@dataclass(frozen=True, slots=True)
class Frontend:
    """One address and port of a Service, and every endpoint that its EndpointSlices list for it."""

    service: str
    """NAMESPACE/NAME, for messages."""
    address: Address
    protocol: str
    port: int
    affinity: int
    """Seconds for which a client is sent where it was sent last; 0: not at all."""
    maglev_slots: int
    """Of the table that endpoints are chosen by; 0: by chance."""
    way_back: Outside | None
    """How clients outside are answered that came to another node; None: as the load says."""
    number: int
    """Of the Service's port and family, the same at each of its addresses and in every load."""
    is_local: bool
    """externalTrafficPolicy Local: clients outside the cluster are given this node's endpoints."""
    is_elsewhere: bool
    """internalTrafficPolicy Local: there are endpoints, and none of them is on this node."""
    is_node_port: bool
    """The node's own processes find it at the loopback address, too."""
    ranges: tuple[Network, ...] | None
    """Who may come there, of its family; None: everybody."""
    backends: tuple[Backend, ...]


def read_services(
    roots: Iterable[JsonValue], own: OwnNode, note: Warn = to_nobody
) -> tuple[Frontend, ...]:
    """Every frontend, as this node has it, sorted. `note` is told what the node cannot have.

    `InputError` where an object is wrong, asks for what is not supported, or has what another has.
    """
    services, slices = objects(roots)
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        by_service.setdefault((each.namespace, each.service), []).append(each)
    found: dict[tuple[Address, str, int], Frontend] = {}
    for service in services:
        listed = by_service.get((service.namespace, service.name), [])
        for frontend in _frontends(service, listed, own):
            key = frontend.address, frontend.protocol, frontend.port
            if key in found:
                service.place.fail(
                    f"{frontend.address} port {frontend.port}/{frontend.protocol} is also that of "
                    f"the Service {found[key].service}"
                )
            found[key] = frontend
    _note_node_ports(services, own, note)
    _note_health(services, note)
    return tuple(
        sorted(found.values(), key=lambda f: (f.address.version, f.address, f.port, f.protocol))
    )


def frontends_of(
    service: Service, slices: list[EndpointSlice], own: OwnNode
) -> tuple[Frontend, ...]:
    """Those of one Service, of which these are all the slices; `InputError` as above."""
    return tuple(_frontends(service, slices, own))


def _note_node_ports(services: Iterable[Service], own: OwnNode, note: Warn) -> None:
    """Tells of those that are nobody's on this node."""
    ports = [port for each in services for port in each.ports if port.node_port]
    if ports and not own.addresses:
        note(
            f"node ports are not served ({len(ports)} of Services): the endpoints file has no "
            f"addresses of the node {own.name} in `nodes`"
        )
    for port in ports:
        if own.addresses and not _has_node_port(port):
            note(
                f"{port.place.where}: node port {port.node_port}/SCTP is not served: its checksum "
                f"covers the port, which would become {port.port}"
            )


def _note_health(services: Iterable[Service], note: Warn) -> None:
    """Tells of what only a command that goes on can do."""
    asked = sum(each.health_port != 0 for each in services)
    if asked:
        note(
            f"health checks (healthCheckNodePort) of {asked} Services are answered by "
            "`policyc node follow` alone, while it runs"
        )


def local_endpoints(slices: Iterable[EndpointSlice], own: OwnNode) -> Counter[int]:
    """Of each family, how many addresses of the node's own are ready for a Service, by its slices."""
    ready = {
        each.address
        for listed in slices
        for each in listed.endpoints
        if each.rank == READY and each.node == own.name != ""
    }
    return Counter(address.version for address in ready)


def _has_node_port(port: ServicePort) -> bool:
    """SCTP has the endpoints' port everywhere, or none of ours: see nat.h."""
    return port.node_port != 0 and (port.protocol != "SCTP" or port.node_port == port.port)


def _frontends(service: Service, slices: list[EndpointSlice], own: OwnNode) -> Iterator[Frontend]:
    _require_not_masqueraded(service.health_port, service.place, own)
    for port in service.ports:
        if own.addresses:
            _require_not_masqueraded(port.node_port, port.place, own)
        for (address, number), kind in _sites(service, port, own).items():
            is_external = kind is not _Site.CLUSTER
            stays = service.internal_local and not is_external
            backends = _backends(port, slices, address.version, own, stays, is_external)
            yield Frontend(
                f"{service.namespace}/{service.name}",
                address,
                port.protocol,
                number,
                affinity=service.affinity,
                maglev_slots=service.maglev_slots,
                way_back=service.way_back,
                number=_number(service, port, address.version),
                is_local=service.external_local and is_external,
                is_elsewhere=stays
                and any(each.drains for each in backends)
                and not any(each.takes_new for each in backends),
                is_node_port=kind is _Site.EXTERNAL
                and address in own.addresses
                and number == port.node_port,
                ranges=_ranges(service, address.version) if kind is _Site.BALANCER else None,
                backends=backends,
            )


def _require_not_masqueraded(port: int, place: JsonValue, own: OwnNode) -> None:
    if port in own.masquerade_ports:
        place.fail(
            f"node port {port} is one of those by which pods leave the cluster",
            "load with other --masquerade-ports, or give the Service another node port",
        )


def _number(service: Service, port: ServicePort, family: int) -> int:
    """32 bits of a digest. Two with one number would only forget each other's clients."""
    name = f"{service.namespace}/{service.name}/{port.name}/{port.protocol}/{family}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def _ranges(service: Service, family: int) -> tuple[Network, ...] | None:
    """A range of one family leaves nobody of the other."""
    if not service.ranges:
        return None
    return tuple(sorted({each for each in service.ranges if each.version == family}))


class _Site(Enum):
    """For pods only; for clients outside, too; and for those of them that the Service names."""

    CLUSTER, EXTERNAL, BALANCER = range(3)


def _sites(
    service: Service, port: ServicePort, own: OwnNode
) -> Mapping[tuple[Address, int], _Site]:
    """Where a port of a Service is. An address that is two things is the more guarded one."""
    nodes = own.addresses if _has_node_port(port) else ()
    return (
        {(each, port.node_port): _Site.EXTERNAL for each in nodes}
        | {(each, port.port): _Site.EXTERNAL for each in service.external_ips}
        | {(each, port.port): _Site.BALANCER for each in service.balancer_ips}
        | {(each, port.port): _Site.CLUSTER for each in service.cluster_ips}
    )


def _backends(
    port: ServicePort,
    slices: list[EndpointSlice],
    family: int,
    own: OwnNode,
    stays: bool,
    is_external: bool,
) -> tuple[Backend, ...]:
    """Of one family. `stays`: no other node's takes anything new."""
    listed = _listed(port, slices, family)
    here = {at: each for at, each in listed.items() if each.node == own.name != ""}
    local = _best(here)
    chosen = local if stays else _meant(listed, own)
    return tuple(
        Backend(
            address,
            number,
            takes_new=(address, number) in chosen,
            takes_local=is_external and (address, number) in local,
            drains=endpoint.rank > 0,
            node="" if endpoint.node == own.name else endpoint.node,
        )
        for (address, number), endpoint in sorted(
            listed.items(), key=lambda item: (int(item[0][0]), item[0][1])
        )
    )


def _listed(
    port: ServicePort, slices: list[EndpointSlice], family: int
) -> dict[tuple[Address, int], Endpoint]:
    """The endpoints of one family; the same in two slices is one, and ready if it is in either."""
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
    return listed


def _best(endpoints: Mapping[tuple[Address, int], Endpoint]) -> set[tuple[Address, int]]:
    """Those that take new connections: the ready ones, else those that terminate and serve."""
    best = max((each.rank for each in endpoints.values()), default=0)
    return {at for at, each in endpoints.items() if each.rank == best > 0}


def _meant(
    endpoints: Mapping[tuple[Address, int], Endpoint], own: OwnNode
) -> set[tuple[Address, int]]:
    """Those of all nodes that take new connections from this one, as kube-proxy has it: by hints if
    each ready endpoint has one, and one of them is for this node, or else for its zone.
    """
    ready = {at: each for at, each in endpoints.items() if each.rank == READY}
    if ready and all(each.for_nodes for each in ready.values()):
        found = {at for at, each in ready.items() if own.name in each.for_nodes}
        if found:
            return found
    if ready and all(each.for_zones for each in ready.values()):
        found = {at for at, each in ready.items() if own.zone in each.for_zones}
        if found:
            return found
    return _best(endpoints)


def packed(address: Address) -> bytes:
    """As struct pc_addr6 has it: of IPv4 in the first word."""
    return address.packed.ljust(16, b"\0")


def unpacked(raw: bytes, family: int) -> Address:
    """The other way."""
    return ipaddress.ip_address(raw[:4] if family == 4 else raw)
