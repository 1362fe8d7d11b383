# SPDX-License-Identifier: Apache-2.0
"""CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy as typed values, decoded and validated (E45).

One object holds one or more specs, each a policy of its own: `spec`, and the items of `specs`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes
from policyc.compiler.frontend.cilium.rule import (
    CiliumRule,
    decode_rule,
)
from policyc.compiler.frontend.cilium.selectors import (
    NAMESPACE,
    Terms,
    decode_terms,
)
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    quoted,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Sequence,
)

OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "specs", "status"})
_SPEC_FIELDS = frozenset(
    {
        *("endpointSelector", "nodeSelector", "ingress", "ingressDeny", "egress", "egressDeny"),
        *("enableDefaultDeny", "labels", "description", "log"),
    }
)
_RULE_LISTS = ("ingress", "ingressDeny", "egress", "egressDeny")


@dataclass(frozen=True, slots=True)
class CiliumSpec:
    """One spec. `endpoints` or `nodes` selects the subjects; `isolates` are ingress, egress or both."""

    endpoints: Terms | None
    nodes: Terms | None
    ingress: tuple[CiliumRule, ...]
    egress: tuple[CiliumRule, ...]
    isolates: frozenset[str]
    path: str
    node: Mapping = field(compare=False)


def decode_specs(
    decoder: SchemaDecoder, node: Mapping, metadata: ObjectMeta, kind: str
) -> list[CiliumSpec]:
    """Every readable spec of an object."""
    found = [
        _spec(decoder, item, path, metadata.namespace) for item, path in _written(decoder, node)
    ]
    if not found:
        decoder.report.add(codes.NO_SPEC.at(node.span, "spec", kind=kind))
    return [spec for spec in found if spec is not None]


def _written(decoder: SchemaDecoder, node: Mapping) -> Iterator[tuple[Node, str]]:
    spec = node.get("spec")
    if spec is not None:
        yield spec, "spec"
    yield from decoder.items(node, "specs", "")


def _spec(decoder: SchemaDecoder, item: Node, path: str, namespace: str) -> CiliumSpec | None:
    node = decoder.item_object(item, path, _SPEC_FIELDS)
    if node is None:
        return None
    endpoints = decode_terms(decoder, node, "endpointSelector", path)
    nodes = decode_terms(decoder, node, "nodeSelector", path)
    _check_selectors(decoder, node, path, namespace)
    if endpoints is not None and namespace:
        endpoints = _in_own_namespace(decoder, endpoints, namespace)
    rules = {name: _rules(decoder, node, path, name) for name in _RULE_LISTS}
    isolates = frozenset(_isolated(decoder, node, path, rules))
    lists = [node.get(name) for name in _RULE_LISTS]
    if all(it is None or (isinstance(it, Sequence) and not it.items) for it in lists):
        finding = codes.NO_RULES.at(node.span, path, where=path)
        decoder.report.add(
            finding.help("for default deny, write `ingress: [{}]` or `egress: [{}]`")
        )
    return CiliumSpec(
        endpoints,
        nodes,
        (*rules["ingress"], *rules["ingressDeny"]),
        (*rules["egress"], *rules["egressDeny"]),
        isolates,
        path,
        node,
    )


def _check_selectors(decoder: SchemaDecoder, node: Mapping, path: str, namespace: str) -> None:
    given = [name for name in ("endpointSelector", "nodeSelector") if node.get(name) is not None]
    if len(given) != 1:
        finding = codes.SELECTORS.at(node.span, path, where=path)
        hint = "keep one of the two" if given else "for every endpoint: `endpointSelector: {}`"
        decoder.report.add(finding.help(hint))
    elif given == ["nodeSelector"] and namespace:
        where = f"{path}.nodeSelector"
        finding = codes.NODE_SELECTOR_PLACE.at(
            node.entries["nodeSelector"].key.span, where, where=where
        )
        decoder.report.add(finding.help("make it a CiliumClusterwideNetworkPolicy"))


def _in_own_namespace(decoder: SchemaDecoder, terms: Terms, namespace: str) -> Terms:
    """`k8s:io.kubernetes.pod.namespace` does not reach beyond the policy's own: Cilium replaces it.

    In any other spelling it is an additional condition, like any other label.
    """
    kept = []
    for term in terms.terms:
        if term.key != NAMESPACE or term.source != "k8s" or not term.is_label:
            kept.append(term)
        elif term.values != (namespace,):
            finding = codes.OTHER_NAMESPACE.at(
                term.span,
                term.path,
                where=term.path,
                namespace=namespace,
                value=quoted(term.values[0]),
            )
            decoder.report.add(finding.help("put the policy into that namespace"))
    return Terms(tuple(kept), terms.path, terms.node)


def _rules(decoder: SchemaDecoder, node: Mapping, path: str, name: str) -> tuple[CiliumRule, ...]:
    direction, is_deny = name.removesuffix("Deny"), name.endswith("Deny")
    found = (
        decode_rule(decoder, item, where, direction, is_deny)
        for item, where in decoder.items(node, name, path)
    )
    return tuple(rule for rule in found if rule is not None)


def _isolated(
    decoder: SchemaDecoder, node: Mapping, path: str, rules: dict[str, tuple[CiliumRule, ...]]
) -> Iterator[str]:
    """The directions with default deny: those that have rules, unless the policy says otherwise."""
    wanted = decoder.object(node, "enableDefaultDeny", path, frozenset({"ingress", "egress"}))
    for direction in ("ingress", "egress"):
        has_rules = bool(rules[direction] or rules[f"{direction}Deny"])
        if wanted is not None and wanted.get(direction) is not None:
            has_rules = decoder.boolean(wanted, direction, f"{path}.enableDefaultDeny")
        if has_rules:
            yield direction
