# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices as the API defines them, checked field by field.

`objects` takes documents: single objects, or lists of them as `kubectl get ... -o json` writes.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from policyc.runtime.bundle.address_value import (
    Address,
    Network,
    host_address,
)
from policyc.runtime.bundle.json_value import (
    JsonValue,
    one_of,
)
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.errors import InputError
from policyc.runtime.services import (
    annotations as service_annotations,
)
from policyc.runtime.services import (
    labels as service_labels,
)

READY = 2
"""The rank of an endpoint that is ready."""

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
_OBJECT = ("apiVersion", "kind", "metadata")
_FIELDS = {"Service": ("spec", "status"), "EndpointSlice": ("addressType", "endpoints", "ports")}
_SERVICE_SPEC = (
    *("allocateLoadBalancerNodePorts", "clusterIP", "clusterIPs", "externalIPs", "externalName"),
    *("externalTrafficPolicy", "healthCheckNodePort", "internalTrafficPolicy", "ipFamilies"),
    *("ipFamilyPolicy", "loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges"),
    *("ports", "publishNotReadyAddresses", "selector", "sessionAffinity"),
    *("sessionAffinityConfig", "trafficDistribution", "type"),
)
_SERVICE_PORT = ("appProtocol", "name", "nodePort", "protocol", "targetPort")
_SLICE_PORT = ("appProtocol", "name", "port", "protocol")
_ENDPOINT = (
    *("conditions", "deprecatedTopology", "hints", "hostname", "nodeName", "targetRef", "zone"),
)
_CONDITIONS = ("ready", "serving", "terminating")
_HINTS = ("forNodes", "forZones")
_AFFINITY = 10800
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a Service; its name leads to the endpoints' port number."""

    name: str
    protocol: str
    port: int
    node_port: int
    """The port at every address of a node; 0: the Service has none."""
    place: JsonValue


@dataclass(frozen=True, slots=True)
class Service:
    """A Service with addresses of its own, which is not for another proxy."""

    namespace: str
    name: str
    cluster_ips: tuple[Address, ...]
    external_ips: tuple[Address, ...]
    balancer_ips: tuple[Address, ...]
    ranges: tuple[Network, ...]
    """loadBalancerSourceRanges: the clients that may use the load balancer's addresses; empty: all."""
    ports: tuple[ServicePort, ...]
    internal_local: bool
    """internalTrafficPolicy Local: traffic to a cluster IP stays on the node (KEP-2086)."""
    external_local: bool
    """externalTrafficPolicy Local: external traffic to any other address stays on the node, too."""
    health_port: int
    """The port where load balancers ask for endpoints of this node (healthCheckNodePort); 0: none."""
    affinity: int
    """Seconds for which a client keeps its endpoint; 0: no session affinity."""
    maglev_slots: int
    """Entries of the Maglev table that selects endpoints (annotations); 0: selection at random."""
    return_path: ReturnPath | None
    """The return path to clients that came to another node (annotation); None: as the load says."""
    created: str
    """creationTimestamp, which orders objects; empty: none."""
    place: JsonValue


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint's first address, which represents all of them, and its conditions."""

    address: Address
    rank: int
    """READY; 1: terminates and still serves; 0: takes no new connections."""
    node: str
    for_zones: frozenset[str]
    """The zones whose clients should use it (`hints`, KEP-2433); empty: no hint."""
    for_nodes: frozenset[str]
    """The nodes whose clients should use it (KEP-3015)."""


@dataclass(frozen=True, slots=True)
class EndpointSlice:
    """Endpoints of one family, and their ports by (name, protocol)."""

    namespace: str
    service: str
    family: int
    ports: dict[tuple[str, str], int]
    endpoints: tuple[Endpoint, ...]


def _refuse(error: InputError) -> None:
    raise error


def objects(
    roots: Iterable[JsonValue], wrong: Callable[[InputError], object] = _refuse
) -> tuple[list[Service], list[EndpointSlice]]:
    """All objects in the documents; `InputError` for any other kind, or a duplicate object.

    `wrong` is told of a malformed object, which is left out unless `wrong` raises.
    """
    services: list[Service] = []
    slices: list[EndpointSlice] = []
    given: dict[tuple[str, str, str], JsonValue] = {}
    for root in roots:
        for place, kind in _objects(root):
            try:
                fields = place.fields(_OBJECT, _FIELDS[kind])
                namespace, name = _names(fields["metadata"])
                found = list(_service(place, fields, namespace, name)) if kind == "Service" else []
                of_it = list(_slice(place, fields, namespace)) if kind != "Service" else []
            except InputError as error:
                wrong(error)
                continue
            if (kind, namespace, name) in given:
                place.fail(
                    f"the {kind} {namespace}/{name} is also {given[kind, namespace, name].where}"
                )
            given[kind, namespace, name] = place
            services += found
            slices += of_it
    return services, slices


