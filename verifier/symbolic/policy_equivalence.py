# SPDX-License-Identifier: Apache-2.0
"""Prove that two policy sets mean the same for every flow of every cluster that could exist.

The symbolic universe: pods, nodes and external addresses, with any labels, ports and addresses. Each
direction is one query, and host interfaces are one more if policies select them. A difference comes with
a flow that the reference semantics, evaluated on both sides, confirms. A flow that it does not confirm
is a bug in policyc and is not an answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import z3

from policyc.ir.errors import InternalError
from policyc.ir.policy import NEVER, Action, Direction, PolicySet
from policyc.ir.semantics import EndVerdict, end_verdict, is_from_its_node, own_node_verdict
from policyc.ir.services import Service
from policyc.ir.universe import Address, ContainerPort, End, Endpoint, Flow, HostInterface, Node
from policyc.verifier.symbolic.attributes import (
    NODE_KEY,
    Ends,
)
from policyc.verifier.symbolic.model_ends import (
    UNKNOWN_NODE,
    Reading,
    name_of_node,
    node_of,
    pod_of,
)
from policyc.verifier.symbolic.verdict_terms import (
    ACTIONS,
    UNDECIDED,
    Situation,
    names_of_ports,
)


@dataclass(frozen=True, slots=True)
class Same:
    """Equal on every flow; `queries` is the number of Z3 queries."""

    queries: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A flow on which the two differ at one end, and both verdicts; confirmed by the semantics."""

    flow: Flow
    direction: Direction
    before: EndVerdict
    after: EndVerdict


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The solver could not decide: neither same nor different."""

    reason: str


def compare(before: PolicySet, after: PolicySet, *, ignore_effects: bool = False) -> (
    Same | Difference | GaveUp
):  # fmt: skip
    """Whether two policy sets give every flow the same action and (by default) the same effects."""
    queries = 0
    for situation in _situations(before, after):
        found = _ask(situation, before, after, ignore_effects)
        if found is not None:
            return found
        queries += 1
    return Same(queries)


def _situations(before: PolicySet, after: PolicySet) -> Iterator[Situation]:
    sets = (before, after)
    hosts = any(p.hosts != NEVER for each in sets for t in each.tiers for p in t.policies)
    for direction in Direction:
        yield Situation(sets, direction, False)
        if hosts:
            yield Situation(sets, direction, True)


def _ask(
    situation: Situation, before: PolicySet, after: PolicySet, ignore_effects: bool
) -> Difference | GaveUp | None:
    solver = z3.SimpleSolver() if situation.domains.texts else z3.SolverFor("QF_BV")
    solver.add(situation.is_possible())
    if solver.check() != z3.sat:  # a proof about no flow at all would prove anything
        raise InternalError("no flow satisfies what every flow must")
    one, other = situation.verdict(before), situation.verdict(after)
    differs = [one[0] != other[0]]
    if not ignore_effects:
        differs.append(one[1] != other[1])
    solver.add(z3.Or(*differs))
    result = solver.check()
    if result == z3.unsat:
        return None
    if result == z3.unknown:
        return GaveUp(solver.reason_unknown())
    model = Reading(solver.model())
    actions = {model.number(one[0]), model.number(other[0])}
    denies_unmatched = actions == {
        UNDECIDED,
        ACTIONS.index(Action.ALLOW),
    }  # where an open one hides it
    reader = _Reader(situation, model, denies_unmatched)
    return _confirmed(reader, before, after, ignore_effects)


def _confirmed(
    reader: "_Reader", before: PolicySet, after: PolicySet, ignore_effects: bool
) -> Difference:
    """The model as a flow, evaluated again under both sets."""
    flow, subject, peer = reader.flow()
    direction = reader.situation.direction
    if is_from_its_node(flow.src, flow.dst):
        verdicts = [own_node_verdict(p, subject, peer, flow) for p in (before, after)]
    else:
        verdicts = [end_verdict(p, direction, subject, peer, flow) for p in (before, after)]
    shown = [(v.action, () if ignore_effects else _kinds(v)) for v in verdicts]
    if shown[0] == shown[1]:
        raise InternalError(f"the solver's witness shows no difference: {flow}")
    return Difference(flow, direction, *verdicts)


def _kinds(verdict: EndVerdict) -> tuple[object, ...]:
    """The effects without their rules: what is logged, counted and limited."""
    found = {(e.kind.value, repr(e.by.rule.limit)) for e in verdict.effects}
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a flow out of a model."""

    situation: Situation
    read: Reading
    denies_unmatched: bool

    def flow(self) -> tuple[Flow, End, End]:
        """The flow, its subject and its peer."""
        s = self.situation
        family = 6 if self.read.holds(s.is_ipv6) else 4
        service = Service.from_key(self.read.number(s.key))
        own = self.read.address(s.own[family], family)
        subject: End = self._host(own) if s.is_host else self._pod(s.subject, own, "subject")
        peer = self._other(self.read.address(s.other[family], family), subject)
        if isinstance(subject, Endpoint) and s.direction is Direction.INGRESS:
            subject = replace(subject, ports=self._ports(service))
        elif isinstance(peer, Endpoint) and s.direction is Direction.EGRESS:
            peer = replace(peer, ports=self._ports(service))
        port = self.read.number(s.source_port) if self.read.holds(s.has_source_port) else None
        src, dst = (peer, subject) if s.direction is Direction.INGRESS else (subject, peer)
        return Flow(src, dst, service, family, port), subject, peer

    def _other(self, address: Address, subject: End) -> End:
        s = self.situation
        if self.read.holds(s.is_pod):
            return self._pod(s.pod, address, "other")
        if not self.read.holds(s.is_node):
            return address
        node = self._node(s.node, address)
        if self.read.holds(s.is_local):
            name = subject.node if isinstance(subject, Endpoint) else _name_of(subject)
            speaks = s.binds_own_node and self.read.holds(s.generates)
            return replace(node, name=name, speaks=speaks)
        return node

    def _pod(self, end: Ends, address: Address, name: str) -> Endpoint:
        found = self.read.values(end)
        node = found.get(NODE_KEY, "")
        if not node and self.read.holds(self.situation.is_local) and name == "subject":
            node = UNKNOWN_NODE
        return pod_of(found, name, address, node)

    def _node(self, end: Ends, address: Address) -> Node:
        found = self.read.values(end)
        return node_of(found, name_of_node(found, end), address)

    def _host(self, address: Address) -> Node:
        node = self._node(self.situation.subject, address)
        labels = node.host.labels if node.host else {}
        host = HostInterface("host", labels, denies_unmatched=self.denies_unmatched)
        return Node(node.name, node.labels, node.addresses, host)

    def _ports(self, service: Service) -> tuple[ContainerPort, ...]:
        """The destination's declarations: the flow's number under each name of the model."""
        names = names_of_ports(self.situation.sets)
        return tuple(
            ContainerPort(port.name, port.protocol.name, service.value)
            for port in names
            if self.read.holds(self.situation.declares(port)) and service.kind is port.protocol.kind
        )


def _name_of(subject: End) -> str:
    return subject.name if isinstance(subject, Node) else ""
