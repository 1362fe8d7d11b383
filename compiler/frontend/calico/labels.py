# SPDX-License-Identifier: Apache-2.0
"""The meaning of labels in Calico's selectors, by what a selector is matched against (semantics D43).

Calico gives workloads labels of its own, and lets them inherit those of their namespace (`pcns.`) and
service account (`pcsa.`). A `namespaceSelector` reads a namespace's labels without that prefix.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from policyc.ir.matching import requirement_holds
from policyc.ir.selectors import (
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

NAMESPACE = "projectcalico.org/namespace"
SERVICE_ACCOUNT = "projectcalico.org/serviceaccount"
ORCHESTRATOR = "projectcalico.org/orchestrator"
NAME = "projectcalico.org/name"
OF_NAMESPACE, OF_SERVICE_ACCOUNT = "pcns.", "pcsa."
KUBERNETES = "k8s"
_PLAIN = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)


def on_workloads(condition: Condition) -> Condition:
    """A `selector`, for pods."""
    return _mapped(condition, _of_workload)


def on_namespaces(condition: Condition) -> Condition:
    """A `namespaceSelector`, for objects in a namespace."""
    return _mapped(
        condition, lambda r: _prefixed(r, Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL)
    )


def on_service_accounts(condition: Condition) -> Condition:
    """A `serviceAccountSelector`, for pods."""
    return _mapped(
        condition,
        lambda r: _prefixed(r, Attribute.SERVICE_ACCOUNT, Attribute.SERVICE_ACCOUNT_LABEL),
    )


def holds(condition: Condition, labels: Mapping[str, str]) -> bool:
    """Whether labels that are known now satisfy a selector, as for those of a network set."""
    match condition:
        case AttributeTest(_, requirement):
            return requirement_holds(requirement, labels)
        case AllOf(parts):
            return all(holds(part, labels) for part in parts)
        case OneOf(parts):
            return any(holds(part, labels) for part in parts)
        case Not(part):
            return not holds(part, labels)
        case _:
            assert_never(condition)


def prefixed(condition: Condition, prefix: str) -> Condition:
    """A selector of namespaces or service accounts, as Felix matches it on labels in one space."""

    def of(requirement: Requirement) -> Condition:
        key = f"{prefix}{requirement.key}"
        return AttributeTest(Attribute.LABEL, replace(requirement, key=key))

    return _mapped(condition, of)


def in_some_namespace(condition: Condition) -> Condition:
    """The selector with `all()` as "has a namespace", as libcalico-go translates it."""
    match condition:
        case AllOf(()):
            has_namespace = Requirement(NAMESPACE, Operator.EXISTS, ())
            return AttributeTest(Attribute.LABEL, has_namespace)
        case AllOf(parts):
            return AllOf(tuple(map(in_some_namespace, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(in_some_namespace, parts)))
        case Not(part):
            return Not(in_some_namespace(part))
        case _:
            return condition


def keys(condition: Condition) -> set[str]:
    """The labels that a selector reads."""
    match condition:
        case AttributeTest(_, requirement):
            return {requirement.key}
        case AllOf(parts) | OneOf(parts):
            return {key for part in parts for key in keys(part)}
        case Not(part):
            return keys(part)
        case _:
            assert_never(condition)


def inherited(namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that an object in a namespace inherits from it."""
    prefixed = {f"{OF_NAMESPACE}{key}": value for key, value in labels.items()}
    return {**prefixed, f"{OF_NAMESPACE}{NAME}": namespace, NAMESPACE: namespace}


def endpoint_selector(*conditions: Condition, namespace: str | None = None) -> EndpointSelector:
    """All the conditions together, as label selectors where these can express them: that is faster."""
    parts = sorted(set(_conjuncts(AllOf(conditions))), key=repr)
    names = {_only_namespace(part) for part in parts} - {None}
    if namespace is None and len(names) == 1:
        namespace = names.pop()
        parts = [part for part in parts if _only_namespace(part) != namespace]
    own = [part for part in parts if _is_plain(part, Attribute.LABEL)]
    theirs = [part for part in parts if _is_plain(part, Attribute.NAMESPACE_LABEL)]
    rest = tuple(part for part in parts if part not in own and part not in theirs)
    return EndpointSelector(
        namespace,
        _label_selector(theirs),
        _label_selector(own),
        rest[0] if len(rest) == 1 else AllOf(rest),
    )


def _mapped(condition: Condition, of: Callable[[Requirement], Condition]) -> Condition:
    match condition:
        case AttributeTest(_, requirement):
            return of(requirement)
        case AllOf(parts):
            return AllOf(tuple(_mapped(part, of) for part in parts))
        case OneOf(parts):
            return OneOf(tuple(_mapped(part, of) for part in parts))
        case Not(part):
            return Not(_mapped(part, of))
        case _:
            assert_never(condition)


def _of_workload(requirement: Requirement) -> Condition:
    key = requirement.key
    if key == NAMESPACE:
        return _named(requirement, Attribute.NAMESPACE)
    if key == SERVICE_ACCOUNT:
        return _named(requirement, Attribute.SERVICE_ACCOUNT)
    if key == ORCHESTRATOR:
        return ALWAYS if requirement_holds(requirement, {key: KUBERNETES}) else NEVER
    for prefix, name, label in (
        (OF_NAMESPACE, Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL),
        (OF_SERVICE_ACCOUNT, Attribute.SERVICE_ACCOUNT, Attribute.SERVICE_ACCOUNT_LABEL),
    ):
        if key.startswith(prefix):
            inner = Requirement(key.removeprefix(prefix), requirement.operator, requirement.values)
            return _prefixed(inner, name, label)
    return AttributeTest(Attribute.LABEL, requirement)


def _prefixed(requirement: Requirement, name: Attribute, label: Attribute) -> Condition:
    """A label of a namespace or service account; Calico adds the one with its name."""
    if requirement.key == NAME:
        return _named(requirement, name)
    return AttributeTest(label, requirement)


def _named(requirement: Requirement, attribute: Attribute) -> Condition:
    """A name is under the empty key (ir/selectors.py)."""
    return AttributeTest(attribute, Requirement("", requirement.operator, requirement.values))


def _conjuncts(condition: Condition) -> list[Condition]:
    if isinstance(condition, AllOf):
        return [found for part in condition.parts for found in _conjuncts(part)]
    return [condition]


def _only_namespace(condition: Condition) -> str | None:
    """The namespace's name, if the condition requires exactly one name."""
    match condition:
        case AttributeTest(Attribute.NAMESPACE, Requirement(_, Operator.IN, (name,))):
            return name
        case _:
            return None


def _is_plain(condition: Condition, attribute: Attribute) -> bool:
    """Whether metav1's label selectors can express it."""
    return (
        isinstance(condition, AttributeTest)
        and condition.attribute is attribute
        and condition.requirement.operator in _PLAIN
    )


def _label_selector(tests: list[Condition]) -> LabelSelector:
    found = [test.requirement for test in tests if isinstance(test, AttributeTest)]
    return LabelSelector(tuple(sorted(found, key=lambda r: (r.key, r.operator.value, r.values))))
