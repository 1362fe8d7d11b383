# SPDX-License-Identifier: Apache-2.0
"""The ends of a given cluster as symbolic ends: only the choice of the end is free.

Ends that no rule and no intent distinguishes are one *group*, with all their addresses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import z3

from policyc.ir.intervals import IntervalSet
from policyc.ir.matching import attributes, requirement_holds
from policyc.ir.policy import NamedPort
from policyc.ir.selectors import Requirement
from policyc.ir.universe import FAMILIES, Address, Endpoint, HostInterface, Node, Subject
from policyc.verifier.smt.terms import (
    Term,
    in_range,
)
from policyc.verifier.symbolic.attributes import (
    Ends,
    Key,
)
from policyc.verifier.symbolic.connection_ends import ConnectionEnd


@dataclass(frozen=True)
class Sorts:
    """The values of every key, sorted by the results of tests: value -> the number of its sort.

    `holds` are, for each key and requirement, the sorts for which it holds.
    """

    numbers: Mapping[Key, Mapping[str | None, int]]
    holds: Mapping[tuple[Key, Requirement], tuple[int, ...]]

    def of(self, end: Subject) -> tuple[int, ...]:
        """The sort of each of an end's values, in the order of the keys."""
        return tuple(numbers[value_of(key, end)] for key, numbers in self.numbers.items())


def value_of(key: Key, end: Subject) -> str | None:
    """The value of a key, None if it is absent."""
    attribute, name = key
    return attributes(attribute, end).get(name)


def sorts_of(tests: Iterable[tuple[Key, Requirement]], ends: Sequence[Subject]) -> Sorts:
    """The sorts of the values that these ends have."""
    asked: dict[Key, dict[Requirement, None]] = {}
    for key, requirement in tests:
        asked.setdefault(key, {})[requirement] = None
    numbers: dict[Key, dict[str | None, int]] = {}
    holds: dict[tuple[Key, Requirement], tuple[int, ...]] = {}
    for key, requirements in asked.items():
        answers: dict[tuple[bool, ...], int] = {}
        numbers[key] = {}
        for value in dict.fromkeys(value_of(key, end) for end in ends):
            answer = tuple(_holds(requirement, key, value) for requirement in requirements)
            numbers[key][value] = answers.setdefault(answer, len(answers))
        for at, requirement in enumerate(requirements):
            holds[key, requirement] = tuple(n for answer, n in answers.items() if answer[at])
    return Sorts(numbers, holds)


def _holds(requirement: Requirement, key: Key, value: str | None) -> bool:
    """The reference semantics' own answer for one value."""
    labels = {} if value is None else {key[1]: value}
    return requirement_holds(replace(requirement, key=key[1]), labels)


@dataclass
class KnownEnds(Ends):
    """Attributes of an end that is one of the given ones: the number of its value's sort per key."""

    sorts: Sorts = field(kw_only=True)

    def value(self, key: Key) -> Term:
        """The sort of the value of a key."""
        if key not in self._terms:
            word = f"{self.name} {key[0].value} {key[1]}"
            count = len(set(self.sorts.numbers[key].values()))
            self._terms[key] = z3.BitVec(f"{word} sort", max(1, count.bit_length()))
        return self._terms[key]

    def requirement(self, key: Key, requirement: Requirement) -> Term:
        """The value is of a sort for which the requirement holds."""
        return z3.Or(*(self.value(key) == n for n in self.sorts.holds[key, requirement]))

    def is_of(self, sorts: tuple[int, ...]) -> Term:
        """Every value is of these sorts."""
        keys = self.sorts.numbers
        return z3.And(*(self.value(key) == n for key, n in zip(keys, sorts, strict=True)))


@dataclass(frozen=True, slots=True)
class Group:
    """Ends that differ only in their addresses. `ports` are the numbers by name."""

    members: tuple[Subject, ...]
    sorts: tuple[int, ...]
    node: str
    ports: Mapping[NamedPort, frozenset[int]]
    host: HostInterface | None

    def addresses(self, family: int) -> IntervalSet:
        """Every address of a member."""
        held = (member.address(family) for member in self.members)
        return IntervalSet.of((int(a), int(a)) for a in held if a is not None)

    def member_at(self, address: Address) -> Subject:
        """The first member with this address."""
        return next(m for m in self.members if m.address(address.version) == address)


def groups_of(ends: Iterable[Subject], sorts: Sorts, names: Sequence[NamedPort]) -> list[Group]:
    """Group the ends of one kind."""
    found: dict[object, list[Subject]] = {}
    for end in ends:
        found.setdefault(_signature(end, sorts, names), []).append(end)
    return [_group(tuple(members), sorts, names) for members in found.values()]


def _group(members: tuple[Subject, ...], sorts: Sorts, names: Sequence[NamedPort]) -> Group:
    first = members[0]
    return Group(members, sorts.of(first), node_name(first), _numbers(first, names), _host(first))


def _signature(end: Subject, sorts: Sorts, names: Sequence[NamedPort]) -> object:
    host = _host(end)
    flags = None if host is None else (host.name, host.denies_unmatched, host.has_failsafes)
    return sorts.of(end), node_name(end), tuple(_numbers(end, names).items()), flags


def node_name(end: Subject) -> str:
    """The node that the end is, or is on; empty if that is not known."""
    return end.node if isinstance(end, Endpoint) else end.name


def _host(end: Subject) -> HostInterface | None:
    return end.host if isinstance(end, Node) else None


def _numbers(end: Subject, names: Sequence[NamedPort]) -> dict[NamedPort, frozenset[int]]:
    if isinstance(end, Node):
        return {}
    return {port: end.named_ports(port.name, port.protocol) for port in names}


def is_among(term: Term, numbers: IntervalSet) -> Term:
    """A bit vector is one of some numbers."""
    return z3.Or(*(in_range(term, lo, hi) for lo, hi in numbers))


def has_address(end: ConnectionEnd, is_ipv6: Term, group: Group) -> Iterator[Term]:
    """The end's address in the flow's family is one of the group's."""
    for family in FAMILIES:
        address, is_family = end.address(is_ipv6, family)
        yield z3.Implies(is_family, is_among(address, group.addresses(family)))
