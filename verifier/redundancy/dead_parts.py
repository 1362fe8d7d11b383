# SPDX-License-Identifier: Apache-2.0
"""The part of a rule that no flow can match, where that is easy to see; in words, for findings."""

from collections.abc import Iterator

import z3

from policyc.ir.describe import describe_peer
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, EndpointPeer, Peer
from policyc.ir.policy import NEVER, NamedPort, Policy, Rule
from policyc.ir.selectors import EndpointSelector
from policyc.verifier.cluster.rows import services_of
from policyc.verifier.symbolic.attributes import (
    Domains,
    Ends,
    tests_of,
)

_LIMIT_MS = 2000


def dead_parts(policy: Policy, rule: Rule) -> Iterator[str]:
    """The parts that no flow matches; none if only the rule as a whole is impossible."""
    if policy.hosts == NEVER and is_impossible(policy.subject):
        yield "the policy's selector contradicts itself"
    if not rule.peers:
        yield "it has no peers"
    for peer in rule.peers:
        if _is_nobody(peer):
            yield f"no peer can match {describe_peer(peer)}"
    names = any(isinstance(port, NamedPort) for port in rule.ports)
    if not names and not services_of(rule, lambda _: ()):
        what = "its excepted ports leave nothing of its ports" if rule.ports else "it has no ports"
        yield what


def is_impossible(selector: EndpointSelector) -> bool:
    """No pod that could exist is selected; False if a solver gives up."""
    end = Ends("pod", Domains(tests_of(selector)))
    solver = z3.SimpleSolver()
    solver.set("timeout", _LIMIT_MS)
    solver.add(end.is_legal(), end.is_pod(), end.selected(selector))
    return bool(solver.check() == z3.unsat)


def _is_nobody(peer: Peer) -> bool:
    match peer:
        case EndpointPeer(selector):
            return is_impossible(selector)
        case AddressPeer(network, excepts):
            whole = IntervalSet.of([(int(network[0]), int(network[-1]))])
            holes = IntervalSet.of((int(hole[0]), int(hole[-1])) for hole in excepts)
            return not whole - holes
        case _:
            return False
