# SPDX-License-Identifier: Apache-2.0
"""The flows that literals describe: of one end alone, or of a whole connection seen from one end."""

from collections.abc import Collection
from dataclasses import dataclass

import z3

from policyc.ir.peers import Peer
from policyc.ir.policy import Direction, NamedPort
from policyc.ir.selectors import Operator, Requirement
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.attributes import (
    NAMESPACE_KEY,
    Ends,
)
from policyc.verifier.symbolic.connection_ends import ConnectionEnd
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.verdict_terms import Situation


@dataclass(frozen=True, slots=True)
class EndView:
    """The flows of a situation: one end, and any peer."""

    situation: Situation

    def own(self, peer: Peer) -> Term:
        """The subject matches a peer."""
        return self.situation.peer_term(peer, True)

    def other(self, peer: Peer) -> Term:
        """The end on the other side matches a peer."""
        return self.situation.peer_term(peer, False)

    def declares(self, port: NamedPort) -> Term:
        """The destination declares the flow's number under this name."""
        return self.situation.declared(port)

    @property
    def key(self) -> Term:
        """The service key."""
        return self.situation.key

    @property
    def source_port(self) -> Term:
        """The source port."""
        return self.situation.source_port

    @property
    def has_source_port(self) -> Term:
        """There is a source port."""
        return self.situation.has_source_port

    @property
    def is_ipv6(self) -> Term:
        """The family."""
        return self.situation.is_ipv6

    @property
    def generates(self) -> Term:
        """The subject's own node generates the flow."""
        return self.situation.generates


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """The flows of a connection, from the view of its source (EGRESS) or its destination (INGRESS)."""

    connection: ConnectionTerms
    direction: Direction
    is_host: bool

    def own(self, peer: Peer) -> Term:
        """The subject matches a peer."""
        if self.direction is Direction.INGRESS:
            return self.connection.dst_matches(peer)
        return self.connection.src_matches(peer)

    def other(self, peer: Peer) -> Term:
        """The end on the other side matches a peer."""
        if self.direction is Direction.INGRESS:
            return self.connection.src_matches(peer)
        return self.connection.dst_matches(peer)

    def declares(self, port: NamedPort) -> Term:
        """The destination declares the flow's number under this name."""
        return z3.And(self.connection.dst.is_pod, self.connection.declares(port))

    def is_subject(self) -> Term:
        """The end is of the kind that the region is about."""
        end = self._ends()[0]
        return end.is_host if self.is_host else end.is_pod

    def other_in(self, names: Collection[str]) -> Term:
        """The peer is a pod of one of these namespaces."""
        end = self._ends()[1]
        return z3.And(end.is_pod, is_in_one_of(end.pod, names))

    def other_is_pod(self) -> Term:
        """The peer is a pod."""
        return self._ends()[1].is_pod

    def _ends(self) -> tuple[ConnectionEnd, ConnectionEnd]:
        c = self.connection
        return (c.dst, c.src) if self.direction is Direction.INGRESS else (c.src, c.dst)

    @property
    def key(self) -> Term:
        """The service key."""
        return self.connection.key

    @property
    def source_port(self) -> Term:
        """The source port."""
        return self.connection.source_port

    @property
    def has_source_port(self) -> Term:
        """There is a source port."""
        return self.connection.has_source_port

    @property
    def is_ipv6(self) -> Term:
        """The family."""
        return self.connection.is_ipv6

    @property
    def generates(self) -> Term:
        """The subject's own node generates the flow."""
        if self.direction is Direction.EGRESS or self.is_host:
            return z3.BoolVal(False)
        return self.connection.is_from_own_node()


def is_in_one_of(end: Ends, names: Collection[str]) -> Term:
    """A pod's namespace is one of these; a namespace that no test names is in none of its terms."""
    if NAMESPACE_KEY not in end.domains:
        return z3.BoolVal(False)
    known = sorted(names)
    if NAMESPACE_KEY not in end.domains.texts:
        known = [name for name in known if name in end.domains[NAMESPACE_KEY].number_of]
    return end.requirement(NAMESPACE_KEY, Requirement("", Operator.IN, tuple(known)))
