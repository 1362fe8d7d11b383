# SPDX-License-Identifier: Apache-2.0
"""Expressions of the rule language -> selectors and conditions (semantics G50 to G52)."""

from collections.abc import Callable, Iterator

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_hints import suggestion
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    subdomain_problems,
)
from policyc.grammar import tree
from policyc.grammar.tokens import ATTRIBUTE, Token, unquoted
from policyc.ir.policy import (
    ALWAYS,
    NEVER,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
)

_LABELS = {
    "pod": Attribute.LABEL,
    "ns": Attribute.NAMESPACE_LABEL,
    "node": Attribute.NODE_LABEL,
    "serviceaccount": Attribute.SERVICE_ACCOUNT_LABEL,
}
_NAMES = {
    "namespace": Attribute.NAMESPACE,
    "node": Attribute.NODE,
    "serviceaccount": Attribute.SERVICE_ACCOUNT,
}
_OPERATORS = {
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    "in": Operator.IN,
    "not in": Operator.NOT_IN,
    "exists": Operator.EXISTS,
    "starts": Operator.STARTS_WITH,
    "ends": Operator.ENDS_WITH,
    "contains": Operator.CONTAINS,
}
_PARTIAL = frozenset((Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS))
_OF_NAMESPACES = frozenset((Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL))
_OF_NODES = frozenset((Attribute.NODE, Attribute.NODE_LABEL))
_CHECKS: dict[Attribute, tuple[str, Callable[[str], tuple[str, ...]]]] = {
    Attribute.NAMESPACE: ("the name of a namespace", dns_label_problems),
    Attribute.NODE: ("the name of a node", subdomain_problems),
    Attribute.SERVICE_ACCOUNT: ("the name of a service account", subdomain_problems),
}


def endpoint_selector(
    expression: tree.Expression, passage: Passage, is_subject: bool = False
) -> EndpointSelector:
    """The pods of an expression; mistakes go to the passage's report.

    In an object with a namespace, a subject is always in that namespace. A peer is in it if the
    expression does not mention namespaces.
    """
    condition = _condition(expression, passage)
    home = passage.namespace or None
    if (
        home is not None
        and not is_subject
        and any(test.attribute in _OF_NAMESPACES for test in _tests(condition))
    ):
        home = None
    if home is not None and is_subject:
        _warn_of_others(expression, condition, passage)
    return _as_labels(condition, home) or EndpointSelector(home, condition=condition)


def _warn_of_others(expression: tree.Expression, condition: Condition, passage: Passage) -> None:
    """Warn if a subject must be in another namespace than the policy's own."""
    for part in _conjuncts(condition):
        if not isinstance(part, AttributeTest) or part.attribute is not Attribute.NAMESPACE:
            continue
        values, operator = part.requirement.values, part.requirement.operator
        if operator is Operator.IN and passage.namespace not in values:
            token = next(
                a.token for a in _attributes(expression) if _kind(a) is Attribute.NAMESPACE
            )
            others = ", ".join(values)
            passage.say(codes.OTHER_NAMESPACE, token, home=passage.namespace, others=others)


def node_condition(expression: tree.Expression, passage: Passage) -> Condition:
    """The condition on nodes of an expression; one that reads anything else is an error."""
    for attribute in _attributes(expression):
        kind = _kind(attribute)
        if kind is not None and kind not in _OF_NODES:
            passage.say(
                codes.NOT_OF_NODES,
                attribute.token,
                'distinguish nodes by label (node.zone == "a") or name (node == "n1")',
                what=f"{kind.value}s" if kind in _LABELS.values() else kind.value,
            )
    return _condition(expression, passage)


def _condition(expression: tree.Expression, passage: Passage) -> Condition:
    match expression:
        case tree.Test():
            return _test(expression, passage)
        case tree.Everything():
            return ALWAYS
        case tree.Negation(part):
            return Not(_condition(part, passage))
        case tree.Conjunction(parts):
            return AllOf(tuple([_condition(part, passage) for part in parts]))
        case tree.Disjunction(parts):
            return OneOf(tuple([_condition(part, passage) for part in parts]))


