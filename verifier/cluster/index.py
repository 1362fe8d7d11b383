# SPDX-License-Identifier: Apache-2.0
"""An inverted index: the ends that a selector selects, without a test of each end.

Ends are numbered, and an answer is a set of numbers. `ir/matching.py` defines the meaning of a
requirement; this module evaluates it on all ends at once.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from typing import assert_never

from policyc.ir.bits import bits_of, union
from policyc.ir.matching import attributes
from policyc.ir.selectors import (
    ALWAYS,
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
from policyc.ir.universe import Endpoint, Node

_Values = dict[str, list[int]]


class Index:
    """The ends of one kind (pods, or nodes) by the values of their attributes."""

    def __init__(self, ends: Mapping[int, Endpoint | Node]) -> None:
        self._ends = ends
        self.all = bits_of(list(ends))
        self._postings: dict[Attribute, dict[str, _Values]] = {}
        self._sets: dict[tuple[Attribute, str, str | None], int] = {}
        self._selected: dict[EndpointSelector, int] = {}
        self._required: dict[tuple[Attribute, Requirement], int] = {}

    def selected(self, selector: EndpointSelector) -> int:
        """The ends that a selector selects."""
        found = self._selected.get(selector)
        if found is None:
            found = self._select(selector)
            self._selected[selector] = found
        return found

    def answers(self) -> list[tuple[EndpointSelector, int]]:
        """Every selector that was evaluated, with the ends that it selects."""
        return list(self._selected.items())

    def _select(self, selector: EndpointSelector) -> int:
        found = self.all
        if selector.namespace is not None:
            found = self._having(Attribute.NAMESPACE, "", selector.namespace)
        found = self._labels(Attribute.NAMESPACE_LABEL, selector.namespace_labels, found)
        found = self._labels(Attribute.LABEL, selector.labels, found)
        if found and selector.condition != ALWAYS:
            found &= self.condition(selector.condition)
        return found

    def _labels(self, attribute: Attribute, labels: LabelSelector, found: int) -> int:
        for requirement in labels.requirements:
            if not found:
                break
            found &= self._requirement(attribute, requirement)
        return found

    def condition(self, condition: Condition) -> int:
        """The ends for which a condition holds."""
        match condition:
            case AttributeTest(attribute, requirement):
                return self._requirement(attribute, requirement)
            case AllOf(parts):
                return reduce(and_, map(self.condition, parts), self.all)
            case OneOf(parts):
                return reduce(or_, map(self.condition, parts), 0)
            case Not(part):
                return self.all & ~self.condition(part)
            case _:
                assert_never(condition)

    def _requirement(self, attribute: Attribute, requirement: Requirement) -> int:
        key = (attribute, requirement)
        found = self._required.get(key)
        if found is None:
            found = self._find(attribute, requirement)
            self._required[key] = found
        return found

    def _find(self, attribute: Attribute, requirement: Requirement) -> int:
        key, values = requirement.key, requirement.values
        match requirement.operator:
            case Operator.IN:
                return union(self._having(attribute, key, value) for value in values)
            case Operator.NOT_IN:
                return self.all & ~union(self._having(attribute, key, value) for value in values)
            case Operator.EXISTS:
                return self._having(attribute, key, None)
            case Operator.DOES_NOT_EXIST:
                return self.all & ~self._having(attribute, key, None)
            case Operator.STARTS_WITH:
                hits = [v for v in self._values(attribute, key) if v.startswith(values)]
            case Operator.ENDS_WITH:
                hits = [v for v in self._values(attribute, key) if v.endswith(values)]
            case Operator.CONTAINS:
                there = self._values(attribute, key)
                hits = [v for v in there if any(text in v for text in values)]
            case _:
                assert_never(requirement.operator)
        return union(self._having(attribute, key, value) for value in hits)

    def _having(self, attribute: Attribute, key: str, value: str | None) -> int:
        """The ends with this value under the key; with any value, if the value is None."""
        name = (attribute, key, value)
        found = self._sets.get(name)
        if found is None:
            postings = self._values(attribute, key)
            if value is None:
                found = bits_of([at for ends in postings.values() for at in ends])
            else:
                found = bits_of(postings.get(value, ()))
            self._sets[name] = found
        return found

    def _values(self, attribute: Attribute, key: str) -> _Values:
        if attribute not in self._postings:
            postings: defaultdict[str, _Values] = defaultdict(dict)
            for at, end in self._ends.items():
                for name, value in attributes(attribute, end).items():
                    postings[name].setdefault(value, []).append(at)
            self._postings[attribute] = postings
        return self._postings[attribute].get(key, {})
