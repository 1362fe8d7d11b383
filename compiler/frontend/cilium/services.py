# SPDX-License-Identifier: Apache-2.0
"""Cilium's toServices: the pods that Services select (E45)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes as codes_cilium
from policyc.compiler.frontend.cilium.selectors import (
    Terms,
    decode_terms,
)
from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import Node
from policyc.ir.matching import requirement_holds
from policyc.ir.policy import (
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    Operator,
    Peer,
    Requirement,
)
from policyc.ir.spans import Span

_ITEM_FIELDS = frozenset({"k8sService", "k8sServiceSelector"})
_NAMED_FIELDS = frozenset({"serviceName", "namespace"})
_SELECTOR_FIELDS = frozenset({"selector", "namespace"})


@dataclass(frozen=True, slots=True)
class ServiceRef:
    """Services by name or by their labels; an empty namespace means every namespace."""

    name: str
    selector: Terms | None
    namespace: str
    path: str
    span: Span = field(compare=False)


def decode_service_ref(decoder: SchemaDecoder, item: Node, path: str) -> ServiceRef | None:
    """An item of toServices."""
    node = decoder.item_object(item, path, _ITEM_FIELDS)
    which = None if node is None else decoder.one_of(node, path, sorted(_ITEM_FIELDS))
    if node is None or which is None:
        return None
    path = f"{path}.{which}"
    is_named = which == "k8sService"
    inner = decoder.mapping(node.get(which), path, _NAMED_FIELDS if is_named else _SELECTOR_FIELDS)
    if inner is None:
        return None
    needed = "serviceName" if is_named else "selector"
    if decoder.required(inner, needed, path) is None:
        return None
    namespace = decoder.string(inner, "namespace", path) or ""
    selector = None if is_named else decode_terms(decoder, inner, "selector", path)
    name = (decoder.string(inner, "serviceName", path) or "") if is_named else ""
    if not is_named and selector is None:
        return None
    return ServiceRef(name, selector, namespace, path, inner.span_of(needed))


def lower_service_ref(ref: ServiceRef, around: Surroundings) -> Iterator[Peer | UnsupportedPart]:
    """The pods of every matched Service; one that is not known, or has no selector, is not supported."""
    found = [service for service in around.services.values() if _is_meant(ref, service)]
    if not found and (ref.name or not around.services):
        what = f"the Service {_shown(ref)}, which is not among the cluster's objects"
        yield UnsupportedPart(ref.span, ref.path, what, is_peer=True)
    elif not found:
        where = f"{ref.path}.selector"
        finding = codes_cilium.FINDS_NONE.at(ref.span, where, where=where, kind="Service")
        around.report.add(finding.help("check its labels and its namespace against the Services"))
    for service in found:
        if service.selector:
            yield _pods_of(service)
        else:
            name = service.metadata.qualified_name
            what = f"the Service {name}, which has no selector: its addresses are in EndpointSlices"
            yield UnsupportedPart(ref.span, ref.path, what, is_peer=True)


def _shown(ref: ServiceRef) -> str:
    if not ref.name:
        return "that is selected"
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name


def _is_meant(ref: ServiceRef, service: Service) -> bool:
    meta = service.metadata
    if ref.namespace not in ("", meta.namespace):
        return False
    if ref.selector is None:
        return ref.name == meta.name
    return all(
        requirement_holds(Requirement(term.key, term.operator, term.values), meta.labels)
        for term in ref.selector.terms
    )


def _pods_of(service: Service) -> Peer:
    labels = (Requirement(k, Operator.IN, (v,)) for k, v in sorted(service.selector.items()))
    namespace = service.metadata.namespace
    return EndpointPeer(EndpointSelector(namespace, labels=LabelSelector(tuple(labels))))
