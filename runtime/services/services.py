# SPDX-License-Identifier: Apache-2.0
"""From Kubernetes Services (v1) and EndpointSlices (discovery.k8s.io/v1) to frontends and backends.

`frontends_of` takes a Service and its slices, and gives what the datapath must do: for every address and
port of the Service, the endpoints behind it. claims.py decides which Service gets an address that
several ask for. The endpoints that take new connections follow KEP-1672: the ready ones, or without any
those that serve while they terminate. External clients may be limited to endpoints of this node
(KEP-1669), which are listed separately.

Headless Services and those of type ExternalName have no addresses to translate, and give no frontend.
Unsupported features are rejected, not left out.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from policyc.runtime.bundle.address_value import (
    Address,
    Network,
)
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.services.objects import (
    READY,
    Endpoint,
    EndpointSlice,
    Service,
    ServicePort,
)
from policyc.runtime.state import Warn

PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}
"""The API's names of `protocol`, and the numbers in packets."""


class Kind(Enum):
    """The kind of an address and port of a Service.

    The API server allocates CLUSTER (for pods) and NODE (also for external clients) to one Service only.
    BALANCER comes from the Service's status, for clients in its ranges, and EXTERNAL from its spec.
    """

    CLUSTER, NODE, BALANCER, EXTERNAL = range(4)


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The node for which Services are read, as its endpoints file describes it."""

    name: str
    addresses: tuple[Address, ...] = ()
    """The addresses of its node ports."""
    zone: str = ""
    """The node's label topology.kubernetes.io/zone, which hints of endpoints name."""
    masquerade_ports: range = range(0)
    """The SNAT ports: no node port is one of these."""
    pods: frozenset[Address] = frozenset()
    """The cluster's pods, as far as the endpoints file lists them."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An endpoint, as a Service's port reaches it."""

    address: Address
    port: int
    takes_new: bool
    """Whether it takes new connections."""
    takes_local: bool
    """Whether it takes new ones that must stay on this node.

    If neither holds, it only continues established TCP and SCTP connections.
    """
    serves: bool
    """Whether it is ready, or terminates and still serves: then UDP continues as well."""
    node: str = ""
    """The endpoint's nodeName, if that is another node."""

    @property
    def name(self) -> bytes:
        """A name that is the same on every node."""
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
    """Seconds for which a client keeps its endpoint; 0: no session affinity."""
    maglev_slots: int
    """Entries of the Maglev table that selects endpoints; 0: selection at random."""
    return_path: ReturnPath | None
    """The return path to external clients that came to another node; None: as the load says."""
    number: int
    """The number of the Service's port and family, the same at each address and in every load."""
    is_local: bool
    """externalTrafficPolicy Local: external clients get only endpoints of this node."""
    has_other_nodes: bool
    """internalTrafficPolicy Local: there are endpoints, and none of them is on this node."""
    is_node_port: bool
    """The node's own processes also reach it at the loopback address."""
    kind: Kind
    ranges: tuple[Network, ...] | None
    """The clients that may use it, of its family; None: all clients."""
    backends: tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a Service asks for, and its room in the tables; both are the same on every node."""

    frontends: tuple[Frontend, ...]
    sites: int
    endpoints: int
    ranges: int
    slots: int
    n_over: int
    """Addresses and ports above the limit of one object: its last ones."""


def note_node_ports(services: Iterable[Service], own: OwnNode, note: Warn) -> None:
    """Tell about node ports that this node does not serve."""
    ports = [port for each in services for port in each.ports if port.node_port]
    if ports and not own.addresses:
        note(
            f"node ports of Services are not served ({len(ports)}): the endpoints file has no "
            f"addresses of the node {own.name} in `nodes`"
        )
    for port in ports:
        if own.addresses and not _has_node_port(port):
            note(
                f"{port.place.where}: node port {port.node_port}/SCTP is not served: the SCTP "
                f"checksum covers the port, and policyc does not recompute it for port {port.port}"
            )


def note_health(services: Iterable[Service], note: Warn) -> None:
    """Tell about features that only a long-running command provides."""
    asked = sum(each.health_port != 0 for each in services)
    if asked:
        shown = "1 Service" if asked == 1 else f"{asked} Services"
        note(
            f"health checks (healthCheckNodePort) of {shown} are answered only while "
            "`policyc node follow` runs"
        )


def local_endpoints(slices: Iterable[EndpointSlice], own: OwnNode) -> Counter[int]:
    """How many addresses per family, of the node's own, are ready for a Service by its slices."""
    ready = {
        each.address
        for listed in slices
        for each in listed.endpoints
        if each.rank == READY and each.node == own.name != ""
    }
    return Counter(address.version for address in ready)


