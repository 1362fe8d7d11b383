# SPDX-License-Identifier: Apache-2.0
"""Symbolic attributes: the free attributes of a pod or node that could exist, and tests on them.

For each attribute and key that policies test there is a value: absent, one of the values that they name,
or some other. Keys that are tested by prefix, suffix or substring are strings of a label value's form.
Attributes that two ends share are one object: two pods of one namespace have the same namespace labels.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never

import z3

from policyc.ir.selectors import (
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
from policyc.verifier.smt.terms import Term

Key = tuple[Attribute, str]
NAMESPACE_KEY: Key = (Attribute.NAMESPACE, "")
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label of every namespace with its name; the API server sets it."""
NODE_KEY: Key = (Attribute.NODE, "")
SERVICE_ACCOUNT_KEY: Key = (Attribute.SERVICE_ACCOUNT, "")
_OF_NODES = frozenset({Attribute.LABEL, Attribute.NODE_LABEL, Attribute.NODE})
_BY_TEXT = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS})
_LONGEST_VALUE, _LONGEST_NAME = 63, 253
_ESCAPE = re.compile(r"\\u\{([0-9a-fA-F]+)\}")
ABSENT = 0


def key_of(attribute: Attribute, key: str) -> Key:
    """The key under which a test finds its value: a namespace's name is stored under several labels."""
    if attribute is Attribute.NAMESPACE_LABEL and key == NAMESPACE_NAME_LABEL:
        return NAMESPACE_KEY
    return attribute, key


def tests_of(selector: EndpointSelector) -> Iterator[tuple[Key, Requirement]]:
    """Every test of a selector, with its key."""
    if selector.namespace is not None:
        yield NAMESPACE_KEY, Requirement("", Operator.IN, (selector.namespace,))
    for attribute, labels in (
        (Attribute.NAMESPACE_LABEL, selector.namespace_labels),
        (Attribute.LABEL, selector.labels),
    ):
        for requirement in labels.requirements:
            yield key_of(attribute, requirement.key), requirement
    yield from tests_in(selector.condition)


def tests_in(condition: Condition) -> Iterator[tuple[Key, Requirement]]:
    """Every test of a condition, with its key."""
    match condition:
        case AttributeTest(attribute, requirement):
            yield key_of(attribute, requirement.key), requirement
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from tests_in(part)
        case Not(part):
            yield from tests_in(part)
        case _:
            assert_never(condition)


@dataclass(frozen=True)
class Domain:
    """The values of a key that tests distinguish: `values[i]` is i + 1, absent 0, any other last."""

    values: tuple[str, ...]

    @property
    def other(self) -> int:
        """The number that stands for every value that no test names."""
        return len(self.values) + 1

    @property
    def bits(self) -> int:
        """The number of bits that hold a number of the domain."""
        return self.other.bit_length()

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """Value -> its number."""
        return {value: number for number, value in enumerate(self.values, start=1)}

    def fresh(self) -> str:
        """A legal value that no test names."""
        taken = set(self.values)
        return next(f"other-{n}" for n in range(len(taken) + 1) if f"other-{n}" not in taken)


class Domains:
    """The domains of all keys that some tests read."""

    def __init__(self, tests: Iterable[tuple[Key, Requirement]]) -> None:
        values: defaultdict[Key, set[str]] = defaultdict(set)
        self.texts: set[Key] = set()
        for key, requirement in tests:
            values[key] |= set(requirement.values)
            if requirement.operator in _BY_TEXT:
                self.texts.add(key)
        self._domains = {key: Domain(tuple(sorted(found))) for key, found in values.items()}

    def __iter__(self) -> Iterator[Key]:
        return iter(sorted(self._domains, key=lambda key: (key[0].value, key[1])))

    def __contains__(self, key: Key) -> bool:
        return key in self._domains

    def __getitem__(self, key: Key) -> Domain:
        return self._domains[key]


