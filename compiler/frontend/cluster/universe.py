# SPDX-License-Identifier: Apache-2.0
"""Cluster objects -> the universe in which policies are evaluated, and the services beside it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.cluster.nodes import (
    ClusterNode,
    Namespace,
    decode_cluster_node,
    decode_namespace,
    namespace_labels,
)
from policyc.compiler.frontend.cluster.pods import (
    Pod,
    Workload,
    decode_pod,
    decode_workload,
)
from policyc.compiler.frontend.cluster.service_accounts import (
    ServiceAccount,
    decode_service_account,
    with_service_accounts,
)
from policyc.compiler.frontend.cluster.services import (
    EndpointSlice,
    Service,
    decode_endpoint_slice,
    decode_service,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.yaml.sources import InputFile
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.universe import Address, Endpoint, Node, Universe


class HasMetadata(Protocol):
    """Every decoded cluster object."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


T = TypeVar("T", bound=HasMetadata)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The contents of a cluster, as far as policies and the datapath need them. All sorted by name."""

    universe: Universe = field(default_factory=Universe)
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    endpoint_slices: tuple[EndpointSlice, ...] = ()
    nodes: tuple[ClusterNode, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    passed_over: Counter[str] = field(default_factory=Counter, hash=False)
    findings: tuple[Diagnostic, ...] = ()
    has_policies: bool = False
    """Whether its objects include policies, which must be those that are evaluated."""


@dataclass
class ClusterObjects:
    """Collects decoded cluster objects, then builds the universe of them."""

    report: Report
    default_namespace: str
    namespaces: list[Namespace] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    endpoint_slices: list[EndpointSlice] = field(default_factory=list)
    nodes: list[ClusterNode] = field(default_factory=list)
    service_accounts: list[ServiceAccount] = field(default_factory=list)

    @property
    def is_given(self) -> bool:
        """Whether there is any object of a cluster."""
        kinds = (self.namespaces, self.pods, self.workloads, self.services, self.endpoint_slices)
        return any((*kinds, self.nodes, self.service_accounts))

    def add(self, raw: RawObject) -> ObjectMeta | None:
        """Decode one object and add it; its metadata, or None if it is unreadable."""
        decoder, node, namespace = Decoder(self.report), raw.node, self.default_namespace
        match raw.kind:
            case "Namespace":
                return _keep(self.namespaces, decode_namespace(decoder, node))
            case "Pod":
                return _keep(self.pods, decode_pod(decoder, node, namespace))
            case "Service":
                return _keep(self.services, decode_service(decoder, node, namespace))
            case "EndpointSlice":
                slices = decode_endpoint_slice(decoder, node, namespace)
                return _keep(self.endpoint_slices, slices)
            case "Node":
                return _keep(self.nodes, decode_cluster_node(decoder, node))
            case "ServiceAccount":
                account = decode_service_account(decoder, node, namespace)
                return _keep(self.service_accounts, account)
            case _:
                workload = decode_workload(decoder, node, raw.kind, namespace)
                return _keep(self.workloads, workload)

    def universe(self) -> Universe:
        """The endpoints: pods that are not finished, and one for each template."""
        labels = {n.metadata.name: dict(n.labels) for n in self.namespaces}
        nodes = {n.name: Node(n.name, dict(n.metadata.labels), n.addresses) for n in self.nodes}
        internal = {node.name: node.internal for node in self.nodes}
        endpoints = [
            _on_its_node(_pod_endpoint(pod, labels), internal)
            for pod in self.pods
            if not pod.is_done
        ]
        self._check_addresses(endpoints)
        taken = {endpoint.qualified_name for endpoint in endpoints}
        for workload in self._top_workloads():
            name = _free_name(workload, taken)
            taken.add(f"{workload.metadata.namespace}/{name}")
            endpoints.append(_template_endpoint(workload, name, labels))
        endpoints = [replace(e, its_node=nodes.get(e.node)) for e in endpoints]
        endpoints = with_service_accounts(endpoints, self.service_accounts)
        endpoints.sort(key=lambda endpoint: endpoint.qualified_name)
        return Universe(tuple(endpoints), tuple(nodes[name] for name in sorted(nodes)))

    def _top_workloads(self) -> list[Workload]:
        """Workloads whose owner is not in the input: a Deployment stands for its ReplicaSets."""
        listed = {_identity(w.kind, w.metadata.namespace, w.metadata.name) for w in self.workloads}
        found = [
            workload
            for workload in self.workloads
            if not any(
                _identity(owner.kind, workload.metadata.namespace, owner.name) in listed
                for owner in workload.metadata.owners
            )
        ]
        return sorted(found, key=lambda w: (w.metadata.qualified_name, w.kind))

    def _check_addresses(self, endpoints: Iterable[Endpoint]) -> None:
        """Two pods with one address could not be distinguished; on the host network they share it."""
        holders: dict[object, Endpoint] = {}
        for endpoint in endpoints:
            for address in () if endpoint.host_network else endpoint.addresses:
                other = holders.setdefault(address, endpoint)
                if other is not endpoint:
                    finding = codes.SHARED_ADDRESS.at(
                        endpoint.span,
                        "status.podIPs",
                        name=endpoint.qualified_name,
                        address=address,
                        other=other.qualified_name,
                    )
                    finding = finding.note(other.span, f"{other.qualified_name} is here")
                    self.report.add(
                        finding.help("take the snapshot again, or remove the stale pod")
                    )


def _keep(kept: list[T], decoded: T | None) -> ObjectMeta | None:
    if decoded is None:
        return None
    kept.append(decoded)
    return decoded.metadata


def _qualified(item: HasMetadata) -> str:
    return item.metadata.qualified_name


def _identity(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    return kind, namespace, name


def _pod_endpoint(pod: Pod, labels: dict[str, dict[str, str]]) -> Endpoint:
    """A pod of a namespace without an object has only the label with the namespace's name."""
    meta = pod.metadata
    return Endpoint(
        namespace=meta.namespace,
        name=meta.name,
        labels=dict(meta.labels),
        namespace_labels=labels.get(meta.namespace) or namespace_labels(meta.namespace, {}),
        ports=pod.spec.ports,
        addresses=pod.addresses or (),
        service_account=pod.spec.service_account,
        node=pod.spec.node_name,
        host_network=pod.spec.host_network,
        addresses_known=pod.addresses is not None,
        span=meta.span,
    )


