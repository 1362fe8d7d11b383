# SPDX-License-Identifier: Apache-2.0
"""Both ends of a connection at once, and the verdict of policy sets on it, in any universe.

The verdict of `ir/semantics.verdict` on a flow, as Z3 terms: egress at the source and ingress at the
destination. Each end is a pod, a node or an external address. The verdict of one end is that of a
`Situation`. This module adds the identities of the ends, and the flows that no policy decides (A22, A23,
A26).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import IPv6Network
from typing import assert_never

import z3

from policyc.ir.errors import InternalError
from policyc.ir.peers import (
    AddressPeer,
    AnyPeer,
    EndpointPeer,
    NodePeer,
    Peer,
    Where,
    leaves,
)
from policyc.ir.policy import NEVER, Action, Direction, Limit, NamedPort, PolicySet, Ports
from policyc.ir.selectors import AllOf, Not, OneOf, Requirement
from policyc.ir.semantics import FAILSAFE_PORTS, LINK_MULTICAST
from policyc.ir.services import NEIGHBOUR_DISCOVERY, Kind, Service
from policyc.ir.universe import End, Flow
from policyc.verifier.smt.terms import (
    Term,
    asks_for,
    in_block,
    in_network,
    in_range,
)
from policyc.verifier.symbolic.attributes import (
    Key,
    tests_in,
    tests_of,
)
from policyc.verifier.symbolic.connection_ends import (
    ConnectionEnd,
    policies_of,
)
from policyc.verifier.symbolic.model_ends import Reading
from policyc.verifier.symbolic.verdict_terms import (
    ACTIONS,
    UNDECIDED,
    Sides,
    Situation,
    names_of_ports,
    sorted_ports,
    tests_of_all,
)

ALLOW = ACTIONS.index(Action.ALLOW)
DENY = ACTIONS.index(Action.DENY)
_LINK_LOCAL = IPv6Network("fe80::/10")


def tests_of_peers(peers: Iterable[Peer]) -> Iterator[tuple[Key, Requirement]]:
    """Every test of some peers on pods and nodes."""
    for leaf in (leaf for peer in peers for leaf in leaves(peer)):
        if isinstance(leaf, EndpointPeer):
            yield from tests_of(leaf.selector)
        elif isinstance(leaf, NodePeer):
            yield from tests_in(leaf.condition)


class ConnectionTerms:
    """The terms of a connection. `sets` are all the policy sets that will be evaluated.

    `peers` and `ports` are evaluated on its ends beside the policies. Pods in the host's network are
    nodes here (A21). A protocol with ports always has a source port.
    """

    def __init__(
        self, sets: Sequence[PolicySet], peers: Iterable[Peer], ports: Iterable[Ports]
    ) -> None:
        self.sets = tuple(sets)
        self.peers = tuple(peers)
        self.tests = (*tests_of_all(self.sets), *tests_of_peers(self.peers))
        asked = {port for port in ports if isinstance(port, NamedPort)}
        self.named_ports = sorted_ports({*names_of_ports(self.sets), *asked})
        self._has_host_policy = any(policy.hosts != NEVER for policy in policies_of(self.sets))
        self.src, self.dst = self._end("source"), self._end("destination")
        self.is_same_pod = z3.Bool("one pod is both ends")
        self.is_on_src_node = z3.Bool("the destination is the source pod's node")
        self.is_on_dst_node = z3.Bool("the source is the destination pod's node")
        self.is_same_node = z3.Bool("one node is both ends")
        self.speaks = z3.Bool("the source node generates the flow")
        self._ends: dict[tuple[int, Direction], tuple[Term, Term]] = {}

    def _end(self, name: str) -> ConnectionEnd:
        """A free end of the universe."""
        raise NotImplementedError

    @property
    def effect_numbers(self) -> Mapping[Action | Limit, int]:
        """The bit of each effect in an effects mask."""
        return self._any.effects

    may_be_empty = False
    """Whether the universe may have no connection at all, as a cluster without pods and nodes."""

    has_strings = False
    """Whether its terms use strings, which not every solver supports."""

    def wishes(self) -> Iterator[Term]:
        """Wishes that make a witness of this universe readable, beside the general ones."""
        return iter(())

    # The four situations: each end may be decided as a pod or as a host interface.

    @cached_property
    def _situations(self) -> dict[tuple[Direction, bool], Situation]:
        return {
            (direction, is_host): Situation(
                self.sets, direction, is_host, self._sides(direction, is_host)
            )
            for direction in Direction
            for is_host in (False, True)
        }

    def _sides(self, direction: Direction, is_host: bool) -> Sides:
        """The connection as its subject sees it."""
        own, other = self.src, self.dst
        local = self.is_on_src_node
        if direction is Direction.INGRESS:
            own, other = other, own
            local = self.is_on_dst_node
        return Sides(
            own.node if is_host else own.pod,
            other.pod,
            other.node,
            other.is_pod,
            other.is_node,
            self.is_same_node if is_host else local,
            self.is_from_own_node(),
            own.addresses,
            other.addresses,
        )

    @property
    def _any(self) -> Situation:
        """The terms of the packet, which all situations share."""
        return self._situations[Direction.EGRESS, False]

    @property
    def is_ipv6(self) -> Term:
        """The family."""
        return self._any.is_ipv6

    @property
    def key(self) -> Term:
        """The service key."""
        return self._any.key

    @property
    def source_port(self) -> Term:
        """The source port, which is read only if the protocol has ports."""
        return self._any.source_port

    @property
    def has_source_port(self) -> Term:
        """There is a source port: always, if the protocol has ports."""
        return self._any.has_source_port

    def declares(self, port: NamedPort) -> Term:
        """The destination, if it is a pod, declares the flow's number under a name and protocol."""
        return self._any.declares(port)

    # What is possible.

    def is_possible(self) -> Term:
        """The constraints on every connection of this universe; check that they can be met."""
        return z3.And(self._is_packet(), *self._kinds(), *self._identities(), *self._universe())

    def _is_packet(self) -> Term:
        has_ports = z3.ULE(z3.Extract(18, 16, self.key), int(Kind.SCTP))
        return z3.And(self._any.is_packet(), self.has_source_port == has_ports)

    def _kinds(self) -> Iterator[Term]:
        """Some end is a pod or a node; otherwise no node here sees the connection."""
        ends = (self.src, self.dst)
        yield z3.Or(*(term for end in ends for term in (end.is_pod, end.is_node)))
        for end in ends:
            yield z3.Not(z3.And(end.is_pod, end.is_node))

    def _identities(self) -> Iterator[Term]:
        """Identities: both ends may be one pod, or one node, and a node may be a pod's own."""
        src, dst = self.src, self.dst
        yield z3.Implies(self.is_same_pod, z3.And(src.is_pod, dst.is_pod))
        yield z3.Implies(self.is_on_src_node, z3.And(src.is_pod, dst.is_node))
        yield z3.Implies(self.is_on_dst_node, z3.And(src.is_node, dst.is_pod))
        yield z3.Implies(self.is_same_node, z3.And(src.is_node, dst.is_node))
        yield from self._apart()

    def _apart(self) -> Iterator[Term]:
        """The two ends have different addresses; a node's traffic to its own address never leaves it."""
        yield self.is_same_pod == self.is_one_address()

    def is_one_address(self) -> Term:
        """Both ends have the same address in the flow's family."""
        src, dst = self.src.addresses, self.dst.addresses
        return z3.If(self.is_ipv6, src[6] == dst[6], src[4] == dst[4])

    def _universe(self) -> Iterator[Term]:
        """The universe's constraints on the ends, and on their shared attributes."""
        raise NotImplementedError

    def _ends_of(self, reading: Reading, family: int, service: Service) -> tuple[End, End]:
        """The ends that a model describes, with their addresses of this family."""
        raise NotImplementedError

    def read(self, model: Term) -> Flow:
        """The flow that a model describes; the model satisfies `is_possible()`, and more."""
        reading = Reading(model)
        family = 6 if reading.holds(self.is_ipv6) else 4
        service = Service.from_key(reading.number(self.key))
        src, dst = self._ends_of(reading, family, service)
        port = reading.number(self.source_port) if reading.holds(self.has_source_port) else None
        return Flow(src, dst, service, family, port)

    def _subject(self, direction: Direction) -> ConnectionEnd:
        return self.src if direction is Direction.EGRESS else self.dst

    # What no policy decides.

    def is_from_own_node(self) -> Term:
        """The source is the node that the destination runs on, and generates the flow (A22)."""
        return z3.And(self.is_on_dst_node, self.speaks)

    def is_between_neighbours(self) -> Term:
        """IPv6 neighbour discovery on the link (A26)."""
        to = self.dst.addresses[6]
        kind, first, last = int(Kind.ICMPV6), NEIGHBOUR_DISCOVERY[0], NEIGHBOUR_DISCOVERY[-1]
        return z3.And(
            self.is_ipv6,
            z3.Or(in_network(to, _LINK_LOCAL), in_network(to, LINK_MULTICAST)),
            z3.Extract(18, 16, self.key) == kind,
            in_range(z3.Extract(15, 8, self.key), first, last),
        )

    def is_builtin(self, policies: PolicySet) -> Term:
        """A pod to itself, a node to its own pod, neighbour discovery: allowed whatever policies say.

        A flow that a node generates for its own pod is not built in if a rule denies exactly it.
        """
        from_node = self.is_from_own_node()
        if self._at_pod.binds_own_node:
            denied = self._at_pod.denies_own_node(policies)
            from_node = z3.And(from_node, z3.Not(denied))
        return z3.Or(self.is_same_pod, from_node, self.is_between_neighbours())

    @property
    def _at_pod(self) -> Situation:
        """The pod that is the destination."""
        return self._situations[Direction.INGRESS, False]

    def _is_unasked(self, direction: Direction) -> Term:
        """No policy of this end applies.

        A pod's policies may deny flows of its own node; a node's policies never apply to flows to its
        own pods.
        """
        never = [self.is_same_pod, self.is_between_neighbours()]
        if direction is Direction.EGRESS or not self._at_pod.binds_own_node:
            never.append(self.is_from_own_node())
        return z3.Or(*never)

    def is_decided(self, direction: Direction) -> Term:
        """Policies apply to this end: a pod, or a host interface beside its failsafe ports.

        Policies apply to a host interface that no policy selects only if it has default deny.
        """
        end = self._subject(direction)
        asked = z3.Or(self._has_host_policy, end.denies_unmatched)
        host = z3.And(end.is_host, asked, z3.Not(self._is_failsafe(direction)))
        return z3.And(z3.Not(self._is_unasked(direction)), z3.Or(end.is_pod, host))

    def _is_failsafe(self, direction: Direction) -> Term:
        """A port for which no policy of this end's host interface applies (D43)."""
        keys = sorted(Service(*port).key for port in FAILSAFE_PORTS[direction])
        end = self._subject(direction)
        return z3.And(end.has_failsafes, z3.Or(*(self.key == key for key in keys)))

    # Verdicts.

    def end(self, policies: PolicySet, direction: Direction) -> tuple[Term, Term]:
        """(action, effects) of one end: an index of ACTIONS, and a mask."""
        place = self._index_of(policies), direction
        if place not in self._ends:
            self._ends[place] = self._end_of(policies, direction)
        return self._ends[place]

    def _index_of(self, policies: PolicySet) -> int:
        """The index of a policy set; never of another set, whose tests would have no domain."""
        for index, given in enumerate(self.sets):
            if given is policies:
                return index
        raise InternalError("a connection was asked about policies that it was not made for")

    def _end_of(self, policies: PolicySet, direction: Direction) -> tuple[Term, Term]:
        end = self._subject(direction)
        action, effects = self._situations[direction, False].verdict(policies)
        by_host, of_host = self._situations[direction, True].verdict(policies)
        nothing = z3.BitVecVal(0, self._any.effect_bits)
        allow, deny = (z3.BitVecVal(index, by_host.size()) for index in (ALLOW, DENY))
        by_host = z3.If(by_host == UNDECIDED, z3.If(end.denies_unmatched, deny, allow), by_host)
        decided = self.is_decided(direction)
        return (
            z3.If(decided, z3.If(end.is_pod, action, by_host), allow),
            z3.If(decided, z3.If(end.is_pod, effects, of_host), nothing),
        )

    def end_allows(self, policies: PolicySet, direction: Direction) -> Term:
        """One end allows the connection."""
        return self.end(policies, direction)[0] == ALLOW

    def allowed(self, policies: PolicySet) -> Term:
        """Egress at the source and ingress at the destination allow it (A4)."""
        return z3.And(*(self.end_allows(policies, direction) for direction in Direction))

    # Peers and services as terms, for claims about the ends themselves.

    def src_matches(self, peer: Peer) -> Term:
        """The source matches a peer; `local` and `remote` nodes are relative to the destination."""
        return self._matches(peer, self.src, self.is_on_dst_node)

    def dst_matches(self, peer: Peer) -> Term:
        """The destination matches a peer, relative to the source."""
        return self._matches(peer, self.dst, self.is_on_src_node)

    def _matches(self, peer: Peer, end: ConnectionEnd, is_own: Term) -> Term:
        match peer:
            case AnyPeer():
                return z3.BoolVal(True)
            case EndpointPeer(selector):
                return z3.And(end.is_pod, end.pod.selected(selector))
            case AddressPeer(network):
                address, is_family = end.address(self.is_ipv6, network.version)
                return z3.And(is_family, in_block(address, peer))
            case NodePeer():
                local = z3.Or(is_own, self.is_same_node)
                return z3.And(end.is_node, end.node.condition(peer.condition), _where(peer, local))
            case AllOf(parts):
                return z3.And(*(self._matches(part, end, is_own) for part in parts))
            case OneOf(parts):
                return z3.Or(*(self._matches(part, end, is_own) for part in parts))
            case Not(part):
                return z3.Not(self._matches(part, end, is_own))
            case _:
                assert_never(peer)

    def services_in(self, ports: Iterable[Ports]) -> Term:
        """The service is among some entries; a named port is what a destination pod declares (A19)."""

        def named(port: NamedPort) -> Term:
            return z3.And(self.dst.is_pod, self.declares(port))

        return z3.Or(*(asks_for(self.key, entry, named) for entry in ports))


def _where(peer: NodePeer, is_local: Term) -> Term:
    match peer.where:
        case Where.ANYWHERE:
            return z3.BoolVal(True)
        case Where.LOCAL:
            return is_local
        case Where.REMOTE:
            return z3.Not(is_local)
        case _:
            assert_never(peer.where)
