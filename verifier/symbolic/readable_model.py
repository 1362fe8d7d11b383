# SPDX-License-Identifier: Apache-2.0
"""A readable model: among all models that show the same, one without irrelevant detail.

Wishes are tried one after the other, and kept if they can be met. They never change an answer, only the
witness that shows it.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from time import monotonic

import z3

from policyc.ir.peers import Network
from policyc.ir.selectors import Attribute
from policyc.ir.services import Kind
from policyc.verifier.smt.terms import (
    Term,
    in_network,
    port_of,
)
from policyc.verifier.symbolic.attributes import NAMESPACE_KEY
from policyc.verifier.symbolic.connection_ends import ConnectionEnd
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.known_ends import KnownEnds

BUDGET_SECONDS = 2.0
"""The time limit of wishes for one witness."""
_WISH_MS = 1500
_PODS, _NODES = ip_network("10.0.0.0/8"), ip_network("192.168.0.0/16")
_OUTSIDE = ip_network("203.0.113.0/24")
_PODS_6, _NODES_6 = ip_network("fd00::/16"), ip_network("fd01::/16")
_OUTSIDE_6 = ip_network("2001:db8::/32")
_FIRST_EPHEMERAL = 49152
_PORTS = (80, 443, 8080)


def pleasant_model(connection: ConnectionTerms, terms: Sequence[Term], model: Term) -> Term:
    """A model of the terms that meets more wishes than the given one, or the given one."""
    solver = z3.Solver() if connection.has_strings else z3.SolverFor("QF_BV")
    solver.set("timeout", _WISH_MS)
    solver.add(*terms)
    until = monotonic() + BUDGET_SECONDS
    for wish in wishes(connection):
        if monotonic() > until:
            break
        if z3.is_true(model.eval(wish, model_completion=True)):
            solver.add(wish)
            continue
        solver.push()
        solver.add(wish)
        if solver.check() == z3.sat:
            model = solver.model()
        else:
            solver.pop()
    return model


def wishes(connection: ConnectionTerms) -> Iterator[Term]:
    """The wishes, the most important first."""
    c = connection
    yield z3.Not(c.is_same_pod)
    yield from (c.src.is_pod, c.dst.is_pod, z3.Not(c.is_ipv6))
    yield z3.Extract(18, 16, c.key) == int(Kind.TCP)
    kind, port = z3.Extract(18, 16, c.key), port_of(c.key)
    has_ports = z3.ULE(kind, int(Kind.SCTP))
    yield z3.Implies(has_ports, z3.And(z3.UGE(port, 1), z3.ULE(port, 9999)))
    is_icmp = z3.Or(kind == int(Kind.ICMP), kind == int(Kind.ICMPV6))
    yield z3.Implies(is_icmp, z3.Extract(7, 0, c.key) == 0)  # most types have no other code
    yield from (z3.Implies(has_ports, port == usual) for usual in _PORTS)
    yield c.source_port == _FIRST_EPHEMERAL
    yield z3.UGE(c.source_port, _FIRST_EPHEMERAL)
    yield from c.wishes()
    yield from _usual_addresses(c, c.src, 1)
    yield from _usual_addresses(c, c.dst, 2)
    for end in (c.src, c.dst):
        yield z3.Not(end.has_host)
        yield from _few_labels(end)
    yield from (z3.Not(c.declares(port)) for port in c.named_ports)


def _usual_addresses(c: ConnectionTerms, end: ConnectionEnd, number: int) -> Iterator[Term]:
    """The usual network's address of this number; else any of that network."""
    four, six = end.addresses[4], end.addresses[6]
    for is_kind, usual, usual_6 in (
        (end.is_pod, _PODS, _PODS_6),
        (end.is_node, _NODES, _NODES_6),
        (end.is_outside, _OUTSIDE, _OUTSIDE_6),
    ):
        at = z3.If(c.is_ipv6, six == _first(usual_6) + number, four == _first(usual) + number)
        yield z3.Implies(is_kind, at)
        near = z3.If(c.is_ipv6, in_network(six, usual_6), in_network(four, usual))
        yield z3.Implies(is_kind, near)


def _first(network: Network) -> int:
    return int(network.network_address)


def _few_labels(end: ConnectionEnd) -> Iterator[Term]:
    """A namespace that some policy names, and no label that no policy reads."""
    for ends in (end.pod, end.node):
        if isinstance(ends, KnownEnds):
            continue
        for key in ends.domains:
            if key == NAMESPACE_KEY and key not in ends.domains.texts:
                yield ends.value(key) != ends.domains[key].other
            elif key[0] not in (Attribute.NAMESPACE, Attribute.SERVICE_ACCOUNT):
                yield z3.Not(ends.has(key))