def _on_its_node(endpoint: Endpoint, internal: dict[str, tuple[Address, ...]]) -> Endpoint:
    """A manifest on the host network of a known node has that node's addresses (A21)."""
    found = internal.get(endpoint.node, ())
    if endpoint.addresses_known or not endpoint.host_network or not found:
        return endpoint
    first = {address.version: address for address in reversed(found)}
    addresses = tuple(first[family] for family in sorted(first))
    return replace(endpoint, addresses=addresses, addresses_known=True)


def _template_endpoint(
    workload: Workload, name: str, labels: dict[str, dict[str, str]]
) -> Endpoint:
    meta = workload.metadata
    return Endpoint(
        namespace=meta.namespace,
        name=name,
        labels=workload.labels,
        namespace_labels=labels.get(meta.namespace) or namespace_labels(meta.namespace, {}),
        ports=workload.spec.ports,
        service_account=workload.spec.service_account,
        node=workload.spec.node_name,
        host_network=workload.spec.host_network,
        is_template=True,
        addresses_known=False,
        span=meta.span,
    )


def _free_name(workload: Workload, taken: set[str]) -> str:
    """The workload's name; with its kind appended until no pod or other workload has that name."""
    meta = workload.metadata
    name = meta.name
    while f"{meta.namespace}/{name}" in taken:
        name = f"{name}.{workload.kind.lower()}"
    return name
