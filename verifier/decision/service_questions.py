# SPDX-License-Identifier: Apache-2.0
"""The services of a rule in plain values: the words from which questions are built.

A named port stands for what the destination declares under it: the numbers, if they are known
(`declared`), or a free truth value (`free`). `terms.asks_for` builds terms from these words alone.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any, assert_never

from policyc.ir.policy import (
    AnyService,
    EveryPort,
    IcmpType,
    NamedPort,
    PortRange,
    Ports,
    ProtocolNumber,
)
from policyc.ir.services import Kind, Protocol
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.terms import (
    Term,
    asks_for,
    is_service,
    service_key,
)

PortWords = tuple[Any, ...]
"""The kind of a port entry and its numbers."""
AskedWords = tuple[tuple[PortWords, ...], tuple[PortWords, ...]]
"""A rule's port entries, and its excepted ones: each once, ascending."""
NamedWords = Callable[[NamedPort], Iterable[PortWords]]


def asked_words(
    ports: Iterable[Ports], except_ports: Iterable[Ports], named: NamedWords
) -> AskedWords:
    """A rule's ports in words; `named` gives the words for a named port."""
    return words_of(ports, named), words_of(except_ports, named)


def words_of(entries: Iterable[Ports], named: NamedWords) -> tuple[PortWords, ...]:
    """The entries as a set, in one order: rules that list them in another order give equal questions."""
    words: set[PortWords] = set()
    for entry in entries:
        words.update(named(entry) if isinstance(entry, NamedPort) else (_words(entry),))
    return tuple(sorted(words))


def _words(entry: AnyService | EveryPort | PortRange | IcmpType | ProtocolNumber) -> PortWords:
    match entry:
        case AnyService():
            return ("any",)
        case EveryPort(protocol):
            return "every", protocol.value
        case PortRange(protocol, lo, hi):
            return "range", protocol.value, lo, hi
        case IcmpType(kind, icmp_type, code):
            return "icmp", int(kind), *(n for n in (icmp_type, code) if n is not None)
        case ProtocolNumber(number):
            return "protocol", number
        case _:
            assert_never(entry)


def declared(protocol: Protocol, numbers: Iterable[int]) -> Iterable[PortWords]:
    """A named port whose numbers at the destination are known: these ports, and no others."""
    return (("range", protocol.value, number, number) for number in numbers)


def free(protocol: Protocol, index: int) -> PortWords:
    """A named port of which the destination may declare any number; `index` is its identity."""
    return "free", protocol.value, index


class Terms:
    """The terms of one proof: terms that many questions share are made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Term] = {}
        self._pairs: dict[Hashable, tuple[Term, Term]] = {}

    @cached_property
    def key(self) -> Term:
        """The free service key of all questions."""
        return service_key()

    @cached_property
    def is_service(self) -> Term:
        """The key is one that a packet can have."""
        return is_service(self.key)

    def once(self, what: Hashable, make: Callable[[], Term]) -> Term:
        """The term with the key `what`; `make` is called the first time."""
        term = self._made.get(what)
        if term is None:
            term = self._made[what] = make()
        return term

    def pair_once(self, what: Hashable, make: Callable[[], tuple[Term, Term]]) -> tuple[Term, Term]:
        """A pair of terms with one key, as `once`."""
        pair = self._pairs.get(what)
        if pair is None:
            pair = self._pairs[what] = make()
        return pair

    def asked(self, words: AskedWords) -> Term:
        """The key is among the port entries and none of the excepted ones."""
        return self.once(("asked", words), lambda: self._asked(words))

    def _asked(self, words: AskedWords) -> Term:
        among = z3.Or(*map(self._entry, words[0]))
        if not words[1]:
            return among
        return z3.And(among, *(z3.Not(self._entry(entry)) for entry in words[1]))

    def _entry(self, words: PortWords) -> Term:
        return self.once(("entry", words), lambda: self._entry_term(words))

    def _entry_term(self, words: PortWords) -> Term:
        return asks_for(self.key, _entry_of(words), lambda _: z3.Bool(f"named{words[2]}"))


def _entry_of(words: PortWords) -> Ports:
    """The port entry of the words; a named port has no name any more."""
    match words:
        case ("any",):
            return AnyService()
        case ("every", protocol):
            return EveryPort(Protocol(protocol))
        case ("range", protocol, lo, hi):
            return PortRange(Protocol(protocol), lo, hi)
        case ("icmp", kind, *type_and_code):
            return IcmpType(Kind(kind), *type_and_code)
        case ("protocol", number):
            return ProtocolNumber(number)
        case ("free", protocol, _):
            return NamedPort(Protocol(protocol), "")
        case _:
            raise AssertionError(f"{words} are no port entry")