@dataclass
class Ends:
    """The attributes of one symbolic end, by name."""

    name: str
    domains: Domains
    _terms: dict[Key, Term] = field(default_factory=dict)
    _selected: dict[EndpointSelector, Term] = field(default_factory=dict)

    def value(self, key: Key) -> Term:
        """The value of a key: a number of its domain, or a string for keys tested by text."""
        if key not in self._terms:
            word = f"{self.name} {key[0].value} {key[1]}"
            if key in self.domains.texts:
                self._terms[key] = z3.String(word)
            else:
                self._terms[key] = z3.BitVec(word, self.domains[key].bits)
        return self._terms[key]

    def has(self, key: Key) -> Term:
        """The key is present."""
        if key in self.domains.texts:
            return z3.Bool(f"{self.name} has {key[0].value} {key[1]}")
        return self.value(key) != ABSENT

    def is_legal(self) -> Term:
        """Every value is one that an object can have."""
        terms = []
        for key in self.domains:
            if key in self.domains.texts:
                terms.append(_is_value_of(key[0], self.value(key)))
            else:
                terms.append(z3.ULE(self.value(key), self.domains[key].other))
        return z3.And(*terms)

    def is_pod(self) -> Term:
        """A pod always has a namespace and a service account."""
        always = (Attribute.NAMESPACE, Attribute.SERVICE_ACCOUNT)
        terms = [self.has(key) for key in self.domains if key[0] in always]
        if NODE_KEY in self.domains:  # without a node there are no labels of it
            of_node = [key for key in self.domains if key[0] is Attribute.NODE_LABEL]
            terms += [z3.Implies(self.has(key), self.has(NODE_KEY)) for key in of_node]
        return z3.And(*terms)

    def is_node(self) -> Term:
        """A node has labels and its host interface's labels, and no attribute that only pods have.

        Its name is unknown if a pod in the host's network is on a node that the input does not name.
        """
        return z3.And(*(z3.Not(self.has(key)) for key in self.domains if key[0] not in _OF_NODES))

    def requirement(self, key: Key, requirement: Requirement) -> Term:
        """A requirement holds of this end (A13, D43)."""
        match requirement.operator:
            case Operator.EXISTS:
                return self.has(key)
            case Operator.DOES_NOT_EXIST:
                return z3.Not(self.has(key))
            case Operator.IN:
                return z3.And(self.has(key), self._is_one_of(key, requirement.values))
            case Operator.NOT_IN:
                return z3.Not(z3.And(self.has(key), self._is_one_of(key, requirement.values)))
            case Operator.STARTS_WITH:
                return self._text(key, requirement, z3.PrefixOf)
            case Operator.ENDS_WITH:
                return self._text(key, requirement, z3.SuffixOf)
            case Operator.CONTAINS:
                return self._text(key, requirement, lambda text, value: z3.Contains(value, text))
            case _:
                assert_never(requirement.operator)

    def _is_one_of(self, key: Key, values: tuple[str, ...]) -> Term:
        mine = self.value(key)
        if key in self.domains.texts:
            return z3.Or(*(mine == literal(value) for value in values))
        numbers = self.domains[key].number_of
        return z3.Or(*(mine == numbers[value] for value in values))

    def _text(self, key: Key, requirement: Requirement, test: Term) -> Term:
        mine = self.value(key)
        return z3.And(
            self.has(key), z3.Or(*(test(literal(text), mine) for text in requirement.values))
        )

    def condition(self, condition: Condition) -> Term:
        """A condition holds of this end."""
        match condition:
            case AttributeTest(attribute, requirement):
                return self.requirement(key_of(attribute, requirement.key), requirement)
            case AllOf(parts):
                return z3.And(*map(self.condition, parts))
            case OneOf(parts):
                return z3.Or(*map(self.condition, parts))
            case Not(part):
                return z3.Not(self.condition(part))
            case _:
                assert_never(condition)

    def labels(self, attribute: Attribute, selector: LabelSelector) -> Term:
        """A label selector holds of one attribute."""
        return z3.And(
            *(self.requirement(key_of(attribute, r.key), r) for r in selector.requirements)
        )

    def selected(self, selector: EndpointSelector) -> Term:
        """A selector selects this end, which is a pod; the term is cached for all callers."""
        if selector not in self._selected:
            self._selected[selector] = self._selected_by(selector)
        return self._selected[selector]

    def _selected_by(self, selector: EndpointSelector) -> Term:
        terms = [
            self.labels(Attribute.NAMESPACE_LABEL, selector.namespace_labels),
            self.labels(Attribute.LABEL, selector.labels),
            self.condition(selector.condition),
        ]
        if selector.namespace is not None:
            only = Requirement("", Operator.IN, (selector.namespace,))
            terms.append(self.requirement(NAMESPACE_KEY, only))
        return z3.And(*terms)


def agree(one: Ends, other: Ends, attribute: Attribute) -> Term:
    """Both have equal values of everything under an attribute: shared attributes are one object."""
    keys = [key for key in one.domains if key[0] is attribute]
    return z3.And(
        *(z3.And(one.has(k) == other.has(k), one.value(k) == other.value(k)) for k in keys)
    )


def are_known_same(one: Ends, other: Ends, key: Key) -> Term:
    """Both have the same value of a key. Two values that no policy names may differ: false."""
    if key not in one.domains:
        return z3.BoolVal(False)
    same = z3.And(one.has(key), other.has(key), one.value(key) == other.value(key))
    if key in one.domains.texts:
        return same
    return z3.And(same, one.value(key) != one.domains[key].other)


def literal(text: str) -> Term:
    """A text as a string constant; Z3 would interpret escapes in it."""
    spelled = (c if c.isalnum() and c.isascii() else f"\\u{{{ord(c):x}}}" for c in text)
    return z3.StringVal("".join(spelled))


def text_of(constant: Term) -> str:
    """The text that a string constant stands for."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), constant.as_string())


def _is_value_of(attribute: Attribute, value: Term) -> Term:
    """A label's value, or a name: of a namespace, or a DNS subdomain as for nodes and accounts."""
    lower, digit = z3.Range("a", "z"), z3.Range("0", "9")
    match attribute:
        case Attribute.NAMESPACE:
            return _is_made_of(value, z3.Union(lower, digit), ("-",), _LONGEST_VALUE)
        case Attribute.NODE | Attribute.SERVICE_ACCOUNT:
            return _is_made_of(value, z3.Union(lower, digit), ("-", "."), _LONGEST_NAME)
        case _:
            edge = z3.Union(lower, z3.Range("A", "Z"), digit)
            in_words = _is_made_of(value, edge, ("-", "_", "."), _LONGEST_VALUE)
            return z3.Or(value == z3.StringVal(""), in_words)


def _is_made_of(value: Term, edge: Term, inner: tuple[str, ...], longest: int) -> Term:
    """Characters of `edge`; between the first and the last also characters of `inner`."""
    any_of = z3.Union(edge, *map(z3.Re, inner))
    form = z3.Union(edge, z3.Concat(edge, z3.Star(any_of), edge))
    return z3.And(z3.InRe(value, form), z3.Length(value) <= longest)
