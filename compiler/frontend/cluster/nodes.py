# SPDX-License-Identifier: Apache-2.0
"""Namespaces and Nodes: the cluster objects that are not workloads or services."""

from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.cluster.pods import (
    decode_named,
    read_address,
)
from policyc.compiler.frontend.kubernetes.addresses import parse_cidr
from policyc.compiler.frontend.kubernetes.cluster_fields import (
    NODE_ADDRESS,
    NODE_SPEC,
    NODE_STATUS,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    quoted,
)
from policyc.compiler.frontend.kubernetes.names import dns_label_problems
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.policy import Network
from policyc.ir.universe import Address

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_INTERNAL = "InternalIP"
_ADDRESS_TYPES = (_INTERNAL, "ExternalIP")


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A v1 Node: its addresses, which of them are internal, and its pod CIDRs."""

    metadata: ObjectMeta
    addresses: tuple[Address, ...]
    pod_cidrs: tuple[Network, ...]
    internal: tuple[Address, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name


@dataclass(frozen=True, slots=True)
class Namespace:
    """A v1 Namespace and its labels, the one with its own name among them."""

    metadata: ObjectMeta
    labels: Map[str, str] = field(hash=False)


def namespace_labels(name: str, labels: Map[str, str]) -> dict[str, str]:
    """The labels of a namespace: the API server always sets the one with its name."""
    return {**labels, NAMESPACE_NAME_LABEL: name}


def decode_namespace(decoder: Decoder, node: Mapping) -> Namespace | None:
    """The namespace; None if it has no readable name."""
    metadata = decode_named(decoder, node, "")
    if metadata is None:
        return None
    for problem in dns_label_problems(metadata.name):
        where, value = "metadata.name", quoted(metadata.name)
        decoder.report.add(
            codes.NAME_INVALID.at(metadata.span, where, where=where, value=value, problem=problem)
        )
    return Namespace(metadata, namespace_labels(metadata.name, metadata.labels))


def decode_cluster_node(decoder: Decoder, node: Mapping) -> ClusterNode | None:
    """The node; None if it has no readable name."""
    metadata = decode_named(decoder, node, "")
    if metadata is None:
        return None
    found = _addresses(decoder, node)
    return ClusterNode(
        metadata,
        tuple(address for _, address in found),
        _pod_cidrs(decoder, node),
        tuple(address for kind, address in found if kind == _INTERNAL),
    )


def _addresses(decoder: Decoder, node: Mapping) -> list[tuple[str, Address]]:
    """Internal and external addresses; host names are not addresses."""
    status = decoder.object(node, "status", "")
    if status is None:
        return []
    decoder.misspelt(status, "status", NODE_STATUS)
    found = []
    for item, path in decoder.items(status, "addresses", "status"):
        entry = decoder.mapping(item, path)
        if entry is None:
            continue
        decoder.misspelt(entry, path, NODE_ADDRESS)
        kind = decoder.string(entry, "type", path)
        if kind in _ADDRESS_TYPES:
            address = read_address(decoder, entry, "address", path)
            if address is not None:
                found.append((kind, address))
    return found


def _pod_cidrs(decoder: Decoder, node: Mapping) -> tuple[Network, ...]:
    """`podCIDRs`, or the older single field."""
    spec = decoder.object(node, "spec", "")
    if spec is None:
        return ()
    decoder.misspelt(spec, "spec", NODE_SPEC)
    texts = decoder.strings(spec, "podCIDRs", "spec")
    if not texts:
        texts = tuple(filter(None, [decoder.string(spec, "podCIDR", "spec")]))
    found = []
    for text in texts:
        cidr = parse_cidr(text)
        if cidr is None:
            where = "spec.podCIDRs"
            span = spec.span_of("podCIDRs")
            decoder.report.add(codes.BAD_CIDR.at(span, where, where=where, value=quoted(text)))
        else:
            found.append(cidr.network)
    return tuple(found)
