# SPDX-License-Identifier: Apache-2.0
"""metav1.ObjectMeta, as far as policyc reads it: an object's identity, its labels and its owners."""

import json
from collections.abc import Mapping as Map
from dataclasses import field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.cluster_fields import METADATA
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata_details import check_details
from policyc.compiler.frontend.kubernetes.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    subdomain_problems,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    clipped,
)
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

OBJECT_META_FIELDS = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    }
)


@dataclass(frozen=True, slots=True)
class Owner:
    """metav1.OwnerReference: the object that made this one."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The identity of an object. `namespace` is already the default one if none was given (A2)."""

    name: str
    namespace: str
    labels: Map[str, str]
    owners: tuple[Owner, ...] = ()
    is_generated: bool = False
    node: Mapping = field(default_factory=lambda: Mapping("", 0, 0), compare=False)

    @property
    def span(self) -> Span:
        """The place of the name."""
        return self.node.span_of("name")

    @property
    def qualified_name(self) -> str:
        """`namespace/name`, or the name of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def quoted(value: object) -> str:
    """A value as the API server's messages show it: strings in Go's quotes, long ones cut."""
    return clipped(json.dumps(value, ensure_ascii=False))


def decode_metadata(
    decoder: Decoder, parent: Mapping, namespace: str, is_strict: bool = False
) -> ObjectMeta | None:
    """The metadata of an object; None if it is unreadable or its name is not a string.

    `namespace` is used if none is given; empty for kinds that have none. Strict decoding rejects fields
    that ObjectMeta does not have.
    """
    known = OBJECT_META_FIELDS if is_strict else None
    node: Mapping | None = Mapping(parent.file, parent.line, parent.column, parent.end_column)
    if parent.get("metadata") is not None:
        node = decoder.object(parent, "metadata", "", known)
    if node is None:
        return None
    if not is_strict:
        decoder.misspelt(node, "metadata", METADATA)
    name = decoder.string(node, "name", "metadata")
    given = decoder.string(node, "namespace", "metadata")
    labels = decoder.string_map(node, "labels", "metadata")
    generated = decoder.string(node, "generateName", "metadata")
    if is_strict:
        check_details(decoder, node)
    if name is None or given is None:
        return None
    owners = () if is_strict else tuple(_owners(decoder, node))
    in_namespace = (given or namespace) if namespace else ""
    return ObjectMeta(name, in_namespace, labels, owners, bool(generated), node)


def _owners(decoder: Decoder, node: Mapping) -> list[Owner]:
    found = []
    for item, path in decoder.items(node, "ownerReferences", "metadata"):
        owner = decoder.mapping(item, path)
        if owner is not None:
            kind, name = decoder.string(owner, "kind", path), decoder.string(owner, "name", path)
            found.append(Owner(kind or "", name or ""))
    return found


def validate_metadata(meta: ObjectMeta, report: Report) -> None:
    """ValidateObjectMeta, for a kind whose names are DNS subdomains."""
    validate_name(meta, report)
    for problem in subdomain_problems(meta.name) if meta.name else ():
        where = "metadata.name"
        report.add(
            codes.NAME_INVALID.at(
                meta.span, where, where=where, value=quoted(meta.name), problem=problem
            )
        )
    for problem in dns_label_problems(meta.namespace) if meta.namespace else ():
        where = "metadata.namespace"
        report.add(
            codes.NAME_INVALID.at(
                meta.node.span_of("namespace"),
                where,
                where=where,
                value=quoted(meta.namespace),
                problem=problem,
            )
        )
    validate_labels(meta.labels, meta.node, "labels", "metadata.labels", report)


def validate_name(meta: ObjectMeta, report: Report) -> None:
    """An object needs a name; a name that the server would generate is of no use to a compiler."""
    if meta.name:
        return
    code = codes.NAME_GENERATED if meta.is_generated else codes.NAME_REQUIRED
    report.add(code.at(meta.span, "metadata.name", where="metadata.name"))


def validate_labels(
    labels: Map[str, str], parent: Mapping, name: str, path: str, report: Report
) -> None:
    """ValidateLabels: keys are qualified names, values label values."""
    for key, value in labels.items():
        found = [(key, p) for p in label_key_problems(key)]
        found += [(value, p) for p in label_value_problems(value)]
        for wrong, problem in found:
            holder = parent.get(name)
            span = holder.span_of(key) if isinstance(holder, Mapping) else parent.span
            report.add(
                codes.LABEL_INVALID.at(span, path, where=path, value=quoted(wrong), problem=problem)
            )
