# SPDX-License-Identifier: Apache-2.0
"""The question of one rule: does it match the same in the tables as in the Policy IR?

Every selector bit, block, node condition and named port is free, so their indices are only names. They
are renamed, one to one, in order of first use, so that rules of one shape are one question.
"""

from collections.abc import Callable, Iterable
from typing import Any, assert_never

from policyc.ir.decision import TablePeer, TableRule, TableService
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import NamedPort, Rule
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.vocabulary import Vocabulary
from policyc.verifier.decision.service_questions import (
    AskedWords,
    PortWords,
    Terms,
    asked_words,
    free,
)
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.terms import (
    Term,
    in_range,
)

OWN, OTHER = "own", "other"
"""The two sides of a flow, as a rule sees them: each has selector bits and blocks of its own."""
AND, OR, NOT = "and", "or", "not"
PeerWords = tuple[Any, ...]
"""`(AND, part, ...)`, `(OR, part, ...)`, `(NOT, part)`, `("node", index, where)` or `(kind, index)`."""
_WHERE = {"node": Where.ANYWHERE, "local": Where.LOCAL, "remote": Where.REMOTE}
Rename = Callable[[str, int], int]


@dataclass(frozen=True, slots=True)
class RuleQuestion:
    """The own side, the peers and the services, in the policy and in the tables.

    A service of the tables is `(lo, hi)` keys, or the words of a named port.
    """

    own: PeerWords
    peers: PeerWords
    asked: AskedWords
    table_own: PeerWords
    table_peers: PeerWords
    table_services: tuple[PortWords, ...]
    table_excepts: tuple[PortWords, ...]

    def violated(self, terms: Terms) -> Term:
        """Some flow matches in one and not in the other."""
        by_policy = z3.And(
            _peer(self.own, OWN, terms), _peer(self.peers, OTHER, terms), terms.asked(self.asked)
        )
        among = z3.Or(*(_service(each, terms) for each in self.table_services))
        excepted = (z3.Not(_service(each, terms)) for each in self.table_excepts)
        by_table = z3.And(
            _peer(self.table_own, OWN, terms),
            _peer(self.table_peers, OTHER, terms),
            among,
            *excepted,
        )
        return z3.And(terms.is_service, z3.Xor(by_policy, by_table))


def rule_question(rule: Rule, table: TableRule, vocabulary: Vocabulary) -> RuleQuestion:
    """The question of a rule and its counterpart in the tables."""
    numbers: dict[tuple[str, int], int] = {}

    def rename(kind: str, index: int) -> int:
        return numbers.setdefault((kind, index), sum(key[0] == kind for key in numbers))

    def named(port: NamedPort) -> Iterable[PortWords]:
        return (free(port.protocol, rename("port", vocabulary.port_of[port])),)

    def services(given: Iterable[TableService]) -> tuple[PortWords, ...]:
        return tuple(
            ("keys", *each)
            if isinstance(each, tuple)
            else free(vocabulary.named_ports[each].protocol, rename("port", each))
            for each in given
        )

    peers = (OR, *(_words(peer, vocabulary, rename) for peer in rule.peers))
    return RuleQuestion(
        own=_words(rule.own, vocabulary, rename),
        peers=peers,
        asked=asked_words(rule.ports, rule.except_ports, named),
        table_own=(AND,) if table.own is None else _table_words(table.own, rename),
        table_peers=(AND,)
        if table.peers is None
        else (OR, *(_table_words(peer, rename) for peer in table.peers)),
        table_services=(("all",),) if table.services is None else services(table.services),
        table_excepts=services(table.except_services),
    )


def _words(peer: Peer, vocabulary: Vocabulary, rename: Rename) -> PeerWords:
    match peer:
        case AnyPeer():
            return (AND,)
        case EndpointPeer(selector):
            return "bit", rename("bit", vocabulary.bit_of[selector])
        case AddressPeer():
            return "block", rename("block", vocabulary.block_of[peer])
        case NodePeer(condition, where):
            return "node", rename("node", vocabulary.node_of[condition]), where.value
        case AllOf(parts):
            return AND, *(_words(part, vocabulary, rename) for part in parts)
        case OneOf(parts):
            return OR, *(_words(part, vocabulary, rename) for part in parts)
        case Not(part):
            return NOT, _words(part, vocabulary, rename)
        case _:
            assert_never(peer)


def _table_words(peer: TablePeer, rename: Rename) -> PeerWords:
    match peer:
        case AllOf(parts):
            return AND, *(_table_words(part, rename) for part in parts)
        case OneOf(parts):
            return OR, *(_table_words(part, rename) for part in parts)
        case Not(part):
            return NOT, _table_words(part, rename)
        case (kind, index):
            if kind in _WHERE:
                return "node", rename("node", index), _WHERE[kind].value
            return kind, rename(kind, index)
        case _:
            assert_never(peer)


def _peer(words: PeerWords, side: str, terms: Terms) -> Term:
    """The term of a peer; the own side is an endpoint, and so not a node."""
    match words:
        case ("and", *parts):
            return z3.And(*(_peer(part, side, terms) for part in parts))
        case ("or", *parts):
            return z3.Or(*(_peer(part, side, terms) for part in parts))
        case ("not", part):
            return z3.Not(_peer(part, side, terms))
        case ("node", index, where):
            if side == OWN:
                return z3.BoolVal(False)
            return z3.And(_free(side, "node", index, terms), _is_there(Where(where)))
        case (kind, index):
            return _free(side, kind, index, terms)
        case _:
            raise AssertionError(f"{words} are no peer")


def _free(side: str, kind: str, index: int, terms: Terms) -> Term:
    """A free selector bit, block or node: any pod, any address, any node."""
    name = f"{side} {kind}{index}"
    return terms.once(name, lambda: z3.Bool(name))


def _is_there(where: Where) -> Term:
    """The node has the location that a peer requires; whether it is the subject's own is free."""
    is_local = z3.Bool("the subject's own node")
    match where:
        case Where.ANYWHERE:
            return z3.BoolVal(True)
        case Where.LOCAL:
            return is_local
        case Where.REMOTE:
            return z3.Not(is_local)
        case _:
            assert_never(where)


def _service(words: PortWords, terms: Terms) -> Term:
    match words:
        case ("all",):
            return z3.BoolVal(True)
        case ("keys", lo, hi):
            return terms.once(words, lambda: in_range(terms.key, lo, hi))
        case _:
            return terms.asked(((words,), ()))
