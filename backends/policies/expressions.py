# SPDX-License-Identifier: Apache-2.0
"""Conditions as expressions of policyc's rule language (semantics G50 to G52).

`simplified` runs first: negations move to the tests and inner constants disappear, so the output looks
hand-written.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

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

_DEEPEST = 20
"""The nesting limit of alternating `and` and `or`; the language accepts a few more parentheses."""
_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}
_HOLDS_WHERE_ABSENT = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
_PARTIAL = {
    Operator.STARTS_WITH: "starts with",
    Operator.ENDS_WITH: "ends with",
    Operator.CONTAINS: "contains",
}
_WORDS = {
    Attribute.LABEL: "pod",
    Attribute.NAMESPACE_LABEL: "ns",
    Attribute.SERVICE_ACCOUNT_LABEL: "serviceaccount",
    Attribute.NODE_LABEL: "node",
    Attribute.NAMESPACE: "namespace",
    Attribute.SERVICE_ACCOUNT: "serviceaccount",
    Attribute.NODE: "node",
}
_OF_NAMESPACES = frozenset((Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL))
_OF_NODES = frozenset((Attribute.NODE, Attribute.NODE_LABEL))
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"((?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_NAME}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LABEL_VALUE = re.compile(rf"({_NAME})?")
_VALUES = {
    Attribute.NAMESPACE: re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    Attribute.SERVICE_ACCOUNT: re.compile(rf"(?=.{{1,253}}$){_SUBDOMAIN}"),
    Attribute.NODE: re.compile(rf"(?=.{{1,253}}$){_SUBDOMAIN}"),
}
_NAMESPACE_NAME = _VALUES[Attribute.NAMESPACE]


def simplified(condition: Condition, is_wanted: bool = True) -> Condition:
    """The condition, or its negation, with `Not` around partial tests only."""
    match condition:
        case AllOf(parts) | OneOf(parts):
            found = [simplified(part, is_wanted) for part in parts]
            return _joined(found, isinstance(condition, AllOf) == is_wanted)
        case Not(part):
            return simplified(part, not is_wanted)
        case _:
            return _test(condition, is_wanted)


def _joined(parts: list[Condition], is_all: bool) -> Condition:
    """The conjunction or the disjunction of simple parts."""
    neutral, decisive = (ALWAYS, NEVER) if is_all else (NEVER, ALWAYS)
    flat: dict[Condition, None] = {}
    for part in parts:
        match part:
            case AllOf(inner) if is_all:
                flat |= dict.fromkeys(inner)
            case OneOf(inner) if not is_all:
                flat |= dict.fromkeys(inner)
            case _:
                flat[part] = None
    if decisive in flat:
        return decisive
    flat.pop(neutral, None)
    found = tuple(flat)
    if len(found) == 1:
        return found[0]
    return AllOf(found) if is_all else OneOf(found)


def _test(test: AttributeTest, is_wanted: bool) -> Condition:
    attribute, requirement = test.attribute, test.requirement
    operator, values = requirement.operator, requirement.values
    if operator in _PARTIAL:
        return _partial(attribute, requirement, is_wanted)
    if not is_wanted:
        operator = _NEGATED[operator]
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        return ALWAYS if operator is Operator.NOT_IN else NEVER
    if (
        attribute is Attribute.NAMESPACE_LABEL
        and requirement.key == NAMESPACE_NAME_LABEL
        and all(_NAMESPACE_NAME.fullmatch(value) for value in values)
    ):
        return AttributeTest(Attribute.NAMESPACE, Requirement("", operator, values))
    return AttributeTest(attribute, replace(requirement, operator=operator))


def _partial(attribute: Attribute, requirement: Requirement, is_wanted: bool) -> Condition:
    """Every text starts with the empty one, so this only tests presence."""
    if "" in requirement.values:
        operator = Operator.EXISTS if is_wanted else Operator.DOES_NOT_EXIST
        return AttributeTest(attribute, Requirement(requirement.key, operator))
    tests = [
        AttributeTest(attribute, replace(requirement, values=(v,))) for v in requirement.values
    ]
    return _joined([test if is_wanted else Not(test) for test in tests], not is_wanted)


def of_nodes(condition: Condition) -> Condition:
    """A condition on nodes, simplified; attributes that only pods have are absent there."""
    found = simplified(_on_nodes(condition))
    if any(test.attribute is Attribute.LABEL for test in _tests(found)):
        raise UnsayableError("it selects host interfaces by label")
    return found


def _on_nodes(condition: Condition) -> Condition:
    match condition:
        case AllOf(parts):
            return AllOf(tuple(_on_nodes(part) for part in parts))
        case OneOf(parts):
            return OneOf(tuple(_on_nodes(part) for part in parts))
        case Not(part):
            return Not(_on_nodes(part))
        case _:
            if condition.attribute in _OF_NODES or condition.attribute is Attribute.LABEL:
                return condition
            return ALWAYS if condition.requirement.operator in _HOLDS_WHERE_ABSENT else NEVER


def home_of(condition: Condition) -> str:
    """The one namespace that a simple condition names, empty if it does not."""
    for part in _conjuncts(condition):
        if isinstance(part, AttributeTest) and part.attribute is Attribute.NAMESPACE:
            values = part.requirement.values
            if part.requirement.operator is Operator.IN and len(values) == 1:
                return values[0] if _NAMESPACE_NAME.fullmatch(values[0]) else ""
    return ""


def subject_text(condition: Condition, home: str) -> str:
    """A simple condition on the subjects of an object in namespace `home` (empty: in none)."""
    return written(_without(condition, home) if home else condition)


def pods_text(condition: Condition, home: str) -> str:
    """A simple condition on other pods: without a namespace it would mean `home` (G49)."""
    if not home:
        return written(condition)
    rest = _without(condition, home)
    if rest != condition and not _reads_namespaces(rest):
        return written(rest)
    if _reads_namespaces(condition):
        return written(condition)
    return written(_joined([ANY_NAMESPACE, condition], True))


ANY_NAMESPACE: Condition = AttributeTest(
    Attribute.NAMESPACE, Requirement("", Operator.EXISTS)
)  # every pod has it


def _without(condition: Condition, home: str) -> Condition:
    is_home = AttributeTest(Attribute.NAMESPACE, Requirement("", Operator.IN, (home,)))
    return _joined([part for part in _conjuncts(condition) if part != is_home], True)


def _conjuncts(condition: Condition) -> tuple[Condition, ...]:
    return condition.parts if isinstance(condition, AllOf) else (condition,)


def _reads_namespaces(condition: Condition) -> bool:
    return any(test.attribute in _OF_NAMESPACES for test in _tests(condition))


def _tests(condition: Condition) -> Iterator[AttributeTest]:
    match condition:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from _tests(part)
        case Not(part):
            yield from _tests(part)
        case _:
            yield condition


def written(condition: Condition, depth: int = 0) -> str:
    """A simple condition as an expression; raises UnsayableError."""
    if depth > _DEEPEST:
        raise UnsayableError("its selector is nested too deeply to be written")
    match condition:
        case AllOf(()):
            return "all"
        case OneOf(()):
            return "!all"
        case AllOf(parts):
            texts = [written(part, depth + 1) for part in parts]
            return " && ".join(
                f"({text})" if isinstance(part, OneOf) else text
                for part, text in zip(parts, texts, strict=True)
            )
        case OneOf(parts):
            return " || ".join(written(part, depth + 1) for part in parts)
        case Not(part):
            return f"!({written(part, depth + 1)})"
        case _:
            return _test_text(condition)


def _test_text(test: AttributeTest) -> str:
    what = _attribute_text(test)
    operator, values = test.requirement.operator, test.requirement.values
    texts = [_value_text(test, value) for value in values]
    match operator:
        case Operator.EXISTS:
            return f"{what} exists"
        case Operator.DOES_NOT_EXIST:
            return f"!has({what})"
        case Operator.IN | Operator.NOT_IN if len(texts) == 1:
            return f"{what} {'==' if operator is Operator.IN else '!='} {texts[0]}"
        case Operator.IN | Operator.NOT_IN:
            word = "in" if operator is Operator.IN else "not in"
            return f"{what} {word} {{{', '.join(texts)}}}"
        case _:
            return f"{what} {_PARTIAL[operator]} {texts[0]}"


def _attribute_text(test: AttributeTest) -> str:
    word, key = _WORDS[test.attribute], test.requirement.key
    if test.attribute in _VALUES:
        return word
    if not _KEY.fullmatch(key):
        raise UnsayableError(f"it reads {key!r}, which is not a valid label name")
    return f"{word}.{key}" if _is_plain(key) else f'{word}["{key}"]'


def _is_plain(key: str) -> bool:
    return _PLAIN_KEY.fullmatch(key) is not None


def _value_text(test: AttributeTest, value: str) -> str:
    if test.requirement.operator in _PARTIAL:
        if "\n" in value or "\r" in value:
            raise UnsayableError("it compares with a text of several lines")
    elif not _VALUES.get(test.attribute, _LABEL_VALUE).fullmatch(value):
        raise UnsayableError(
            f"it compares a {test.attribute.value} with {value!r}, which is not valid"
        )
    return quoted(value)


def quoted(text: str) -> str:
    """A text of one line in quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