def _test(test: tree.Test, passage: Passage) -> Condition:
    kind, key = _kind(test.attribute), _key(test.attribute, passage)
    if kind is None:
        _say_unknown(test.attribute, passage)
        return NEVER
    operator = _OPERATORS[test.operator]
    values = {unquoted(token) for token in test.values}
    for token in test.values:
        _check_value(token, kind, operator, passage)
    return AttributeTest(kind, Requirement(key, operator, tuple(sorted(values))))


def _kind(attribute: tree.Attribute) -> Attribute | None:
    token = attribute.token
    if token.kind == ATTRIBUTE:
        return _LABELS.get(token.text.partition(".")[0])
    return _NAMES[token.text] if attribute.key is None else _LABELS[token.text]


def _key(attribute: tree.Attribute, passage: Passage) -> str:
    """The label's key, empty for a name. Wrong keys are reported."""
    token, skip = attribute.token, 0
    if token.kind == ATTRIBUTE:
        scope, _, key = token.text.partition(".")
        skip = len(scope) + 1 if key else 0
    elif attribute.key is not None:
        token = attribute.key
        key = unquoted(token)
    else:
        return ""
    for problem in label_key_problems(key)[:1]:
        passage.say(codes.KEY_INVALID, passage.span(token, skip), key=quoted(key), problem=problem)
    return key


def _say_unknown(attribute: tree.Attribute, passage: Passage) -> None:
    scope, _, key = attribute.token.text.partition(".")
    if scope == "namespace":
        hint = f"labels of a namespace are ns.{key}; its name is `namespace`"
    else:
        hint = suggestion(scope, _LABELS)
    span = passage.span(attribute.token, 0, len(scope))
    passage.say(codes.UNKNOWN_ATTRIBUTE, span, hint, name=scope)


def _check_value(token: Token, kind: Attribute, operator: Operator, passage: Passage) -> None:
    value = unquoted(token)
    if operator in _PARTIAL:
        if not value:
            passage.say(codes.TEXT_EMPTY, token, "to test for the label alone, write `exists`")
        return
    what, problems_of = _CHECKS.get(kind, ("the value of a label", label_value_problems))
    for problem in problems_of(value)[:1]:
        passage.say(codes.VALUE_INVALID, token, value=quoted(value), what=what, problem=problem)


def _attributes(expression: tree.Expression) -> Iterator[tree.Attribute]:
    match expression:
        case tree.Test(attribute=attribute):
            yield attribute
        case tree.Negation(part):
            yield from _attributes(part)
        case tree.Conjunction(parts) | tree.Disjunction(parts):
            for part in parts:
                yield from _attributes(part)


def _tests(condition: Condition) -> Iterator[AttributeTest]:
    match condition:
        case AttributeTest():
            yield condition
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from _tests(part)
        case Not(part):
            yield from _tests(part)


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from _conjuncts(part)
    else:
        yield condition


def _as_labels(condition: Condition, home: str | None) -> EndpointSelector | None:
    """The selector, if the whole condition is a conjunction that label selectors can express."""
    found: dict[Attribute, set[Requirement]] = {
        Attribute.LABEL: set(),
        Attribute.NAMESPACE_LABEL: set(),
    }
    for part in _conjuncts(condition):
        if not isinstance(part, AttributeTest):
            return None
        requirement = part.requirement
        if part.attribute in found and requirement.operator not in _PARTIAL:
            found[part.attribute].add(requirement)
        elif part.attribute is Attribute.NAMESPACE and requirement.operator is Operator.IN:
            if len(requirement.values) != 1 or home not in (None, requirement.values[0]):
                return None
            home = requirement.values[0]
        else:
            return None
    labels, of_namespace = (
        LabelSelector(tuple(sorted(some, key=lambda r: (r.key, r.operator.value, r.values))))
        for some in found.values()
    )
    return EndpointSelector(home, of_namespace, labels)
