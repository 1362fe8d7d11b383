# SPDX-License-Identifier: Apache-2.0
"""Pods and pod templates, with the fields that policies can distinguish.

Only the fields read here are checked; the rest of a pod is ignored.
"""

from dataclasses import dataclass, field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.addresses import parse_address
from policyc.compiler.frontend.kubernetes.cluster_fields import (
    CONTAINER,
    CONTAINER_PORT,
    METADATA,
    OBJECT,
    POD_IP,
    POD_SPEC,
    POD_STATUS,
    TEMPLATE,
    WORKLOAD_SPEC,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
    quoted,
    validate_labels,
    validate_metadata,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.services import Protocol
from policyc.ir.spans import Span
from policyc.ir.universe import Address, ContainerPort

_DONE = frozenset({"Succeeded", "Failed"})
_PHASES = frozenset({"Pending", "Running", "Unknown"}) | _DONE
_PROTOCOLS = frozenset(protocol.name for protocol in Protocol)
_PORTS = range(1, 65536)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The spec of a pod or a template. `ports` are the named ones, sorted (A19)."""

    ports: tuple[ContainerPort, ...] = ()
    service_account: str = "default"
    node_name: str = ""
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A v1 Pod.

    `addresses` are None without a status, or with an empty one: it is a manifest, not live (A25).
    """

    metadata: ObjectMeta
    spec: PodSpec
    addresses: tuple[Address, ...] | None
    is_done: bool = False

    @property
    def span(self) -> Span:
        """The place of its name."""
        return self.metadata.span


def decode_pod(decoder: Decoder, node: Mapping, namespace: str) -> Pod | None:
    """The pod; None if it has no readable name."""
    metadata = decode_named(decoder, node, namespace)
    spec = decode_pod_spec(decoder, node, "")
    if metadata is None:
        return None
    status = decoder.object(node, "status", "")
    if status is None or not status.entries:  # `status: {}` is how kubectl prints a manifest
        return Pod(metadata, spec, None)
    decoder.misspelt(status, "status", POD_STATUS)
    phase = _phase(decoder, status)
    addresses = _pod_addresses(decoder, status)
    if spec.host_network and not addresses:  # its node's address is its own (A21)
        addresses = _addresses(decoder, status, "hostIPs", "hostIP")
    return Pod(metadata, spec, addresses, phase in _DONE)


def _phase(decoder: Decoder, status: Mapping) -> str:
    """The phase; an invalid one could hide a finished pod, which holds no address (A25)."""
    phase = decoder.string(status, "phase", "status") or ""
    if phase and phase not in _PHASES:
        where = "status.phase"
        finding = codes.BAD_PHASE.at(
            status.span_of("phase"), where, where=where, value=quoted(phase)
        )
        decoder.report.add(finding.help(did_you_mean(phase, _PHASES)))
    return phase


def decode_named(decoder: Decoder, node: Mapping, namespace: str) -> ObjectMeta | None:
    """The metadata of an object that must have a name."""
    metadata = decode_metadata(decoder, node, namespace)
    decoder.misspelt(node, "", OBJECT)
    if metadata is None:
        return None
    if metadata.name:
        validate_metadata(metadata, decoder.report)
        return metadata
    where = "metadata.name"
    decoder.report.add(codes.OBJECT_NAME_REQUIRED.at(metadata.span, where, where=where))
    return None


def decode_pod_spec(decoder: Decoder, parent: Mapping, path: str) -> PodSpec:
    """The `spec` of a pod or template whose own path is `path`."""
    where = f"{path}.spec" if path else "spec"
    spec = decoder.object(parent, "spec", path)
    if spec is None:
        return PodSpec()
    decoder.misspelt(spec, where, POD_SPEC)
    account = decoder.string(spec, "serviceAccountName", where)
    account = account or decoder.string(spec, "serviceAccount", where)
    return PodSpec(
        tuple(sorted(set(_container_ports(decoder, spec, where)))),
        account or "default",
        decoder.string(spec, "nodeName", where) or "",
        decoder.boolean(spec, "hostNetwork", where),
    )


def _container_ports(decoder: Decoder, spec: Mapping, path: str) -> list[ContainerPort]:
    """Named ports of containers, and of sidecars: init containers that restart always (A19)."""
    found: list[ContainerPort] = []
    for name in ("containers", "initContainers"):
        for item, where in decoder.items(spec, name, path):
            container = decoder.mapping(item, where)
            if container is None:
                continue
            decoder.misspelt(container, where, CONTAINER)
            is_sidecar = decoder.string(container, "restartPolicy", where) == "Always"
            if name == "containers" or is_sidecar:
                found += _ports(decoder, container, where)
    return found


def _ports(decoder: Decoder, container: Mapping, path: str) -> list[ContainerPort]:
    found = []
    for item, where in decoder.items(container, "ports", path):
        node = decoder.mapping(item, where)
        if node is None:
            continue
        decoder.misspelt(node, where, CONTAINER_PORT)
        name = decoder.string(node, "name", where)
        number = read_port(decoder, node, "containerPort", where)
        protocol = read_protocol(decoder, node, where)
        if name and number is not None and protocol is not None:
            found.append(ContainerPort(name, protocol, number))
    return found


def read_protocol(decoder: Decoder, node: Mapping, path: str) -> str | None:
    """A field `protocol`: TCP if it is absent."""
    protocol = decoder.string(node, "protocol", path, default="TCP")
    if protocol is None or protocol in _PROTOCOLS:
        return protocol
    where = f"{path}.protocol"
    span = node.span_of("protocol")
    decoder.report.add(codes.BAD_PROTOCOL.at(span, where, where=where, value=quoted(protocol)))
    return None


def read_port(decoder: Decoder, node: Mapping, name: str, path: str) -> int | None:
    """A field that holds a port; None if it is absent or out of range."""
    number = decoder.integer(node, name, path)
    if number is None or number in _PORTS:
        return number
    where = f"{path}.{name}"
    decoder.report.add(codes.BAD_PORT.at(node.span_of(name), where, where=where, value=number))
    return None


def _pod_addresses(decoder: Decoder, status: Mapping) -> tuple[Address, ...]:
    return _addresses(decoder, status, "podIPs", "podIP")


def _addresses(
    decoder: Decoder, status: Mapping, plural: str, singular: str
) -> tuple[Address, ...]:
    """One address of each family, from the list, or the older single field."""
    by_family: dict[int, Address] = {}
    for item, where in decoder.items(status, plural, "status"):
        node = decoder.mapping(item, where)
        if node is None:
            continue
        decoder.misspelt(node, where, POD_IP)
        address = read_address(decoder, node, "ip", where)
        if address is None:
            continue
        if by_family.setdefault(address.version, address) != address:
            family = f"IPv{address.version}"
            span = node.span_of("ip")
            decoder.report.add(codes.TWO_ADDRESSES.at(span, where, where=where, family=family))
    single = read_address(decoder, status, singular, "status")
    if single is not None:
        _check_first(decoder, status, singular, single, by_family)
        by_family.setdefault(single.version, single)
    return tuple(by_family[family] for family in sorted(by_family))


def _check_first(
    decoder: Decoder, status: Mapping, name: str, single: Address, listed: dict[int, Address]
) -> None:
    """The single field must be the first of the list; otherwise one of the two is stale."""
    if listed and next(iter(listed.values())) != single:
        where = f"status.{name}"
        finding = codes.ADDRESSES_DIFFER.at(status.span_of(name), where, where=where)
        decoder.report.add(finding.help("take the snapshot again"))


def read_address(decoder: Decoder, node: Mapping, name: str, path: str) -> Address | None:
    """A field that holds an address; None if it is absent, empty, or not an address."""
    text = decoder.string(node, name, path)
    return checked_address(decoder, text, node.span_of(name), f"{path}.{name}") if text else None


def checked_address(decoder: Decoder, text: str, span: Span, where: str) -> Address | None:
    """The address that `text` represents, or a finding and None."""
    address = parse_address(text)
    if address is None:
        decoder.report.add(codes.BAD_ADDRESS.at(span, where, where=where, value=quoted(text)))
    return address


@dataclass(frozen=True, slots=True)
class Workload:
    """The pod template of a Deployment, Job, ...; its replicas have an unknown address."""

    kind: str
    metadata: ObjectMeta
    labels: dict[str, str] = field(hash=False)
    spec: PodSpec


_TEMPLATE_PATHS = {"CronJob": ("spec", "jobTemplate", "spec", "template")}


def decode_workload(decoder: Decoder, node: Mapping, kind: str, namespace: str) -> Workload | None:
    """The workload; None if it has no readable name, or no template at all."""
    metadata = decode_named(decoder, node, namespace)
    path = ""
    for name in _TEMPLATE_PATHS.get(kind, ("spec", "template")):
        if path:
            decoder.misspelt(node, path, WORKLOAD_SPEC)
        inner = decoder.object(node, name, path)
        if inner is None:
            return None
        node, path = inner, f"{path}.{name}" if path else name
    if metadata is None:
        return None
    return Workload(
        kind, metadata, _template_labels(decoder, node, path), decode_pod_spec(decoder, node, path)
    )


def _template_labels(decoder: Decoder, template: Mapping, path: str) -> dict[str, str]:
    decoder.misspelt(template, path, TEMPLATE)
    metadata = decoder.object(template, "metadata", path)
    if metadata is None:
        return {}
    path = f"{path}.metadata"
    decoder.misspelt(metadata, path, METADATA)
    labels = decoder.string_map(metadata, "labels", path)
    validate_labels(labels, metadata, "labels", f"{path}.labels", decoder.report)
    return labels
