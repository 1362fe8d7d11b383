# SPDX-License-Identifier: Apache-2.0
"""Peers: the ends that may be on a side of a flow. Data; `ir/semantics.py` gives the meaning.

A peer is a leaf (any, endpoints, addresses, nodes) or a boolean combination of peers. Network sets,
services and entities are not leaves: front ends lower them to these.
"""

from collections.abc import Iterator
from enum import Enum
from ipaddress import IPv4Network, IPv6Network
from typing import TypeAlias

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.selectors import ALWAYS, AllOf, Condition, EndpointSelector, Not, OneOf

Network = IPv4Network | IPv6Network


def is_inside(inner: Network, outer: Network) -> bool:
    """Whether one network contains the other; families never cross."""
    return (
        inner.version == outer.version
        and inner.prefixlen >= outer.prefixlen
        and inner.network_address in outer
    )


@dataclass(frozen=True, slots=True)
class AnyPeer:
    """Every peer: endpoints, nodes, and external addresses."""


@dataclass(frozen=True, slots=True)
class EndpointPeer:
    """The endpoints that a selector selects, and never an address that no endpoint holds."""

    selector: EndpointSelector


@dataclass(frozen=True, slots=True)
class AddressPeer:
    """Addresses inside `network` and in none of `excepts`, whichever end holds them (ipBlock)."""

    network: Network
    excepts: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        if any(hole == self.network or not is_inside(hole, self.network) for hole in self.excepts):
            raise ValueError(f"an except is not a strict part of {self.network} (A14)")


class Where(Enum):
    """The location of nodes, relative to the subject."""

    ANYWHERE = "anywhere"
    LOCAL = "local"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class NodePeer:
    """Nodes, by the addresses they hold; pods in the host's network count as their node (A21).

    `condition` reads the node's name and labels, and the labels of its host interface. LOCAL is the node
    that the subject runs on.
    """

    condition: Condition = ALWAYS
    where: Where = Where.ANYWHERE


Leaf = AnyPeer | EndpointPeer | AddressPeer | NodePeer
Peer: TypeAlias = Leaf | AllOf["Peer"] | OneOf["Peer"] | Not["Peer"]
ANY_PEER = AnyPeer()


def leaves(peer: Peer) -> Iterator[Leaf]:
    """The leaves of a peer, from left to right."""
    match peer:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case _:
            yield peer
