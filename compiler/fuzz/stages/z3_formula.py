# SPDX-License-Identifier: Apache-2.0
"""The formula of the policies that the proofs use, evaluated on one connection at a time.

Z3 gets the connection as facts, finds the action at each end, and must find that no other action is
possible.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

import z3

from policyc.compiler.fuzz.stages.answers import Answer
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.errors import InternalError
from policyc.ir.policy import Direction
from policyc.ir.semantics import as_seen
from policyc.ir.universe import Endpoint, Flow, Node, end_address
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.connection_ends import ConnectionEnd
from policyc.verifier.symbolic.unknown_nodes import is_open
from policyc.verifier.symbolic.verdict_terms import ACTIONS


class Z3Stage:
    """Knows actions, and no rules."""

    name = "z3"

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """The action at both ends of every flow that this cluster can have."""
        asked = _Asked(scenario)
        return [
            answer
            for flow in scenario.flows
            for answer in (asked.both(flow) if _is_asked(flow) else (None, None))
        ]


def _is_asked(flow: Flow) -> bool:
    """Both ends are fully known, and different: a node's traffic to its own address never leaves it.

    A pod without a node is on some node in the formula, and on none in the reference.
    """
    if is_open(flow.src) or is_open(flow.dst):
        return False
    addresses = [end_address(as_seen(end), flow.family) for end in (flow.src, flow.dst)]
    is_pod = isinstance(as_seen(flow.src), Endpoint)
    return None not in addresses and (is_pod or addresses[0] != addresses[1])


class _Asked:
    """One solver for a scenario; each flow is an additional constraint."""

    def __init__(self, scenario: Scenario) -> None:
        self.policies = scenario.policies
        self.connection = ClusterConnection([scenario.policies], scenario.universe)
        self.solver = z3.SolverFor("QF_BV")
        self.solver.add(self.connection.is_possible())

    def both(self, flow: Flow) -> tuple[Answer, Answer]:
        """Egress and ingress."""
        connection, solver = self.connection, self.solver
        terms = [connection.end(self.policies, d)[0] for d in (Direction.EGRESS, Direction.INGRESS)]
        solver.push()
        solver.add(*self._facts(flow))
        if solver.check() != z3.sat:
            raise InternalError(f"the formula of the cluster has no connection {flow}")
        model = solver.model()
        values = [model.eval(term, model_completion=True) for term in terms]
        solver.add(z3.Or(*(t != v for t, v in zip(terms, values, strict=True))))
        is_one = solver.check() == z3.unsat
        solver.pop()
        if not is_one:
            raise InternalError(f"the formula of the policies says two things of {flow}")
        egress, ingress = (Answer(ACTIONS[value.as_long()], None) for value in values)
        return egress, ingress

    def _facts(self, flow: Flow) -> list[Term]:
        connection = self.connection
        speaks = isinstance(flow.src, Node) and flow.src.speaks
        speaks |= isinstance(flow.src, Endpoint) and flow.src.host_network
        return [
            connection.is_ipv6 == (flow.family == 6),
            connection.key == flow.service.key,
            connection.speaks == speaks,
            connection.is_same_pod == (_is_pod(flow.src) and flow.src == flow.dst),
            *_end_facts(connection.src, flow, flow.src),
            *_end_facts(connection.dst, flow, flow.dst),
        ]


def _is_pod(end: object) -> bool:
    return isinstance(end, Endpoint) and not end.host_network


def _end_facts(
    end: ConnectionEnd, flow: Flow, given: Endpoint | Node | IPv4Address | IPv6Address
) -> list[Term]:
    address = end_address(as_seen(given), flow.family)
    if address is None:
        raise InternalError(f"an end of {flow} has no address")
    return [
        end.is_pod == _is_pod(given),
        end.is_node == isinstance(as_seen(given), Node),
        end.addresses[flow.family] == int(address),
    ]
