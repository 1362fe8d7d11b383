# SPDX-License-Identifier: Apache-2.0
"""Prove that two policy sets mean the same for every flow of every cluster that could exist.

The symbolic universe: pods, nodes and addresses outside, with any labels, ports and addresses. Each
direction is one query, and one more for host interfaces where policies guard them. A difference comes
with a flow that the reference semantics, asked on both sides, confirms; what it does not confirm is our
mistake and no answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

import z3

from policyc.ir.errors import InternalError
from policyc.ir.policy import NEVER, Direction, NamedPort, PolicySet
from policyc.ir.selectors import Attribute
from policyc.ir.semantics import EndVerdict, end_verdict
from policyc.ir.services import Service
from policyc.ir.universe import Address, ContainerPort, End, Endpoint, Flow, HostInterface, Node
from policyc.verifier.attributes import (
    NAMESPACE_KEY,
    NAMESPACE_NAME_LABEL,
    NODE_KEY,
    Ends,
    Key,
    text_of,
)
from policyc.verifier.terms import Term
from policyc.verifier.verdict_terms import Situation

UNKNOWN_NAMESPACE, UNKNOWN_NODE, UNKNOWN_ACCOUNT = "some-namespace", "some-node", "some-account"


@dataclass(frozen=True, slots=True)
class Same:
    """Equal on every flow; `queries` is how many Z3 was asked."""

    queries: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A flow on which the two differ at one end, and what each says; confirmed by the semantics."""

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
    """Whether two policy sets give every flow the same action and, unless told otherwise, effects."""
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
    return _confirmed(situation, solver.model(), before, after, ignore_effects)


def _confirmed(
    situation: Situation, model: Term, before: PolicySet, after: PolicySet, ignore_effects: bool
) -> Difference:
    """The model as a flow, on which both sets were asked again."""
    flow, subject, peer = _Reader(situation, model).flow()
    verdicts = [end_verdict(p, situation.direction, subject, peer, flow) for p in (before, after)]
    shown = [(v.action, () if ignore_effects else _kinds(v)) for v in verdicts]
    if shown[0] == shown[1]:
        raise InternalError(f"the solver's witness shows no difference: {flow}")
    return Difference(flow, situation.direction, *verdicts)


def _kinds(verdict: EndVerdict) -> tuple[object, ...]:
    """The effects without who asks for them: what is logged, counted and limited to what."""
    found = {(e.kind.value, repr(e.by.rule.limit)) for e in verdict.effects}
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a flow out of a model."""

    situation: Situation
    model: Term

    def flow(self) -> tuple[Flow, End, End]:
        """The flow, its subject and the other side."""
        s = self.situation
        family = 6 if self._holds(s.is_ipv6) else 4
        service = Service.from_key(self._number(s.key))
        own = self._address(s.own[family], family)
        subject: End = self._host(own) if s.is_host else self._pod(s.subject, own, "subject")
        peer = self._other(self._address(s.other[family], family), subject)
        if isinstance(subject, Endpoint) and s.direction is Direction.INGRESS:
            subject = replace(subject, ports=self._ports(service))
        elif isinstance(peer, Endpoint) and s.direction is Direction.EGRESS:
            peer = replace(peer, ports=self._ports(service))
        port = self._number(s.source_port) if self._holds(s.has_source_port) else None
        src, dst = (peer, subject) if s.direction is Direction.INGRESS else (subject, peer)
        return Flow(src, dst, service, family, port), subject, peer

    def _other(self, address: Address, subject: End) -> End:
        s = self.situation
        if self._holds(s.is_pod):
            return self._pod(s.pod, address, "other")
        if not self._holds(s.is_node):
            return address
        node = self._node(s.node, address)
        if self._holds(s.is_local):
            name = subject.node if isinstance(subject, Endpoint) else _name_of(subject)
            return replace(node, name=name)
        return node

    def _pod(self, end: Ends, address: Address, name: str) -> Endpoint:
        found = self._values(end)
        namespace = found.get(NAMESPACE_KEY, f"{UNKNOWN_NAMESPACE}-{name}")
        node = found.get(NODE_KEY, "")
        if not node and self._holds(self.situation.is_local) and name == "subject":
            node = UNKNOWN_NODE
        labels = self._labels(found, Attribute.NODE_LABEL)
        namespaced = self._labels(found, Attribute.NAMESPACE_LABEL)
        return Endpoint(
            namespace,
            name,
            self._labels(found, Attribute.LABEL),
            {**namespaced, NAMESPACE_NAME_LABEL: namespace},
            addresses=(address,),
            service_account=found.get((Attribute.SERVICE_ACCOUNT, ""), UNKNOWN_ACCOUNT),
            service_account_labels=self._labels(found, Attribute.SERVICE_ACCOUNT_LABEL),
            node=node,
            its_node=Node(node, labels) if node or labels else None,
        )

    def _node(self, end: Ends, address: Address) -> Node:
        found = self._values(end)
        labels = self._labels(found, Attribute.LABEL)
        host = HostInterface("host", labels) if labels else None
        unknown = "" if NODE_KEY in end.domains else f"{UNKNOWN_NODE}-{end.name.replace(' ', '-')}"
        name = found.get(NODE_KEY, unknown)
        return Node(name, self._labels(found, Attribute.NODE_LABEL), (address,), host, speaks=False)

    def _host(self, address: Address) -> Node:
        node = self._node(self.situation.subject, address)
        labels = node.host.labels if node.host else {}
        return Node(node.name, node.labels, node.addresses, HostInterface("host", labels))

    def _values(self, end: Ends) -> dict[Key, str]:
        """The value of every key that is there; what no policy names gets a name nobody has."""
        found = {}
        for key in end.domains:
            if not self._holds(end.has(key)):
                continue
            value = self.model.eval(end.value(key), model_completion=True)
            if key in end.domains.texts:
                found[key] = text_of(value)
                continue
            domain, number = end.domains[key], value.as_long()
            fresh = f"{domain.fresh()}-{end.name.replace(' ', '-')}"
            found[key] = fresh if number == domain.other else domain.values[number - 1]
        return found

    def _labels(self, found: dict[Key, str], attribute: Attribute) -> dict[str, str]:
        return {key: value for (of, key), value in found.items() if of is attribute}

    def _ports(self, service: Service) -> tuple[ContainerPort, ...]:
        """What the destination declares: the flow's number under each name that the model says."""
        names = set()
        for policies in self.situation.sets:
            for tier in policies.tiers:
                for policy in tier.policies:
                    for rule in policy.rules(self.situation.direction):
                        names |= {p for p in (*rule.ports, *rule.except_ports)
                                  if isinstance(p, NamedPort)}  # fmt: skip
        return tuple(
            ContainerPort(port.name, port.protocol.name, service.value)
            for port in sorted(names, key=lambda p: (p.name, p.protocol.value))
            if self._holds(self.situation.declares(port)) and service.kind is port.protocol.kind
        )

    def _address(self, term: Term, family: int) -> Address:
        number = self._number(term)
        return IPv4Address(number) if family == 4 else IPv6Address(number)

    def _number(self, term: Term) -> int:
        return int(self.model.eval(term, model_completion=True).as_long())

    def _holds(self, term: Term) -> bool:
        return bool(z3.is_true(self.model.eval(term, model_completion=True)))


def _name_of(subject: End) -> str:
    return subject.name if isinstance(subject, Node) else ""
