# SPDX-License-Identifier: Apache-2.0
"""One end of a symbolic connection: a pod, a node (with or without a host interface), or an address.

Every end has the terms of all three; `is_pod` and `is_node` say which of them count. This module makes
both ends of a connection, and the constraints of a universe on each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import z3

from policyc.ir.peers import Network
from policyc.ir.policy import NEVER, Policy, PolicySet
from policyc.ir.selectors import Attribute
from policyc.verifier.smt.terms import (
    Term,
    in_network,
)
from policyc.verifier.symbolic.attributes import (
    Domains,
    Ends,
)

_GROUP_OF_OPEN_HOSTS = ".cilium.io"


@dataclass(frozen=True)
class ConnectionEnd:
    """The terms of one end. An end that is neither a pod nor a node is an external address.

    `has_host`: the node has a host interface. `denies_unmatched` and `has_failsafes` are its own.
    """

    name: str
    pod: Ends
    node: Ends
    is_pod: Term
    is_node: Term
    has_host: Term
    denies_unmatched: Term
    has_failsafes: Term
    addresses: dict[int, Term]

    @property
    def is_outside(self) -> Term:
        """An address of no pod and no node."""
        return z3.Not(z3.Or(self.is_pod, self.is_node))

    @property
    def is_host(self) -> Term:
        """A node that can be a subject of policies."""
        return z3.And(self.is_node, self.has_host)

    def address(self, is_ipv6: Term, family: int) -> Term:
        """The address of a family, and the condition that the flow is of this family."""
        return self.addresses[family], is_ipv6 if family == 6 else z3.Not(is_ipv6)


def new_end(name: str, pod: Ends, node: Ends) -> ConnectionEnd:
    """A free end with these attributes."""
    return ConnectionEnd(
        name,
        pod,
        node,
        z3.Bool(f"{name} is a pod"),
        z3.Bool(f"{name} is a node"),
        z3.Bool(f"{name} has a host interface"),
        z3.Bool(f"{name} is guarded"),
        z3.Bool(f"{name} has failsafe ports"),
        {4: z3.BitVec(f"{name}4", 32), 6: z3.BitVec(f"{name}6", 128)},
    )


def free_end(name: str, domains: Domains) -> ConnectionEnd:
    """An end without constraints."""
    return new_end(name, Ends(f"{name} pod", domains), Ends(f"{name} node", domains))


@dataclass(frozen=True)
class HostRules:
    """The possible host interfaces, according to the policies that select them.

    Calico's host endpoints may exist or not, with default deny or not, with failsafe ports (D43). With
    Cilium, every node is a subject, open if no policy decides, once a policy selects nodes (E45).
    """

    may_deny_unmatched: bool
    is_every_node: bool

    @staticmethod
    def of(sets: Iterable[PolicySet]) -> "HostRules":
        """The host rules that follow from the policies that select host interfaces."""
        of_hosts = [p for p in policies_of(sets) if p.hosts != NEVER]
        opens = [p for p in of_hosts if p.kind.endswith(_GROUP_OF_OPEN_HOSTS)]
        return HostRules(len(opens) < len(of_hosts), bool(opens))

    def asked_of(self, end: ConnectionEnd) -> Iterator[Term]:
        """Host interfaces belong to nodes, and are like those of the policies."""
        yield z3.Implies(end.has_host, end.is_node)
        yield z3.Implies(z3.Or(end.denies_unmatched, end.has_failsafes), end.has_host)
        if self.is_every_node:
            yield z3.Implies(end.is_node, end.has_host)
        if not self.may_deny_unmatched:
            yield z3.Not(z3.Or(end.denies_unmatched, end.has_failsafes))


def policies_of(sets: Iterable[PolicySet]) -> Iterator[Policy]:
    """Every policy, tier by tier."""
    for policies in sets:
        for tier in policies.tiers:
            yield from tier.policies


def is_legal(end: ConnectionEnd) -> Iterator[Term]:
    """One kind at a time, with legal values; without a host interface there are no labels of it."""
    yield z3.Not(z3.And(end.is_pod, end.is_node))
    yield from (end.pod.is_legal(), end.node.is_legal(), end.pod.is_pod(), end.node.is_node())
    labels = [key for key in end.node.domains if key[0] is Attribute.LABEL]
    none = z3.And(*(z3.Not(end.node.has(key)) for key in labels))
    yield z3.Implies(z3.Not(end.has_host), none)


def in_pod_networks(
    end: ConnectionEnd, is_ipv6: Term, networks: Sequence[Network]
) -> Iterator[Term]:
    """Pods have addresses of these networks, external ends have not. Families not named are free."""
    for family in sorted({network.version for network in networks}):
        address, is_family = end.address(is_ipv6, family)
        inside = z3.Or(*(in_network(address, n) for n in networks if n.version == family))
        yield z3.Implies(z3.And(is_family, end.is_pod), inside)
        yield z3.Implies(z3.And(is_family, end.is_outside), z3.Not(inside))