def named(root: JsonValue) -> Iterator[tuple[str, tuple[str, str], JsonValue]]:
    """Kind, (namespace, name) and position of the object, or of each object in a list."""
    for place, kind in _objects(root):
        members = place.members()
        if "metadata" not in members:
            place.fail("the field `metadata` is missing")
        yield kind, _names(members["metadata"]), place


def _objects(root: JsonValue) -> Iterator[tuple[JsonValue, str]]:
    """The document, or the items of a list, with their kind."""
    members = root.members()
    for name in ("apiVersion", "kind"):
        if name not in members:
            root.fail(f"the field `{name}` is missing", "expected a Service or an EndpointSlice")
    version, kind = members["apiVersion"].text(), members["kind"].text()
    if (version, kind) in (("v1", "Service"), ("discovery.k8s.io/v1", "EndpointSlice")):
        yield root, kind
    elif kind in ("List", "ServiceList", "EndpointSliceList"):
        if "items" not in members:
            root.fail("the field `items` is missing")
        for item in members["items"].items():
            yield from _objects(_with_kind(item, kind, version))
    else:
        root.fail(
            f"expected a Service (v1) or an EndpointSlice (discovery.k8s.io/v1), found {kind} "
            f"({version})"
        )


def _with_kind(item: JsonValue, kind: str, version: str) -> JsonValue:
    """Add kind and version to an item: the API server states them only once per list."""
    if kind == "List" or "kind" in item.object():
        return item
    return item.but({"apiVersion": version, "kind": kind.removesuffix("List"), **item.object()})


def _names(metadata: JsonValue) -> tuple[str, str]:
    members = metadata.members()
    if "name" not in members:
        metadata.fail("the field `name` is missing")
    namespace = members["namespace"].text() if "namespace" in members else "default"
    return namespace, members["name"].text()


def _service(
    place: JsonValue, fields: dict[str, JsonValue], namespace: str, name: str
) -> Iterator[Service]:
    if service_labels.is_for_another_proxy(fields["metadata"]):
        return
    if "spec" not in fields:
        place.fail("the field `spec` is missing")
    spec = fields["spec"].fields((), _SERVICE_SPEC)
    kind = one_of(spec.get("type"), _TYPES, "ClusterIP")
    if kind == "ExternalName" or (spec.get("clusterIP") and spec["clusterIP"].raw == "None"):
        return
    has_node_ports = kind in ("NodePort", "LoadBalancer")
    ports = spec["ports"].items() if "ports" in spec else ()
    yield Service(
        namespace,
        name,
        cluster_ips=tuple(_cluster_ips(spec)),
        external_ips=tuple(_addresses(spec.get("externalIPs"))),
        balancer_ips=tuple(_balancer_ips(fields.get("status"))),
        ranges=tuple(map(_network, _items(spec.get("loadBalancerSourceRanges")))),
        ports=tuple(_service_port(each, has_node_ports) for each in ports),
        internal_local=_is_local(spec.get("internalTrafficPolicy")),
        external_local=_is_local(spec.get("externalTrafficPolicy")),
        health_port=_health_port(spec, kind),
        affinity=_affinity(spec),
        maglev_slots=service_annotations.maglev_slots(fields["metadata"]),
        return_path=service_annotations.return_path(fields["metadata"]),
        created=_created(fields["metadata"]),
        place=place,
    )


def _created(metadata: JsonValue) -> str:
    """Check a time as metav1.Time writes it: UTC, and whole seconds."""
    found = metadata.members().get("creationTimestamp")
    if found is None or found.raw is None:
        return ""
    if not _TIME.fullmatch(found.text()):
        found.fail(f"expected a time as 2026-01-31T12:00:00Z, found {found.raw!r}")
    return found.text()


def _health_port(spec: dict[str, JsonValue], kind: str) -> int:
    """The health check port; only a LoadBalancer Service with local traffic policy has one."""
    port = spec.get("healthCheckNodePort")
    found = port.number(0, 65535) if port and port.raw is not None else 0
    return found if kind == "LoadBalancer" and _is_local(spec.get("externalTrafficPolicy")) else 0


def _affinity(spec: dict[str, JsonValue]) -> int:
    """`sessionAffinityConfig.clientIP.timeoutSeconds`; the default is three hours."""
    kind = one_of(spec.get("sessionAffinity"), ("None", "ClientIP"), "None")
    config = spec.get("sessionAffinityConfig")
    found = config.fields((), ("clientIP",)).get("clientIP") if config and config.raw else None
    timeout = (
        found.fields((), ("timeoutSeconds",)).get("timeoutSeconds") if found and found.raw else None
    )
    seconds = _AFFINITY if timeout is None or timeout.raw is None else timeout.number(1, 86400)
    return seconds if kind == "ClientIP" else 0


def _is_local(policy: JsonValue | None) -> bool:
    """Whether a traffic policy allows only the node's own endpoints."""
    return one_of(policy, ("Cluster", "Local"), "Cluster") == "Local"


