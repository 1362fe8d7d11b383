# SPDX-License-Identifier: Apache-2.0
"""Regions of flows at one end, as conjunctions of literals: a rule's requirement, or its negation.

A literal is data, so the same region can be tested at one end alone or on a whole connection, and can be
written in words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol as Shape
from typing import assert_never

import z3

from policyc.ir.describe import describe_peer, describe_selector
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import EndpointPeer, Peer
from policyc.ir.policy import NamedPort
from policyc.ir.results.regions import ServicePart
from policyc.ir.selectors import EVERY_ENDPOINT, EndpointSelector
from policyc.ir.services import ALL_SERVICES, describe_services
from policyc.verifier.smt.terms import (
    Term,
    in_range,
)


@dataclass(frozen=True, slots=True)
class Own:
    """The subject matches a peer, or does not."""

    peer: Peer
    holds: bool


@dataclass(frozen=True, slots=True)
class Other:
    """The end on the other side matches a peer, or does not."""

    peer: Peer
    holds: bool


@dataclass(frozen=True, slots=True)
class Services:
    """The service is one of these keys."""

    keys: IntervalSet


@dataclass(frozen=True, slots=True)
class SourcePorts:
    """The source port is one of these."""

    ports: IntervalSet


@dataclass(frozen=True, slots=True)
class Declares:
    """The destination declares the flow's port under a name, or does not."""

    port: NamedPort
    holds: bool


@dataclass(frozen=True, slots=True)
class Family:
    """The flow is IPv6, or IPv4."""

    is_ipv6: bool


@dataclass(frozen=True, slots=True)
class Generated:
    """The subject's own node generates the flow (A22), or does not."""

    holds: bool


Literal = Own | Other | Services | SourcePorts | Declares | Family | Generated


class Viewpoint(Shape):
    """The terms of a flow as one end sees it."""

    def own(self, peer: Peer) -> Term:
        """The subject matches a peer."""

    def other(self, peer: Peer) -> Term:
        """The end on the other side matches a peer."""

    def declares(self, port: NamedPort) -> Term:
        """The destination declares the flow's number under this name."""

    @property
    def key(self) -> Term:
        """The service key."""

    @property
    def source_port(self) -> Term:
        """The source port."""

    @property
    def has_source_port(self) -> Term:
        """There is a source port."""

    @property
    def is_ipv6(self) -> Term:
        """The family."""

    @property
    def generates(self) -> Term:
        """The subject's own node generates the flow."""


def term_of(literal: Literal, view: Viewpoint) -> Term:
    """The literal, evaluated on a flow."""
    match literal:
        case Own(peer, holds):
            return _signed(view.own(peer), holds)
        case Other(peer, holds):
            return _signed(view.other(peer), holds)
        case Services(keys):
            return z3.Or(*(in_range(view.key, lo, hi) for lo, hi in keys))
        case SourcePorts(ports):
            among = z3.Or(*(in_range(view.source_port, lo, hi) for lo, hi in ports))
            return z3.And(view.has_source_port, among)
        case Declares(port, holds):
            return _signed(view.declares(port), holds)
        case Family(is_ipv6):
            return _signed(view.is_ipv6, is_ipv6)
        case Generated(holds):
            return _signed(view.generates, holds)
        case _:
            assert_never(literal)


def _signed(term: Term, holds: bool) -> Term:
    return term if holds else z3.Not(term)


def describe_side(literals: Iterable[Own | Other], everyone: str) -> str:
    """One side of a region in words: `pods [shop: app=web] but not [shop: tier=db]`."""
    literals = list(literals)
    named = {_namespace(each.peer) for each in literals if each.holds and not _is_whole(each.peer)}
    yes = [
        _who(each.peer)
        for each in literals
        if each.holds and not (_is_whole(each.peer) and _namespace(each.peer) in named)
    ]
    no = [_who(each.peer) for each in literals if not each.holds]
    shown = " and ".join(yes) or everyone
    return f"{shown} but not {', '.join(no)}" if no else shown


def _namespace(peer: Peer) -> str | None:
    return peer.selector.namespace if isinstance(peer, EndpointPeer) else None


def _is_whole(peer: Peer) -> bool:
    """All pods of a namespace."""
    name = _namespace(peer)
    return name is not None and peer == EndpointPeer(EndpointSelector(name))


def _who(peer: Peer) -> str:
    match peer:
        case EndpointPeer(selector):
            if selector == EVERY_ENDPOINT:
                return "pods"
            return f"pods [{describe_selector(selector)}]"
        case _:
            return describe_peer(peer)


def service_part(literals: Sequence[Literal], also: tuple[str, ...] = ()) -> ServicePart:
    """Services and source ports of a region, and names and family in words, before `also`."""
    keys = ALL_SERVICES
    sources: list[tuple[int, int]] = []
    more = []
    for literal in literals:
        match literal:
            case Services(found):
                keys = keys & found
            case SourcePorts(ports):
                sources += ports
            case Declares(port, holds):
                what = "that it declares as" if holds else "that it does not declare as"
                more.append(f"{what} {port.name!r} ({port.protocol.name})")
            case Family(is_ipv6):
                more.append("IPv6" if is_ipv6 else "IPv4")
            case Generated(True):
                more.append("generated by its own node")
            case _:
                continue
    return ServicePart(keys, tuple(sources), (*more, *also))


def describe_service_part(literals: Sequence[Literal]) -> str:
    """Services, source ports, names and family of a region in words."""
    part = service_part(literals)
    ports = ", ".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in part.source_ports)
    sources = (f"from source ports {ports}",) if ports else ()
    return " ".join((describe_services(part.keys), *sources, *part.also))
