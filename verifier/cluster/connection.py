# SPDX-License-Identifier: Apache-2.0
"""A symbolic connection of a given cluster: between its pods, its nodes, and other addresses.

Exact: an end is one of the given ends. An unknown attribute of an end (a template's address and node)
takes the values that `verifier/cluster/sites.py` gives it: one of each sort that policies and intents
distinguish, with a second replica beside the first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network

import z3

from policyc.ir.intents import Intent
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import Network
from policyc.ir.policy import (
    NO_ENDPOINT,
    Action,
    NamedPort,
    Policy,
    PolicySet,
    Ports,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import Service
from policyc.ir.spans import NOWHERE, Origin
from policyc.ir.universe import FAMILIES, End, Endpoint, Node, Subject, Universe
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.sites import Site, sites_of
from policyc.verifier.smt.terms import (
    Term,
    in_network,
    port_of,
)
from policyc.verifier.symbolic.attributes import Domains
from policyc.verifier.symbolic.connection_ends import (
    ConnectionEnd,
    new_end,
)
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.known_ends import (
    Group,
    KnownEnds,
    groups_of,
    has_address,
    is_among,
    sorts_of,
)
from policyc.verifier.symbolic.model_ends import Reading

ANOTHER_REPLICA = "(another replica)"
_ANYWHERE: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))


class ClusterConnection(ConnectionTerms):
    """A symbolic connection of a cluster, and the verdicts of policy sets on it.

    `pod_networks` are where pods of unknown address live; no external end has an address of theirs.
    """

    def __init__(
        self,
        sets: Sequence[PolicySet],
        universe: Universe,
        intents: Iterable[Intent] = (),
        pod_networks: Sequence[Network] = (),
    ) -> None:
        intents = tuple(intents)
        self.pod_networks = tuple(pod_networks)
        peers = [peer for intent in intents for peer in (*intent.src, *intent.dst)]
        ports = [entry for intent in intents for entry in intent.services]
        self._ends_given = _ends(sets, universe, intents, self.pod_networks)
        known: list[Subject] = [*universe.endpoints, *universe.nodes]
        self._held = {family: _held(known, family) for family in FAMILIES}
        self._indices: dict[object, tuple[bool, int]] = {}
        super().__init__(sets, peers, ports)

    may_be_empty = True

    def _end(self, name: str) -> ConnectionEnd:
        if not hasattr(self, "_groups"):
            self._group()
        domains = Domains(self.tests)
        pod = KnownEnds(f"{name} pod", domains, sorts=self._sorts)
        return new_end(name, pod, KnownEnds(f"{name} node", domains, sorts=self._sorts))

    def wishes(self) -> Iterator[Term]:
        """A wish: the first replica of a template, if it may be any."""
        twins = [end for end in self._ends_given if _is_another(end)]
        for end in (self.src, self.dst):
            for family in FAMILIES:
                address, is_family = end.address(self.is_ipv6, family)
                among = is_among(address, _held(twins, family))
                yield z3.Not(z3.And(is_family, end.is_pod, among))

    def is_at(self, end: ConnectionEnd, sites: Iterable[Site]) -> Term:
        """The end is one of these sites, or the twin of one, among those that this connection has."""
        if not self._indices:
            for is_pod, groups in self._groups.items():
                for number, group in enumerate(groups):
                    self._indices |= {_identity(m): (is_pod, number) for m in group.members}
        members: defaultdict[tuple[bool, int], list[Subject]] = defaultdict(list)
        for site in sites:
            for member in _with_twin(site):
                members[self._indices[_identity(member)]].append(member)
        return z3.Or(*(self._is_member(end, *key, mine) for key, mine in members.items()))

    def _is_member(
        self, end: ConnectionEnd, is_pod: bool, number: int, mine: list[Subject]
    ) -> Term:
        is_kind = end.is_pod if is_pod else end.is_node
        among = []
        for family in FAMILIES:
            address, is_family = end.address(self.is_ipv6, family)
            among.append(z3.And(is_family, is_among(address, _held(mine, family))))
        return z3.And(is_kind, self._index(end, is_pod) == number, z3.Or(*among))

    def _group(self) -> None:
        self._sorts = sorts_of(self.tests, self._ends_given)
        names = self.named_ports
        kinds: dict[bool, list[Subject]] = {True: [], False: []}
        for end in self._ends_given:
            kinds[isinstance(end, Endpoint)].append(end)
        self._groups = {is_pod: groups_of(e, self._sorts, names) for is_pod, e in kinds.items()}
        nodes = {g.node for groups in self._groups.values() for g in groups if g.node}
        self._numbers = {name: number for number, name in enumerate(sorted(nodes), start=1)}

    def _index(self, end: ConnectionEnd, is_pod: bool) -> Term:
        """The number of the end's group, within its kind."""
        bits = max(1, len(self._groups[is_pod]).bit_length())
        return z3.BitVec(f"{end.name} {'pod' if is_pod else 'node'} index", bits)

    def _place(self, end: ConnectionEnd) -> Term:
        """The number of the node that the end is, or is on; 0 if it is unknown."""
        return z3.BitVec(f"{end.name} place", max(1, len(self._numbers).bit_length()))

    def _apart(self) -> Iterator[Term]:
        """Ends of one address are one pod, or replicas of unknown address."""
        src, dst = self._index(self.src, True), self._index(self.dst, True)
        two = z3.And(self.src.is_pod, self.dst.is_pod, src != dst)
        one = self.is_one_address()
        yield z3.Implies(self.is_same_pod, z3.And(one, src == dst))
        yield z3.Implies(z3.Not(self.is_same_pod), z3.Or(z3.Not(one), two))
        pods = z3.And(self.src.is_pod, self.dst.is_pod)
        for numbers in self._places_of_one_pod():
            is_one = [z3.Or(*(index == n for n in numbers)) for index in (src, dst)]
            yield z3.Implies(z3.And(pods, *is_one), self.is_same_pod)

    def _places_of_one_pod(self) -> Iterator[list[int]]:
        """For each pod, the groups that have no other: a pod of unknown address or node is in one of its
        places at a time. Templates have several pods.
        """
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, group in enumerate(self._groups[True]):
            pods = [each for each in group.members if isinstance(each, Endpoint)]
            names = {each.qualified_name for each in pods}
            if len(names) == 1 and not any(each.is_template for each in pods):
                found[names.pop()].append(number)
        yield from found.values()

    def _universe(self) -> Iterator[Term]:
        for end in (self.src, self.dst):
            for is_pod, groups in self._groups.items():
                yield from self._is_given(end, is_pod, groups)
            yield from self._is_free(end)
        src, dst = self._place(self.src), self._place(self.dst)
        shared = z3.And(src == dst, src != 0)
        yield self.is_on_src_node == z3.And(self.src.is_pod, self.dst.is_node, shared)
        yield self.is_on_dst_node == z3.And(self.src.is_node, self.dst.is_pod, shared)
        yield self.is_same_node == z3.And(self.src.is_node, self.dst.is_node, shared)

    def _is_given(self, end: ConnectionEnd, is_pod: bool, groups: list[Group]) -> Iterator[Term]:
        """The end, if of this kind, is of one of the groups, with all known attributes of that group."""
        is_kind = end.is_pod if is_pod else end.is_node
        index = self._index(end, is_pod)
        yield z3.Implies(is_kind, z3.ULT(index, len(groups)))
        for number, group in enumerate(groups):
            facts = [*self._facts(end, is_pod, group)]
            yield z3.Implies(z3.And(is_kind, index == number), z3.And(*facts))

    def _facts(self, end: ConnectionEnd, is_pod: bool, group: Group) -> Iterator[Term]:
        ends = end.pod if is_pod else end.node
        assert isinstance(ends, KnownEnds)
        yield ends.is_of(group.sorts)
        yield self._place(end) == self._numbers.get(group.node, 0)
        yield from has_address(end, self.is_ipv6, group)
        host = group.host
        yield end.has_host == (host is not None)
        yield end.denies_unmatched == (host is not None and host.denies_unmatched)
        yield end.has_failsafes == (host is not None and host.has_failsafes)
        if end is self.dst:
            for port, numbers in group.ports.items():
                declared = z3.Or(*(port_of(self.key) == n for n in sorted(numbers)))
                yield self.declares(port) == declared

    def _is_free(self, end: ConnectionEnd) -> Iterator[Term]:
        """An external end has no address of a pod, of a node, or of the pods' networks."""
        for family in FAMILIES:
            address, is_family = end.address(self.is_ipv6, family)
            taken = [in_network(address, n) for n in self.pod_networks if n.version == family]
            taken.append(is_among(address, self._held[family]))
            yield z3.Implies(z3.And(is_family, end.is_outside), z3.Not(z3.Or(*taken)))

    def _ends_of(self, reading: Reading, family: int, service: Service) -> tuple[End, End]:
        src, dst = (self._read_end(end, reading, family) for end in (self.src, self.dst))
        if isinstance(src, Node):
            src = replace(src, speaks=reading.holds(self.speaks))
        return src, dst

    def _read_end(self, end: ConnectionEnd, reading: Reading, family: int) -> End:
        address = reading.address(end.addresses[family], family)
        for is_pod, is_kind in ((True, end.is_pod), (False, end.is_node)):
            if reading.holds(is_kind):
                group = self._groups[is_pod][reading.number(self._index(end, is_pod))]
                found = group.member_at(address)
                return replace(found, speaks=True) if isinstance(found, Node) else found
        return address