def _cluster_ips(spec: dict[str, JsonValue]) -> list[Address]:
    if "clusterIPs" in spec:
        return _addresses(spec["clusterIPs"])
    if "clusterIP" in spec and spec["clusterIP"].raw != "":
        return [_address(spec["clusterIP"])]
    return []


def _balancer_ips(status: JsonValue | None) -> list[Address]:
    """The addresses of `status.loadBalancer.ingress` that the node must serve (ipMode, KEP-1860)."""
    found: list[Address] = []
    balancer = status.members().get("loadBalancer") if status else None
    ingress = balancer.members().get("ingress") if balancer else None
    for item in ingress.items() if ingress else ():
        fields = item.members()
        if "ip" in fields and one_of(fields.get("ipMode"), ("VIP", "Proxy"), "VIP") == "VIP":
            found.append(_address(fields["ip"]))
    return found


def _network(value: JsonValue) -> Network:
    """A range as the API server accepts it: with host bits set, and with spaces around."""
    try:
        return ipaddress.ip_network(value.text().strip(), strict=False)
    except ValueError:
        value.fail(f"expected a range of addresses as 192.0.2.0/24, found {value.raw!r}")


def _service_port(value: JsonValue, has_node_ports: bool) -> ServicePort:
    fields = value.fields(("port",), _SERVICE_PORT)
    node_port = fields.get("nodePort") if has_node_ports else None
    return ServicePort(
        name=_optional_text(fields.get("name")),
        protocol=one_of(fields.get("protocol"), _PROTOCOLS, "TCP"),
        port=fields["port"].number(1, 65535),
        node_port=node_port.number(0, 65535) if node_port and node_port.raw is not None else 0,
        place=value,
    )


def _slice(
    place: JsonValue, fields: dict[str, JsonValue], namespace: str
) -> Iterator[EndpointSlice]:
    """A slice's endpoints.

    None if the slice belongs to no Service, is for another proxy, or has names instead of addresses.
    """
    service = service_labels.service_name(fields["metadata"])
    if service_labels.is_for_another_proxy(fields["metadata"]):
        return
    if "addressType" not in fields:
        place.fail("the field `addressType` is missing")
    kind = one_of(fields["addressType"], ("IPv4", "IPv6", "FQDN"), "")
    if not service or kind == "FQDN":
        return
    family = int(kind[-1])
    ports = _items(fields.get("ports"))
    endpoints = _items(fields.get("endpoints"))
    yield EndpointSlice(
        namespace,
        service,
        family,
        dict(found for value in ports for found in _slice_port(value)),
        tuple(_endpoint(value, family) for value in endpoints),
    )


def _slice_port(value: JsonValue) -> Iterator[tuple[tuple[str, str], int]]:
    """A port without a number means all ports, and gives no endpoint (API reference)."""
    fields = value.fields((), _SLICE_PORT)
    if "port" in fields and fields["port"].raw is not None:
        name = _optional_text(fields.get("name"))
        protocol = one_of(fields.get("protocol"), _PROTOCOLS, "TCP")
        yield (name, protocol), fields["port"].number(1, 65535)


def _endpoint(value: JsonValue, family: int) -> Endpoint:
    fields = value.fields(("addresses",), _ENDPOINT)
    addresses = [_address(item) for item in fields["addresses"].items()]
    if not addresses:
        fields["addresses"].fail("expected at least one address")
    if addresses[0].version != family:
        fields["addresses"].fail(f"{addresses[0]} is no IPv{family} address, as addressType says")
    conditions = fields.get("conditions")
    known = conditions.fields((), _CONDITIONS) if conditions and conditions.raw else {}
    flags = {name: each.flag() for name, each in known.items() if each.raw is not None}
    hints = fields.get("hints")
    meant = hints.fields((), _HINTS) if hints and hints.raw else {}
    return Endpoint(
        addresses[0],
        _rank(flags),
        node=_optional_text(fields.get("nodeName")),
        for_zones=_hinted(meant.get("forZones")),
        for_nodes=_hinted(meant.get("forNodes")),
    )


def _hinted(value: JsonValue | None) -> frozenset[str]:
    return frozenset(each.fields(("name",), ())["name"].text() for each in _items(value))


def _rank(conditions: dict[str, bool]) -> int:
    """The rank of an endpoint: an unknown condition counts as ready; `serving` defaults to `ready`."""
    ready = conditions.get("ready", True)
    serving = conditions.get("serving", ready)
    if ready:
        return READY
    return 1 if serving and conditions.get("terminating", False) else 0


def _items(value: JsonValue | None) -> list[JsonValue]:
    return list(value.items()) if value and value.raw is not None else []


def _optional_text(value: JsonValue | None) -> str:
    if value is None or value.raw is None or value.raw == "":
        return ""
    return value.text()


def _addresses(value: JsonValue | None) -> list[Address]:
    return [_address(item) for item in _items(value)]


def _address(value: JsonValue) -> Address:
    return host_address(value, ": pods cannot reach such an address")
