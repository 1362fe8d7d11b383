# SPDX-License-Identifier: Apache-2.0
"""metav1.LabelSelector: decoded, validated as the API server does, lowered (semantics A13)."""

from collections.abc import Mapping as Map
from dataclasses import field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    quoted,
    validate_labels,
)
from policyc.compiler.frontend.kubernetes.names import (
    label_key_problems,
    label_value_problems,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Sequence,
)
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import EVERYTHING, LabelSelector, Operator, Requirement

_FIELDS = frozenset({"matchLabels", "matchExpressions"})
_EXPRESSION_FIELDS = frozenset({"key", "operator", "values"})
_OPERATORS = {
    operator.value: operator
    for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}
_WITH_VALUES = frozenset({Operator.IN, Operator.NOT_IN})


@dataclass(frozen=True, slots=True)
class Expression:
    """metav1.LabelSelectorRequirement as written."""

    key: str
    operator: str
    values: tuple[str, ...]
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class Selector:
    """metav1.LabelSelector as written."""

    match_labels: Map[str, str]
    match_expressions: tuple[Expression, ...]
    node: Mapping = field(compare=False)


def decode_selector(decoder: Decoder, parent: Mapping, name: str, path: str) -> Selector | None:
    """The selector in a field; None if it is absent, null, or not a mapping."""
    value = parent.get(name)
    return None if value is None else decode_selector_item(decoder, value, f"{path}.{name}")


def decode_selector_item(decoder: Decoder, item: Node, path: str) -> Selector | None:
    """The selector of a node of the tree; None if it is not a mapping."""
    node = decoder.mapping(item, path, _FIELDS)
    if node is None:
        return None
    if not node.entries:
        return Selector({}, (), node)
    labels = decoder.selector_labels(node, "matchLabels", path)
    expressions = []
    for item, where in decoder.items(node, "matchExpressions", path):
        expression = _decode_expression(
            decoder, decoder.mapping(item, where, _EXPRESSION_FIELDS), where
        )
        if expression is not None:
            expressions.append(expression)
    return Selector(labels, tuple(expressions), node)


def _decode_expression(decoder: Decoder, node: Mapping | None, path: str) -> Expression | None:
    if node is None:
        return None
    key = decoder.string(node, "key", path)
    operator = decoder.string(node, "operator", path)
    values = decoder.strings(node, "values", path)
    if key is None or operator is None:
        return None
    return Expression(key, operator, values, node)


def validate_selector(selector: Selector, path: str, report: Report) -> None:
    """ValidateLabelSelector."""
    if selector.match_labels:
        labels_path = f"{path}.matchLabels"
        validate_labels(selector.match_labels, selector.node, "matchLabels", labels_path, report)
    for index, expression in enumerate(selector.match_expressions):
        _validate_expression(expression, f"{path}.matchExpressions[{index}]", report)


def _validate_expression(expression: Expression, path: str, report: Report) -> None:
    """ValidateLabelSelectorRequirement, in its order."""
    _validate_operator(expression, path, report)
    node = expression.node
    for problem in label_key_problems(expression.key):
        where = f"{path}.key"
        value = quoted(expression.key)
        report.add(
            codes.LABEL_INVALID.at(
                node.span_of("key"), where, where=where, value=value, problem=problem
            )
        )
    for index, value in enumerate(expression.values):
        where = f"{path}.values[{index}]"
        for problem in label_value_problems(value):
            report.add(
                codes.LABEL_INVALID.at(
                    node.span_of_item("values", index),
                    where,
                    where=where,
                    value=quoted(value),
                    problem=problem,
                )
            )


def _validate_operator(expression: Expression, path: str, report: Report) -> None:
    operator = _OPERATORS.get(expression.operator)
    node = expression.node
    where = f"{path}.values"
    if operator is None:
        where = f"{path}.operator"
        value = quoted(expression.operator)
        finding = codes.OPERATOR_INVALID.at(
            node.span_of("operator"), where, where=where, value=value
        )
        report.add(finding.help(did_you_mean(expression.operator, _OPERATORS)))
    elif operator in _WITH_VALUES and not expression.values:
        if _is_empty(node.get("values")):
            finding = codes.VALUES_REQUIRED.at(node.span_of("values"), where, where=where)
            report.add(finding.help("list at least one value, or use Exists or DoesNotExist"))
    elif operator not in _WITH_VALUES and expression.values:
        finding = codes.VALUES_FORBIDDEN.at(node.span_of("values"), where, where=where)
        report.add(finding.help("remove values, or use In or NotIn"))


def _is_empty(values: Node | None) -> bool:
    """Whether values are missing, and not only of a wrong type, which was reported already."""
    return values is None or (isinstance(values, Sequence) and not values.items)


def lower_selector(selector: Selector | None) -> LabelSelector:
    """The conjunction of both parts, sorted; an absent selector selects everything."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return EVERYTHING
    found = {
        Requirement(key, Operator.IN, (value,)) for key, value in selector.match_labels.items()
    }
    for expression in selector.match_expressions:
        values = tuple(sorted(set(expression.values)))
        found.add(Requirement(expression.key, _OPERATORS[expression.operator], values))
    return LabelSelector(tuple(sorted(found, key=_requirement_order)))


def _requirement_order(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator.value, requirement.values


def selector_to_api(selector: Selector) -> dict[str, object]:
    """The selector as the API server shows it: empty parts are left out."""
    shown: dict[str, object] = {}
    if selector.match_labels:
        shown["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        shown["matchExpressions"] = [
            _expression_to_api(expression) for expression in selector.match_expressions
        ]
    return shown


def _expression_to_api(expression: Expression) -> dict[str, object]:
    shown: dict[str, object] = {"key": expression.key, "operator": expression.operator}
    if expression.values:
        shown["values"] = list(expression.values)
    return shown
