# SPDX-License-Identifier: Apache-2.0
"""The facts of all policies of a run, each decoded on first use: an incremental run uses few.

Facts that are read for every policy are stored as numbers beside them.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from policyc.compiler.driver.rebuild.facts import PolicyFacts, facts_from, facts_json
from policyc.compiler.driver.rebuild.shapes import (
    Blobs,
    texts_from,
    texts_json,
    words_from,
    words_json,
)


class Policies(Sequence[PolicyFacts]):
    """The facts of all policies, in order.

    For each, `subjects` has the subject, `rules` the number of its rules, and `distinguished` the kinds
    that it distinguishes, as a mask. `changed` are those that differ from the record.
    """

    def __init__(
        self,
        texts: Sequence[str],
        numbers: tuple[Sequence[int], Sequence[int], Sequence[int]],
        changed: Mapping[int, PolicyFacts],
    ) -> None:
        self._texts, self._numbers = texts, numbers
        self.subjects, self.rules, self.distinguished = numbers
        self.changed = changed
        self._known = dict(changed)

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, at: int) -> PolicyFacts: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[PolicyFacts]: ...

    def __getitem__(self, at: int | slice) -> PolicyFacts | Sequence[PolicyFacts]:
        """The facts of one policy, or of a slice."""
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        if at not in self._known:
            self._known[at] = facts_from(json.loads(self._texts[at]))
        return self._known[at]

    def with_changes(self, changed: Mapping[int, PolicyFacts]) -> "Policies":
        """A copy with other facts for some policies."""
        numbers = tuple(array("I", each) for each in self._numbers)
        for at, facts in changed.items():
            for each, number in zip(numbers, _numbers(facts), strict=True):
                each[at] = number
        subjects, rules, distinguished = numbers
        return Policies(self._texts, (subjects, rules, distinguished), changed)


def _numbers(facts: PolicyFacts) -> tuple[int, int, int]:
    return facts.subject, facts.n_rules, sum(1 << kind for kind in facts.distinguished)


def policies_json(facts: Iterable[PolicyFacts], blobs: Blobs) -> list[Any]:
    """The facts of all policies as JSON values."""
    facts = tuple(facts)
    texts = [json.dumps(facts_json(each), separators=(",", ":")) for each in facts]
    numbers = zip(*map(_numbers, facts), strict=True)
    return [texts_json(texts, blobs), *(words_json(each, blobs) for each in numbers)]


def policies_from(value: list[Any], blobs: Blobs) -> Policies:
    """The facts that `policies_json` wrote."""
    texts, *numbers = value
    subjects, rules, distinguished = (words_from(each, blobs) for each in numbers)
    return Policies(list(texts_from(texts, blobs)), (subjects, rules, distinguished), {})
