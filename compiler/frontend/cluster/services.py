# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices as typed values, for stages that translate services.

Policies do not read them.
"""

from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from policyc.compiler.frontend.cluster.pods import (
    checked_address,
    decode_named,
    read_address,
    read_port,
    read_protocol,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.universe import Address

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """v1 ServicePort; `target_port` is the port's number if it was absent."""

    name: str
    protocol: str
    port: int
    target_port: int | str
    node_port: int | None


@dataclass(frozen=True, slots=True)
class Service:
    """A v1 Service. `cluster_ips` is empty for a headless one; names are the API's."""

    metadata: ObjectMeta
    type: str
    cluster_ips: tuple[Address, ...]
    ports: tuple[ServicePort, ...]
    selector: Map[str, str] = field(hash=False)
    external_ips: tuple[Address, ...] = ()
    load_balancer_ips: tuple[Address, ...] = ()
    external_name: str = ""
    external_traffic_policy: str = "Cluster"
    internal_traffic_policy: str = "Cluster"
    session_affinity: str = "None"


@dataclass(frozen=True, slots=True)
class SliceEndpoint:
    """One endpoint of a slice. `is_ready` is true if the field is absent, as in the API."""

    addresses: tuple[Address, ...]
    is_ready: bool
    is_serving: bool
    is_terminating: bool
    node_name: str


@dataclass(frozen=True, slots=True)
class SlicePort:
    """A port of a slice; without a number it stands for every port."""

    name: str
    protocol: str
    port: int | None


@dataclass(frozen=True, slots=True)
class EndpointSlice:
    """A discovery.k8s.io/v1 EndpointSlice; `service` is empty if no label names one."""

    metadata: ObjectMeta
    service: str
    address_type: str
    endpoints: tuple[SliceEndpoint, ...]
    ports: tuple[SlicePort, ...]


def decode_service(decoder: Decoder, node: Mapping, namespace: str) -> Service | None:
    """The service; None if it has no readable name."""
    metadata = decode_named(decoder, node, namespace)
    spec = _spec(decoder, node)
    if metadata is None:
        return None
    return Service(
        metadata,
        decoder.string(spec, "type", "spec") or "ClusterIP",
        _cluster_ips(decoder, spec),
        _service_ports(decoder, spec),
        decoder.string_map(spec, "selector", "spec"),
        _addresses(decoder, spec, "externalIPs", "spec"),
        _load_balancer_ips(decoder, node),
        decoder.string(spec, "externalName", "spec") or "",
        decoder.string(spec, "externalTrafficPolicy", "spec") or "Cluster",
        decoder.string(spec, "internalTrafficPolicy", "spec") or "Cluster",
        decoder.string(spec, "sessionAffinity", "spec") or "None",
    )


def _spec(decoder: Decoder, node: Mapping) -> Mapping:
    spec = decoder.object(node, "spec", "")
    return spec if spec is not None else Mapping(node.file, node.line, node.column)


def _addresses(decoder: Decoder, node: Mapping, name: str, path: str) -> tuple[Address, ...]:
    """A list of addresses; `None`, the mark of a headless service, is not one."""
    found = []
    for index, text in enumerate(decoder.strings(node, name, path)):
        if text not in ("", "None"):
            where = f"{path}.{name}[{index}]"
            found.append(checked_address(decoder, text, node.span_of_item(name, index), where))
    return tuple(address for address in found if address is not None)


def _cluster_ips(decoder: Decoder, spec: Mapping) -> tuple[Address, ...]:
    """`clusterIPs`, or the older single field."""
    found = _addresses(decoder, spec, "clusterIPs", "spec")
    if found or decoder.string(spec, "clusterIP", "spec") == "None":
        return found
    address = read_address(decoder, spec, "clusterIP", "spec")
    return () if address is None else (address,)


def _service_ports(decoder: Decoder, spec: Mapping) -> tuple[ServicePort, ...]:
    found = []
    for item, path in decoder.items(spec, "ports", "spec"):
        node = decoder.mapping(item, path)
        if node is None:
            continue
        port = read_port(decoder, node, "port", path)
        protocol = read_protocol(decoder, node, path)
        target = decoder.int_or_string(node, "targetPort", path)
        node_port = decoder.integer(node, "nodePort", path)
        name = decoder.string(node, "name", path) or ""
        if port is not None and protocol is not None:
            found.append(ServicePort(name, protocol, port, target or port, node_port or None))
    return tuple(found)


def _load_balancer_ips(decoder: Decoder, node: Mapping) -> tuple[Address, ...]:
    status = decoder.object(node, "status", "")
    balancer = None if status is None else decoder.object(status, "loadBalancer", "status")
    if balancer is None:
        return ()
    found = []
    for item, path in decoder.items(balancer, "ingress", "status.loadBalancer"):
        entry = decoder.mapping(item, path)
        if entry is not None:
            found.append(read_address(decoder, entry, "ip", path))
    return tuple(address for address in found if address is not None)


def decode_endpoint_slice(decoder: Decoder, node: Mapping, namespace: str) -> EndpointSlice | None:
    """The slice; None if it has no readable name."""
    metadata = decode_named(decoder, node, namespace)
    if metadata is None:
        return None
    kind = decoder.string(node, "addressType", "") or ""
    endpoints = []
    for item, path in decoder.items(node, "endpoints", ""):
        entry = decoder.mapping(item, path)
        if entry is not None:
            endpoints.append(_slice_endpoint(decoder, entry, path, kind == "FQDN"))
    return EndpointSlice(
        metadata,
        metadata.labels.get(SERVICE_NAME_LABEL, ""),
        kind,
        tuple(endpoints),
        _slice_ports(decoder, node),
    )


def _slice_endpoint(decoder: Decoder, node: Mapping, path: str, is_fqdn: bool) -> SliceEndpoint:
    conditions = decoder.object(node, "conditions", path)
    where = f"{path}.conditions"

    def condition(name: str, default: bool) -> bool:
        if conditions is None or conditions.get(name) is None:
            return default
        return decoder.boolean(conditions, name, where)

    is_ready = condition("ready", True)
    return SliceEndpoint(
        () if is_fqdn else _addresses(decoder, node, "addresses", path),
        is_ready,
        condition("serving", is_ready),
        condition("terminating", False),
        decoder.string(node, "nodeName", path) or "",
    )


def _slice_ports(decoder: Decoder, node: Mapping) -> tuple[SlicePort, ...]:
    found = []
    for item, path in decoder.items(node, "ports", ""):
        port = decoder.mapping(item, path)
        if port is None:
            continue
        protocol = read_protocol(decoder, port, path)
        number = read_port(decoder, port, "port", path)
        if protocol is not None:
            found.append(SlicePort(decoder.string(port, "name", path) or "", protocol, number))
    return tuple(found)