def _ends(
    sets: Sequence[PolicySet],
    universe: Universe,
    intents: Sequence[Intent],
    networks: Sequence[Network],
) -> list[Subject]:
    """The cluster's ends, each as concrete as a flow needs it.

    If the pods' networks are not given, a pod of unknown address may be anywhere.
    """
    reads = Reads.of((*sets, _as_policies(intents)))
    found: dict[object, Subject] = {}
    for site in sites_of(universe, universe, reads, tuple(networks) or _ANYWHERE):
        for end in _with_twin(site):
            found.setdefault(_identity(end), end)
    return list(found.values())


def _with_twin(site: Site) -> Iterator[Subject]:
    yield site.before
    if isinstance(site.twin, Endpoint):
        yield replace(site.twin, name=f"{site.twin.name} {ANOTHER_REPLICA}")
    elif site.twin is not None:
        yield site.twin


def _is_another(end: Subject) -> bool:
    return isinstance(end, Endpoint) and end.name.endswith(ANOTHER_REPLICA)


def _identity(end: Subject) -> object:
    """The identity of a site: the end's name, its addresses, and its node."""
    if isinstance(end, Endpoint):
        return end.qualified_name, end.addresses, end.node, repr(end.its_node)
    return end.name, end.addresses


def _held(ends: Iterable[Subject], family: int) -> IntervalSet:
    """Every address that a pod or a node holds."""
    held = (address for end in ends for address in end.addresses)
    return IntervalSet.of((int(a), int(a)) for a in held if a.version == family)


def _as_policies(intents: Iterable[Intent]) -> PolicySet:
    """Policies without subjects that read everything that the intents read."""
    here = Origin(NOWHERE, "")
    rules = tuple(
        Rule(Action.ALLOW, (*intent.src, *intent.dst), _named(intent.services), here)
        for intent in intents
    )
    policy = Policy("Intent", "", "intents", NO_ENDPOINT, frozenset(), rules, (), here)
    return PolicySet((Tier("intents", TierMode.FIRST_MATCH, Action.PASS, (policy,)),))


def _named(services: Iterable[Ports]) -> tuple[Ports, ...]:
    return tuple(entry for entry in services if isinstance(entry, NamedPort))
