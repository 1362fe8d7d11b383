# SPDX-License-Identifier: Apache-2.0
"""Conditions in Calico's selector language, for each place where a selector may stand (semantics D43).

A `selector` reads the labels of a pod's namespace and service account under prefixes. A selector of
namespaces or of service accounts reads their own labels.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from policyc.backends.policies.normal_form import NAMESPACE_NAME_LABEL, UnsayableError
from policyc.ir.selectors import (
    ALWAYS,
    NEVER,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    Not,
    OneOf,
    Operator,
    Requirement,
)

EVERYTHING = "all()"
EVERY_POD = "has(projectcalico.org/namespace)"
"""Everything in a namespace: `all()` would include host endpoints and network sets."""
MOST_NESTING = 48
_NAMESPACE, _ACCOUNT = "projectcalico.org/namespace", "projectcalico.org/serviceaccount"
_NAME = "projectcalico.org/name"
_OF_CALICO = (_NAMESPACE, _ACCOUNT, "projectcalico.org/orchestrator")
_PREFIXES = ("pcns.", "pcsa.")
_IN_A_NAMESPACE = AttributeTest(Attribute.NAMESPACE, Requirement("", Operator.EXISTS))
_KEY = re.compile(r"[A-Za-z0-9_./-]+")
_OPPOSITES = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}
_SIGNS = {
    Operator.IN: "==",
    Operator.NOT_IN: "!=",
    Operator.STARTS_WITH: "starts with",
    Operator.ENDS_WITH: "ends with",
    Operator.CONTAINS: "contains",
}
Labels = Callable[[AttributeTest], str]
"""The name of the label that a test reads, in one place; raises UnsayableError."""


def simplified(condition: Condition, is_wanted: bool = True) -> Condition:
    """The condition, or its negation: negations at the tests, no constant inside, no repetition."""
    match condition:
        case AttributeTest():
            return _test(condition, is_wanted)
        case AllOf(parts) | OneOf(parts):
            is_all = isinstance(condition, AllOf) == is_wanted
            return _joined(is_all, (simplified(part, is_wanted) for part in parts))
        case Not(part):
            return simplified(part, not is_wanted)
        case _:
            assert_never(condition)


def _test(test: AttributeTest, is_wanted: bool) -> Condition:
    requirement = test.requirement
    operator = requirement.operator
    if operator in (Operator.IN, Operator.NOT_IN) and not requirement.values:
        return NEVER if (operator is Operator.IN) == is_wanted else ALWAYS
    if is_wanted:
        return test
    if operator not in _OPPOSITES:
        return Not(test)
    opposite = Requirement(requirement.key, _OPPOSITES[operator], requirement.values)
    return AttributeTest(test.attribute, opposite)


def _joined(is_all: bool, parts: Iterable[Condition]) -> Condition:
    """Simple parts, as a conjunction or a disjunction."""
    nothing, decided = (ALWAYS, NEVER) if is_all else (NEVER, ALWAYS)
    found: dict[Condition, None] = {}
    for part in parts:
        if part == decided:
            return decided
        if part != nothing:
            is_same_kind = isinstance(part, AllOf if is_all else OneOf)
            inner = part.parts if is_same_kind else (part,)  # type: ignore[union-attr]
            found |= dict.fromkeys(inner)
    if len(found) == 1:
        return next(iter(found))
    return AllOf(tuple(found)) if is_all else OneOf(tuple(found))


def conjuncts(condition: Condition) -> list[Condition]:
    """The conjuncts, simplified; NEVER stands alone."""
    found = simplified(condition)
    return list(found.parts) if isinstance(found, AllOf) else [found]


@dataclass(frozen=True, slots=True)
class Asked:
    """Conjuncts by the field that can express them: `labels` needs a selector."""

    labels: list[Condition]
    namespaces: list[Condition]
    accounts: list[Condition]


def asked_by(condition: Condition) -> Asked | None:
    """The parts of a condition on pods; None if it never holds."""
    found = Asked([], [], [])
    for part in conjuncts(condition):
        if part == NEVER:
            return None
        if _reads_only(part, Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL):
            found.namespaces.append(part)
        elif _reads_only(part, Attribute.SERVICE_ACCOUNT, Attribute.SERVICE_ACCOUNT_LABEL):
            found.accounts.append(part)
        else:
            found.labels.append(part)
    return found


def _reads_only(condition: Condition, *attributes: Attribute) -> bool:
    """Whether every test reads one of the attributes."""
    match condition:
        case AttributeTest(attribute, _):
            return attribute in attributes
        case AllOf(parts) | OneOf(parts):
            return all(_reads_only(part, *attributes) for part in parts)
        case Not(part):
            return _reads_only(part, *attributes)
        case _:
            assert_never(condition)


def only_namespace(condition: Condition) -> str | None:
    """The namespace's name, if the condition requires exactly one name."""
    match condition:
        case AttributeTest(Attribute.NAMESPACE, Requirement(_, Operator.IN, (name,))):
            return name
        case AttributeTest(Attribute.NAMESPACE_LABEL, Requirement(key, Operator.IN, (name,))) if (
            key == NAMESPACE_NAME_LABEL
        ):
            return name
        case _:
            return None


