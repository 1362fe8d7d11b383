# SPDX-License-Identifier: Apache-2.0
"""What was written in the rule language, as a tree. Meaning is the front end's; every leaf is a word.

The classes are not frozen for speed. No code changes a node once it is built.
"""

from dataclasses import dataclass
from typing import TypeAlias

from policyc.grammar.tokens import Token


@dataclass(slots=True, eq=False)
class Attribute:
    """What a test reads. `key` is the STRING of `pod["..."]`, else None."""

    token: Token
    key: Token | None = None


@dataclass(slots=True, eq=False)
class Test:
    """A test of one attribute: `==`, `!=`, `in`, `not in`, `exists`, `starts`, `ends`, `contains`."""

    attribute: Attribute
    operator: str
    values: tuple[Token, ...] = ()


@dataclass(slots=True, eq=False)
class Everything:
    """`all`."""

    token: Token


@dataclass(slots=True, eq=False)
class Negation:
    """`!` before a part."""

    part: "Expression"


@dataclass(slots=True, eq=False)
class Conjunction:
    """Parts joined by `&&`, at least two."""

    parts: tuple["Expression", ...]


@dataclass(slots=True, eq=False)
class Disjunction:
    """Parts joined by `||`, at least two."""

    parts: tuple["Expression", ...]


Expression: TypeAlias = "Test | Everything | Negation | Conjunction | Disjunction"


@dataclass(slots=True, eq=False)
class Service:
    """One service: `token` is `any`, a protocol, a QUALIFIED or `protocol`.

    `number` is the ICMP type, or the protocol's number; `code` the ICMP code.
    """

    token: Token
    number: Token | None = None
    code: Token | None = None


@dataclass(slots=True, eq=False)
class AnyPeer:
    """`any`."""

    token: Token


@dataclass(slots=True, eq=False)
class AddressPeer:
    """An address or CIDR, and what is taken out of it."""

    token: Token
    excepts: tuple[Token, ...] = ()


@dataclass(slots=True, eq=False)
class ServicePeer:
    """`service NAMESPACE/NAME`; `token` is the name."""

    token: Token


@dataclass(slots=True, eq=False)
class EntityPeer:
    """`entity NAME`; `token` is the name."""

    token: Token


@dataclass(slots=True, eq=False)
class EntityNodes:
    """`entity NAME with EXPRESSION`: some of an entity's nodes; `token` is the name."""

    token: Token
    expression: Expression


@dataclass(slots=True, eq=False)
class NodePeer:
    """`node EXPRESSION`; `token` is the word `node`."""

    token: Token
    expression: Expression


@dataclass(slots=True, eq=False)
class PodPeer:
    """Pods, by an expression; `token` is its first word."""

    token: Token
    expression: Expression


@dataclass(slots=True, eq=False)
class Inside:
    """`PEER in BLOCK`: those of a peer that have an address in a block."""

    peer: EntityPeer | EntityNodes | NodePeer | PodPeer
    block: AddressPeer

    @property
    def token(self) -> Token:
        """The peer's word."""
        return self.peer.token


Peer = AnyPeer | AddressPeer | ServicePeer | EntityPeer | EntityNodes | NodePeer | PodPeer | Inside


@dataclass(slots=True, eq=False)
class Modifier:
    """What follows a rule or an intent: `token` is its first word, `value` and `burst` what it has.

    `log`; `limit` VALUE `burst` BURST; `as` VALUE; `because` VALUE; `ingress`; `egress`; `including`.
    """

    token: Token
    value: Token | None = None
    burst: Token | None = None


@dataclass(slots=True, eq=False)
class Section:
    """`ingress:` or `egress:`."""

    token: Token


@dataclass(slots=True, eq=False)
class Rule:
    """One rule. `side` is `from` or `to`; without it and peers, any peer.

    With both sides written, `side` is `from`, and `others` are the peers after `to`. `excepts` are
    services.
    """

    action: Token
    services: tuple[Service, ...]
    side: Token | None
    peers: tuple[Peer, ...]
    modifiers: tuple[Modifier, ...]
    excepts: tuple[Service, ...] = ()
    others: tuple[Peer, ...] = ()


@dataclass(slots=True, eq=False)
class Intent:
    """One intent. Sides that are not written are empty; of `isolated` the first is `dst`."""

    word: Token
    services: tuple[Service, ...]
    src: tuple[Peer, ...]
    dst: tuple[Peer, ...]
    modifiers: tuple[Modifier, ...]
