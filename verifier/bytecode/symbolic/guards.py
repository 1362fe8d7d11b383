# SPDX-License-Identifier: Apache-2.0
"""Guards: the conditions under which a place is reached, as a conjunction kept as its parts.

Parts let two guards be compared without a solver. Where paths join, common parts are factored out, and a
condition cancels with its negation.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from policyc.verifier.bytecode.nodes import ALL, Node
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Truth

Literals = frozenset[Node]


@dataclass(frozen=True)
class Guard:
    """A conjunction of truths. Empty: always reached."""

    domain: TermDomain
    parts: Literals = frozenset()

    def term(self) -> Truth:
        """The guard as one truth."""
        return self.domain.all_of(self.parts)

    def apart(self, other: "Guard") -> Truth:
        """A condition that separates this guard from another one, if both never hold at once."""
        for each in sorted(self.parts - other.parts, key=lambda part: part.number):
            if each.contrary in other.parts:
                return each
        return self.domain.all_of(self.parts - other.parts)

    def says(self, truth: Truth) -> bool | None:
        """Whether the parts imply a truth, or its negation; None if they imply neither."""
        return self._says(truth, {}) if isinstance(truth, Node) else bool(truth)

    def _says(self, truth: Node, known: dict[Node, bool | None]) -> bool | None:
        """The same; terms share most of what is below them, so each is looked at once."""
        if truth in self.parts:
            return True
        contrary = truth.contrary
        if contrary in self.parts:
            return False
        if truth.op is ALL:
            return self._says_all(truth, known)
        if contrary is not None and contrary.op is ALL:
            said = self._says_all(contrary, known)
            return None if said is None else not said
        return None

    def _says_all(self, truth: Node, known: dict[Node, bool | None]) -> bool | None:
        if truth not in known:
            known[truth] = self._conjunction(truth, known)
        return known[truth]

    def _conjunction(self, truth: Node, known: dict[Node, bool | None]) -> bool | None:
        found: bool | None = True
        for each in truth.args:
            said = self._says(each, known)
            if said is False:
                return False
            if said is None:
                found = None
        return found

    def with_(self, truth: Truth) -> "Guard | None":
        """The guard with one more truth; None if they cannot hold together."""
        said = self.says(truth)
        if said is not None:
            return self if said else None
        return _guard(self.domain, self.domain.all_of((*self.parts, truth)))


def joined(guards: Iterable[Guard]) -> Guard:
    """The disjunction of guards, no two of which hold at once: joined two at a time."""
    first, *rest = guards
    for each in rest:
        first = _joined(first, each)
    return first


def _joined(one: Guard, other: Guard) -> Guard:
    domain = one.domain
    common = one.parts & other.parts
    mine, theirs = (domain.all_of(each.parts - common) for each in (one, other))
    found = _guard(domain, domain.all_of((*common, domain.either(mine, theirs))))
    return found if found is not None else Guard(domain, common)


def _guard(domain: TermDomain, truth: Truth) -> Guard | None:
    """The guard of a truth; None for a truth that never holds."""
    if isinstance(truth, Node):
        return Guard(domain, frozenset(truth.args if truth.op is ALL else (truth,)))
    return Guard(domain) if truth else None