def namespace_selector(parts: list[Condition]) -> str:
    """The namespaceSelector for pods of some namespaces.

    To Felix, an object without a namespace has no namespace labels, so `team != "x"` would match host
    endpoints, too. There a namespace is selected by its name (D43).
    """
    if parts and all(map(_holds_without_labels, parts)):
        parts = [*parts, _IN_A_NAMESPACE]
    return to_text(parts, of_named)


def _holds_without_labels(condition: Condition) -> bool:
    match condition:
        case AttributeTest(_, requirement):
            return requirement.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
        case AllOf(parts):
            return all(map(_holds_without_labels, parts))
        case OneOf(parts):
            return any(map(_holds_without_labels, parts))
        case Not(part):
            return not _holds_without_labels(part)
        case _:
            assert_never(condition)


def of_workloads(test: AttributeTest) -> str:
    """The label in a `selector`."""
    key = test.requirement.key
    match test.attribute:
        case Attribute.LABEL:
            if key in _OF_CALICO or key.startswith(_PREFIXES):
                raise UnsayableError(f"Calico sets the label {key} itself")
            return key
        case Attribute.NAMESPACE:
            return _NAMESPACE
        case Attribute.NAMESPACE_LABEL if key == NAMESPACE_NAME_LABEL:
            return _NAMESPACE
        case Attribute.NAMESPACE_LABEL:
            return f"pcns.{_own_label(key)}"
        case Attribute.SERVICE_ACCOUNT:
            return _ACCOUNT
        case Attribute.SERVICE_ACCOUNT_LABEL:
            return f"pcsa.{_own_label(key)}"
        case Attribute.NODE | Attribute.NODE_LABEL:
            raise UnsayableError(f"it selects pods by {test.attribute.value}")
        case _:
            assert_never(test.attribute)


def of_hosts(test: AttributeTest) -> str:
    """The label of a host endpoint in a `selector`: unchanged."""
    if test.attribute is not Attribute.LABEL:
        raise UnsayableError(f"it selects hosts by {test.attribute.value}")
    return test.requirement.key


def of_named(test: AttributeTest) -> str:
    """The label in a selector of namespaces, or of service accounts."""
    if test.attribute in (Attribute.NAMESPACE, Attribute.SERVICE_ACCOUNT):
        return _NAME
    return _own_label(test.requirement.key)


def _own_label(key: str) -> str:
    if key == _NAME:
        raise UnsayableError(f"Calico sets the label {key} itself")
    return key


def to_text(parts: Iterable[Condition], labels: Labels) -> str:
    """The conjunction as a selector; without parts it selects everything."""
    text = _text(simplified(AllOf(tuple(parts))), labels)
    depth = deepest = 0
    for sign in re.sub(r"\"[^\"]*\"|'[^']*'", "", text):
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth)
    if deepest > MOST_NESTING:
        raise UnsayableError(f"its selector would nest more than {MOST_NESTING} deep")
    return text


def _text(condition: Condition, labels: Labels) -> str:
    match condition:
        case AttributeTest(_, requirement):
            return _compared(labels(condition), requirement)
        case AllOf(parts):
            return " && ".join(_inside(part, labels) for part in parts) or EVERYTHING
        case OneOf(parts):
            return " || ".join(_text(part, labels) for part in parts) or f"!{EVERYTHING}"
        case Not(part):
            return f"!({_text(part, labels)})"
        case _:
            assert_never(condition)


def _inside(condition: Condition, labels: Labels) -> str:
    text = _text(condition, labels)
    return f"({text})" if isinstance(condition, OneOf) else text


def _compared(key: str, requirement: Requirement) -> str:
    if not _KEY.fullmatch(key):
        raise UnsayableError(f"selectors have no form for the label {key!r}")
    operator, values = requirement.operator, requirement.values
    match operator:
        case Operator.EXISTS:
            return f"has({key})"
        case Operator.DOES_NOT_EXIST:
            return f"!has({key})"
        case Operator.IN | Operator.NOT_IN if len(values) > 1:
            word = "in" if operator is Operator.IN else "not in"
            return f"{key} {word} {{{', '.join(map(_quoted, values))}}}"
        case _:
            return f"{key} {_SIGNS[operator]} {_quoted(values[0])}"


def _quoted(value: str) -> str:
    quote = next((mark for mark in ('"', "'") if mark not in value), None)
    if quote is None:
        raise UnsayableError("it compares with a text that contains both kinds of quotes")
    return f"{quote}{value}{quote}"