def _has_node_port(port: ServicePort) -> bool:
    """SCTP has the endpoints' port everywhere, or no node port: see nat.h."""
    return port.node_port != 0 and (port.protocol != "SCTP" or port.node_port == port.port)


def frontends_of(
    service: Service, slices: list[EndpointSlice], own: OwnNode, most: tuple[int, int]
) -> Asked:
    """The frontends of one Service on this node; `slices` are all its slices.

    `most` are the addresses and ports, and the endpoints behind them, that one object may have. What
    exceeds them is left out and counted, the Service's allocated addresses last. `InputError` if the
    Service asks for an unsupported feature.
    """
    _require_not_masqueraded(service.health_port, service.place, own)
    for port in service.ports:
        if own.addresses:
            _require_not_masqueraded(port.node_port, port.place, own)
    found: dict[tuple[Address, str, int], Frontend] = {}
    view = _View(service, slices, own)
    n_sites = n_endpoints = n_left = 0
    for kind, family, addresses, port in _places(service, own):
        weight = _NODE_WEIGHT if kind is Kind.NODE else 1
        parts = 1 if kind is Kind.CLUSTER else 2
        behind = weight * parts * len(view.listed(port, family))
        if n_sites + weight > most[0] or n_endpoints + behind > most[1]:
            n_left = _n_places(service) - n_sites
            break
        n_sites += weight
        n_endpoints += behind
        for address in addresses:
            frontend = view.frontend(kind, address, port)
            found.setdefault((address, frontend.protocol, frontend.port), frontend)
    return Asked(
        tuple(found.values()),
        *(n_sites, n_endpoints),
        ranges=len(service.ranges) if service.balancer_ips else 0,
        slots=service.maglev_slots * _n_tables(service),
        n_over=n_left,
    )


_NODE_WEIGHT = 4
"""Addresses per family that a node may have; the tables may not hold all of more."""


def _places(
    service: Service, own: OwnNode
) -> Iterator[tuple[Kind, int, tuple[Address, ...], ServicePort]]:
    """The places of a Service: kind, family, addresses and port.

    Kinds come in the order of precedence: of an address with two kinds the first one counts.
    """
    for kind, given in (
        (Kind.CLUSTER, service.cluster_ips),
        (Kind.BALANCER, service.balancer_ips),
        (Kind.NODE, ()),
        (Kind.EXTERNAL, service.external_ips),
    ):
        if kind is Kind.NODE:
            for port in filter(_has_node_port, service.ports):
                for family in (4, 6):
                    at = tuple(each for each in own.addresses if each.version == family)
                    yield kind, family, at, port
        for address in sorted(set(given), key=lambda each: (each.version, each)):
            for port in service.ports:
                yield kind, address.version, (address,), port


def _n_places(service: Service) -> int:
    """How many places there are, as limits count them."""
    given = (service.cluster_ips, service.balancer_ips, service.external_ips)
    n_node = sum(map(_has_node_port, service.ports))
    return len(service.ports) * sum(len(set(each)) for each in given) + 2 * _NODE_WEIGHT * n_node


def _n_tables(service: Service) -> int:
    """How many Maglev tables it may need: per port and family, for all endpoints and for the node's."""
    given = (*service.cluster_ips, *service.balancer_ips, *service.external_ips)
    has_node_port = any(map(_has_node_port, service.ports))
    families = {4, 6} if has_node_port else {each.version for each in given}
    is_external = has_node_port or bool(service.balancer_ips or service.external_ips)
    return len(service.ports) * len(families) * (2 if is_external or service.internal_local else 1)


