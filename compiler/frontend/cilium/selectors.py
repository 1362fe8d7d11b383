# SPDX-License-Identifier: Apache-2.0
"""Cilium's label selectors: keys with a label source, and keys that stand for other attributes.

A key is `k8s:KEY`, `any:KEY` or just `KEY` for a pod's own labels. Some keys stand for its namespace,
the namespace's labels, or its service account. `reserved:NAME` is an entity (E45).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes as codes_cilium
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import (
    label_key_problems,
    label_value_problems,
)
from policyc.compiler.frontend.kubernetes.selectors import (
    Selector,
    decode_selector_item,
    validate_selector,
)
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
from policyc.ir.policy import (
    ALWAYS,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Operator,
    Requirement,
)
from policyc.ir.spans import Span

NAMESPACE = "io.kubernetes.pod.namespace"
NAMESPACE_LABELS = "io.cilium.k8s.namespace.labels."
SERVICE_ACCOUNT = "io.cilium.k8s.policy.serviceaccount"
CLUSTER = "io.cilium.k8s.policy.cluster"
DEFAULT_CLUSTER = "default"
"""Cilium's name of a cluster without a configured name."""
RESERVED = "reserved"
_OWN_SOURCES = ("", "k8s", "any")
_OPERATORS = {o.value: o for o in Operator}


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement as written: the key without its source. `is_label`: it is in matchLabels."""

    source: str
    key: str
    operator: Operator
    values: tuple[str, ...]
    is_label: bool
    path: str
    span: Span = field(compare=False)

    @property
    def is_reserved(self) -> bool:
        """Whether it is a test for an entity."""
        return self.source == RESERVED

    @property
    def is_plain(self) -> bool:
        """Whether it is a label of the object itself, and not another attribute."""
        if self.source not in _OWN_SOURCES or self.key in (NAMESPACE, SERVICE_ACCOUNT, CLUSTER):
            return False
        return not self.key.startswith(NAMESPACE_LABELS)


@dataclass(frozen=True, slots=True)
class Terms:
    """A selector; without terms it selects everything that can be selected there."""

    terms: tuple[Term, ...]
    path: str
    node: Mapping = field(compare=False)


def decode_terms(decoder: SchemaDecoder, parent: Mapping, name: str, path: str) -> Terms | None:
    """The selector in a field, validated; None if it is absent, or not a selector."""
    item = parent.get(name)
    return None if item is None else decode_item_terms(decoder, item, f"{path}.{name}")


def decode_item_terms(decoder: SchemaDecoder, item: Node, path: str) -> Terms | None:
    """The selector of a node of the tree; null is not one."""
    node = decoder.item_object(item, path)
    selector = None if node is None else decode_selector_item(decoder, node, path)
    if selector is None:
        return None
    terms = (*_label_terms(decoder, selector, path), *_expression_terms(decoder, selector, path))
    return Terms(terms, path, selector.node)


def _label_terms(decoder: SchemaDecoder, selector: Selector, path: str) -> Iterator[Term]:
    labels = selector.node.get("matchLabels")
    if not isinstance(labels, Mapping):
        return
    for written, value in selector.match_labels.items():
        entry, where = labels.entries[written], f"{path}.matchLabels.{written}"
        source, key = split_key(written)
        for text, problem in (
            *((written, problem) for problem in label_key_problems(key)),
            *((value, problem) for problem in label_value_problems(value)),
        ):
            finding = codes_cilium.BAD_LABEL.at(
                entry.key.span, where, where=where, value=quoted(text), problem=problem
            )
            decoder.report.add(finding)
        yield Term(source, key, Operator.IN, (value,), True, where, entry.key.span)


def _expression_terms(decoder: SchemaDecoder, selector: Selector, path: str) -> Iterator[Term]:
    stripped = []
    for index, expression in enumerate(selector.match_expressions):
        source, key = split_key(expression.key)
        stripped.append(replace(expression, key=key))
        where = f"{path}.matchExpressions[{index}]"
        operator = _OPERATORS.get(expression.operator)
        if operator is not None:
            values = tuple(sorted(set(expression.values)))
            yield Term(source, key, operator, values, False, where, expression.node.span)
    validate_selector(Selector({}, tuple(stripped), selector.node), path, decoder.report)


def split_key(written: str) -> tuple[str, str]:
    """(source, key); the source is empty if none is written, which means any."""
    source, colon, key = written.partition(":")
    return (source, key) if colon else ("", written)


def entity_of(terms: Terms) -> str | None:
    """The entity that a selector stands for: one reserved label, which must be present."""
    if len(terms.terms) != 1 or not terms.terms[0].is_reserved:
        return None
    term = terms.terms[0]
    is_there = term.operator is Operator.EXISTS or term.values == ("",)
    return term.key if is_there and term.operator is not Operator.NOT_IN else None


def unsupported_terms(terms: Terms) -> Iterator[UnsupportedPart]:
    """Unsupported requirements of a selector: other sources, mixed entities, clusters."""
    for term in terms.terms:
        if term.is_reserved:
            what = _reserved(terms, term)
        elif term.source not in _OWN_SOURCES:
            what = f"labels of the source {term.source}"
        elif term.key == CLUSTER and not _is_of_every_endpoint(term):
            what = "labels of clusters"
        else:
            continue
        yield UnsupportedPart(term.span, term.path, what, is_peer=True)


def _is_of_every_endpoint(term: Term) -> bool:
    """Whether a requirement on the cluster's name holds for every endpoint of the input.

    All endpoints are of one cluster, whose name is `default` unless Cilium is configured otherwise.
    """
    is_named = term.operator is Operator.IN and DEFAULT_CLUSTER in term.values
    return is_named or term.operator is Operator.EXISTS


def _reserved(terms: Terms, term: Term) -> str:
    """The mistake in a reserved label, in words."""
    if entity_of(terms) is not None:
        return f"the entity {term.key}"
    how = "beside other labels" if len(terms.terms) > 1 else "negated, or with a value"
    return f"the reserved label {term.key} {how}"


def names_namespace(terms: Terms) -> bool:
    """Whether a selector itself names its namespaces."""
    return any(
        term.source in _OWN_SOURCES
        and (term.key == NAMESPACE or term.key.startswith(NAMESPACE_LABELS))
        for term in terms.terms
    )


def is_negative(terms: Terms) -> bool:
    """Whether a selector that names namespaces holds for every object without namespace labels."""
    absent = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
    return names_namespace(terms) and all(term.operator in absent for term in terms.terms)


def endpoint_selector(terms: Terms, namespace: str) -> EndpointSelector:
    """The endpoints of a selector; those of `namespace`, unless that is empty."""
    labels: list[Requirement] = []
    of_namespace: list[Requirement] = []
    tests: list[Condition] = []
    only = namespace or None
    for term in terms.terms:
        if term.key == NAMESPACE:
            if only is None and term.operator is Operator.IN and len(term.values) == 1:
                only = term.values[0]
            else:
                tests.append(_test(Attribute.NAMESPACE, term))
        elif term.key == SERVICE_ACCOUNT:
            tests.append(_test(Attribute.SERVICE_ACCOUNT, term))
        elif term.key.startswith(NAMESPACE_LABELS):
            key = term.key.removeprefix(NAMESPACE_LABELS)
            of_namespace.append(Requirement(key, term.operator, term.values))
        elif term.key != CLUSTER:  # all endpoints are of a cluster
            labels.append(Requirement(term.key, term.operator, term.values))
    condition = AllOf(tuple(tests)) if tests else ALWAYS
    return EndpointSelector(only, _sorted(of_namespace), _sorted(labels), condition)


def _test(attribute: Attribute, term: Term) -> Condition:
    return AttributeTest(attribute, Requirement("", term.operator, term.values))


def _sorted(requirements: list[Requirement]) -> LabelSelector:
    unique = sorted(set(requirements), key=lambda r: (r.key, r.operator.value, r.values))
    return LabelSelector(tuple(unique))


def node_condition(terms: Terms) -> Condition:
    """The nodes of a selector, by their labels; `unsupported_node_terms` must have none."""
    return AllOf(
        tuple(
            AttributeTest(Attribute.NODE_LABEL, Requirement(term.key, term.operator, term.values))
            for term in terms.terms
        )
    )


def unsupported_node_terms(terms: Terms) -> Iterator[UnsupportedPart]:
    """The requirements of a selector of nodes beside nodes' labels."""
    for term in terms.terms:
        if not term.is_plain:
            what = f"the label {term.key} of nodes"
            yield UnsupportedPart(term.span, term.path, what, is_peer=True)