@dataclass(slots=True)
class _View:
    """A Service and its endpoints; computes once what several addresses share."""

    service: Service
    slices: list[EndpointSlice]
    own: OwnNode
    _listed: dict[tuple[int, int], dict[tuple[Address, int], Endpoint]] = field(
        default_factory=dict
    )
    _backends: dict[tuple[int, int, bool], tuple[Backend, ...]] = field(default_factory=dict)

    def listed(self, port: ServicePort, family: int) -> dict[tuple[Address, int], Endpoint]:
        """The endpoints of a port and family."""
        key = id(port), family
        if key not in self._listed:
            self._listed[key] = _listed(port, self.slices, family)
        return self._listed[key]

    def backends(self, port: ServicePort, family: int, is_external: bool) -> tuple[Backend, ...]:
        """The same, for a client."""
        key = id(port), family, is_external
        if key not in self._backends:
            stays = self.service.internal_local and not is_external
            listed = self.listed(port, family)
            self._backends[key] = _backends(listed, self.own, stays, is_external)
        return self._backends[key]

    def frontend(self, kind: Kind, address: Address, port: ServicePort) -> Frontend:
        """The port at one address."""
        service = self.service
        is_external = kind is not Kind.CLUSTER
        backends = self.backends(port, address.version, is_external)
        return Frontend(
            f"{service.namespace}/{service.name}",
            address,
            port.protocol,
            port.node_port if kind is Kind.NODE else port.port,
            affinity=service.affinity,
            maglev_slots=service.maglev_slots,
            return_path=service.return_path,
            number=_number(service, port, address.version),
            is_local=service.external_local and is_external,
            has_other_nodes=service.internal_local
            and not is_external
            and any(each.serves for each in backends)
            and not any(each.takes_new for each in backends),
            is_node_port=kind is Kind.NODE,
            kind=kind,
            ranges=_ranges(service, address.version) if kind is Kind.BALANCER else None,
            backends=backends,
        )


def _require_not_masqueraded(port: int, place: JsonValue, own: OwnNode) -> None:
    if port in own.masquerade_ports:
        place.fail(
            f"node port {port} is one of the SNAT ports",
            "load with other --masquerade-ports, or give the Service another node port",
        )


def _number(service: Service, port: ServicePort, family: int) -> int:
    """32 bits of a digest. Two ports with one number would only evict each other's clients."""
    name = f"{service.namespace}/{service.name}/{port.name}/{port.protocol}/{family}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def _ranges(service: Service, family: int) -> tuple[Network, ...] | None:
    """The ranges of one family; ranges of only the other family allow no client of this one."""
    if not service.ranges:
        return None
    return tuple(sorted({each for each in service.ranges if each.version == family}))


def _backends(
    listed: Mapping[tuple[Address, int], Endpoint], own: OwnNode, stays: bool, is_external: bool
) -> tuple[Backend, ...]:
    """The endpoints of one family. `stays`: endpoints of other nodes take no new connections."""
    here = {at: each for at, each in listed.items() if each.node == own.name != ""}
    local = _best(here)
    chosen = local if stays else _by_hints(listed, own)
    return tuple(
        Backend(
            address,
            number,
            takes_new=(address, number) in chosen,
            takes_local=is_external and (address, number) in local,
            serves=endpoint.rank > 0,
            node="" if endpoint.node == own.name else endpoint.node,
        )
        for (address, number), endpoint in sorted(
            listed.items(), key=lambda item: (int(item[0][0]), item[0][1])
        )
    )


def _listed(
    port: ServicePort, slices: list[EndpointSlice], family: int
) -> dict[tuple[Address, int], Endpoint]:
    """The endpoints of one family.

    One that is in two slices counts once, and is ready if either slice says so.
    """
    listed: dict[tuple[Address, int], Endpoint] = {}
    for each in slices:
        number = each.ports.get((port.name, port.protocol))
        if each.family != family or number is None:
            continue
        if port.protocol == "SCTP" and number != port.port:
            port.place.fail(
                f"SCTP to port {port.port} goes to port {number} of the endpoints, but the SCTP "
                f"checksum covers the port",
                "policyc does not recompute that checksum: give the Service the endpoints' port",
            )
        for endpoint in each.endpoints:
            known = listed.get((endpoint.address, number))
            if known is None or endpoint.rank > known.rank:
                listed[endpoint.address, number] = endpoint
    return listed


def _best(endpoints: Mapping[tuple[Address, int], Endpoint]) -> set[tuple[Address, int]]:
    """The endpoints that take new connections: the ready ones, else those that serve and terminate."""
    best = max((each.rank for each in endpoints.values()), default=0)
    return {at for at, each in endpoints.items() if each.rank == best > 0}


def _by_hints(
    endpoints: Mapping[tuple[Address, int], Endpoint], own: OwnNode
) -> set[tuple[Address, int]]:
    """The endpoints of all nodes that take new connections from this one, as in kube-proxy.

    Hints apply if each ready endpoint has one, and one of them is for this node, or else for its zone.
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
