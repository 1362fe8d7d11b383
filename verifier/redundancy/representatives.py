# SPDX-License-Identifier: Apache-2.0
"""Representatives: pods and nodes that could exist, one for each attribute value that policies name.

Rules are tried on them. A rule that matters among them is needed, because each of them, and each pair,
could be in some cluster. A rule that seems useless among them is only a candidate, which a solver must
decide. Namespaces have one set of labels each, no two ends share an address, and ports that rules name
have numbers that no rule uses.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import combinations, pairwise

import z3

from policyc.ir.passes.cancel import may_overlap
from policyc.ir.peers import AddressPeer, EndpointPeer, Network, NodePeer, leaves
from policyc.ir.policy import Direction, NamedPort, PolicySet, PortRange
from policyc.ir.selectors import (
    ALWAYS,
    AllOf,
    Condition,
    EndpointSelector,
    LabelSelector,
    Operator,
    Requirement,
)
from policyc.ir.universe import FAMILIES, Address, ContainerPort, Endpoint, Node, Subject
from policyc.verifier.cluster.reads import Reads, policies_of
from policyc.verifier.cluster.sites import Site
from policyc.verifier.cluster.space import Space
from policyc.verifier.redundancy.dns import (
    LABEL,
    NAMESPACE,
    VALUE,
)
from policyc.verifier.symbolic.attributes import (
    NAMESPACE_NAME_LABEL,
    NODE_KEY,
    Domains,
    Ends,
    tests_in,
    tests_of,
)
from policyc.verifier.symbolic.model_ends import (
    Reading,
    node_of,
    pod_of,
)

_MOST_PAIRED = 40
"""Up to so many selectors, each pair of them gets a pod of both; beyond, Z3 has more to decide."""
_MOST_SOLVED = 3000
"""The number of selectors with conditions that get an example; the others' rules are left to Z3."""
_WIDE = 5000
"""A range of at least so many ports does not reserve its first and last port from named ports."""
_BY_TEXT = (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS)
_NOWHERE = IPv4Address(0)
OUTSIDE = "some-namespace"
"""The prefix of names of namespaces that no policy names."""


def representative_space(policies: PolicySet, networks: tuple[Network, ...] = ()) -> Space:
    """The space of the representatives; `networks` are the pods' networks."""
    reads = Reads.of((policies,))
    for network in networks:  # a border of its own: no external end has an address inside
        reads.blocks.setdefault(AddressPeer(network))
    making = _Making(policies, reads, networks)
    return Space([Site(end, end) for end in making.all()], reads)


def impossible_columns(space: Space, networks: tuple[Network, ...]) -> int:
    """The columns of external addresses that lie inside the pods' networks."""
    found = 0
    for at, column in enumerate(space.columns):
        if column.owner < 0 and column.example is not None:
            inside = (n for n in networks if n.version == column.family)
            if any(column.example in network for network in inside):
                found |= 1 << at
    return found


@dataclass
class _Making:
    policies: PolicySet
    reads: Reads
    networks: tuple[Network, ...]
    _namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _fresh: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    _accounts: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    _made: dict[object, Endpoint] = field(default_factory=dict)

    def all(self) -> list[Subject]:
        """Pods and nodes, each with addresses of its own."""
        selectors = list(dict.fromkeys(_selectors_of(self.policies)))
        for selector in selectors:
            if selector.namespace is not None:
                self._keep(_pod(selector.namespace, {}, self._labels_of(selector.namespace)))
        self._keep(self._outside((), {}))
        self._keep(_pod(NAMESPACE, {LABEL: VALUE}, self._labels_of(NAMESPACE)))
        solved = 0
        for selector in selectors:
            solved += _needs_solver(selector)
            if not _needs_solver(selector) or solved <= _MOST_SOLVED:
                self._keep(self._selected(selector))
        if len(selectors) <= _MOST_PAIRED:
            for one, other in combinations(selectors, 2):
                if may_overlap(one, other):
                    self._keep(self._selected(_both(one, other)))
        nodes = [_node(condition) for condition in dict.fromkeys(_node_conditions(self.policies))]
        return list(self._placed([*self._made.values(), *(n for n in nodes if n is not None)]))

    def _keep(self, pod: Endpoint | None) -> None:
        if pod is None:
            return
        key = (
            pod.namespace,
            tuple(sorted(pod.labels.items())),
            pod.service_account,
            tuple(sorted(pod.service_account_labels.items())),
            pod.node,
            tuple(sorted(pod.its_node.labels.items())) if pod.its_node else (),
        )
        self._made.setdefault(key, pod)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        return self._namespaces.setdefault(namespace, {NAMESPACE_NAME_LABEL: namespace})

    def _outside(self, wanted: tuple[tuple[str, str], ...], labels: Mapping[str, str]) -> Endpoint:
        """A pod in a namespace that no policy names, with exactly these namespace labels."""
        taken = self._namespaces
        if wanted not in self._fresh:
            count = len(self._fresh)
            name = next(n for n in _names(count) if n not in taken)
            self._fresh[wanted] = name
            self._namespaces[name] = {NAMESPACE_NAME_LABEL: name, **dict(wanted)}
        name = self._fresh[wanted]
        return _pod(name, labels, self._namespaces[name])

    def _selected(self, selector: EndpointSelector) -> Endpoint | None:
        """A pod that a selector selects, with few other attributes; None: not found here."""
        if _needs_solver(selector):
            return self._solved(selector)
        labels = meeting(selector.labels)
        wanted = meeting(selector.namespace_labels)
        if labels is None or wanted is None:
            return None
        name = selector.namespace or wanted.pop(NAMESPACE_NAME_LABEL, None)
        if name is None:
            return self._outside(tuple(sorted(wanted.items())), labels)
        return self._inside(name, wanted, labels)

    def _inside(
        self, name: str, wanted: Mapping[str, str], labels: Mapping[str, str]
    ) -> Endpoint | None:
        """A pod of a namespace by name, if the namespace has, or may still get, the labels."""
        if wanted and name not in self._namespaces:
            self._namespaces[name] = {**wanted, NAMESPACE_NAME_LABEL: name}
        has = self._labels_of(name)
        if any(has.get(key) != value for key, value in wanted.items()):
            return None
        return _pod(name, labels, has)

    def _solved(self, selector: EndpointSelector) -> Endpoint | None:
        """A pod for a selector that only a solver can satisfy."""
        end = Ends("pod", Domains(tests_of(selector)))
        reading = _model(z3.And(end.is_legal(), end.is_pod(), end.selected(selector)))
        if reading is None:
            return None
        found = reading.values(end)
        if (
            NODE_KEY in found
        ):  # others would have to share what else is on that node, and its labels
            return None
        pod = pod_of(found, "pod", _NOWHERE, "")
        if pod.its_node is not None:
            pod = replace(pod, node=f"node-of-pod-{len(self._made)}")
        known = self._namespaces.setdefault(pod.namespace, pod.namespace_labels)
        account = (pod.namespace, pod.service_account)
        of_account = self._accounts.setdefault(account, pod.service_account_labels)
        is_one = known == pod.namespace_labels and of_account == pod.service_account_labels
        return pod if is_one else None

    # Addresses and ports.

    def _placed(self, ends: list[Subject]) -> Iterator[Subject]:
        ports = tuple(sorted(self._ports()))
        free = [self._free(family) for family in FAMILIES]
        for number, end in enumerate(ends):
            addresses = tuple(a for a in (next(each, None) for each in free) if a is not None)
            if not addresses:
                return
            if isinstance(end, Node):
                yield Node(f"{end.name or 'node'}-{number}", end.labels, addresses, speaks=False)
                continue
            yield Endpoint(
                end.namespace,
                f"pod-{number}",
                end.labels,
                end.namespace_labels,
                ports,
                addresses,
                end.service_account,
                end.service_account_labels,
                end.node,
                end.its_node,
            )

    def _free(self, family: int) -> Iterator[Address]:
        """Addresses of the largest range that no block divides, in the pods' networks."""
        last = (1 << (32 if family == 4 else 128)) - 1
        borders = {0, last + 1}
        for block in self.reads.blocks:
            for network in (block.network, *block.excepts):
                if network.version == family:
                    borders |= {_first(network), _first(network) + network.num_addresses}
        mine = [n for n in self.networks if n.version == family]
        borders |= {b for n in mine for b in (_first(n), _first(n) + n.num_addresses)}
        ordered = sorted(borders)
        runs = [
            (lo, hi)
            for lo, hi in pairwise(ordered)
            if not mine or any(_first(n) <= lo < _first(n) + n.num_addresses for n in mine)
        ]
        lo, hi = max(runs, key=lambda run: run[1] - run[0])
        start = lo + 10 if hi - lo > 1000 else lo
        make = IPv4Address if family == 4 else IPv6Address
        return (make(number) for number in range(start, hi))

    def _ports(self) -> Iterator[ContainerPort]:
        """A number for each name, which no rule uses as a number."""
        entries = (
            entry
            for policy in policies_of((self.policies,))
            for direction in Direction
            for rule in policy.rules(direction)
            for entry in (*rule.ports, *rule.except_ports)
            if isinstance(entry, PortRange) and entry.hi - entry.lo < _WIDE
        )
        taken = {number for entry in entries for number in (entry.lo, entry.hi)}
        inside = {number for number in range(40000, 65000) if number not in taken}
        numbers = iter(sorted(inside))
        ports: Iterable[NamedPort] = self.reads.names
        for port, number in zip(ports, numbers, strict=False):
            yield ContainerPort(port.name, port.protocol.name, number)


def meeting(selector: LabelSelector) -> dict[str, str] | None:
    """The fewest labels that satisfy a selector; None if none do."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in selector.requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    found: dict[str, str] = {}
    for key, requirements in by_key.items():
        value = _value_for(requirements)
        if value is None:
            return None
        if value:
            found[key] = value[0]
    return found


def _value_for(requirements: list[Requirement]) -> list[str] | None:
    """[value], or [] if the key may be absent; None: no value satisfies all of them."""
    operators = {requirement.operator for requirement in requirements}
    if operators <= {Operator.NOT_IN, Operator.DOES_NOT_EXIST}:
        return []
    if Operator.DOES_NOT_EXIST in operators:
        return None
    excluded = {v for r in requirements if r.operator is Operator.NOT_IN for v in r.values}
    among = [set(r.values) for r in requirements if r.operator is Operator.IN]
    if among:
        left = sorted(set.intersection(*among) - excluded)
        return left[:1] or None
    return [next(f"other-{n}" for n in range(len(excluded) + 1) if f"other-{n}" not in excluded)]


def _needs_solver(selector: EndpointSelector) -> bool:
    """It requires more than labels with some values, or without."""
    requirements = (*selector.labels.requirements, *selector.namespace_labels.requirements)
    return selector.condition != ALWAYS or any(r.operator in _BY_TEXT for r in requirements)


def _pod(namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str]) -> Endpoint:
    return Endpoint(namespace, "pod", labels, of_namespace)


def _names(count: int) -> Iterator[str]:
    yield f"{OUTSIDE}-{count}"
    yield from (f"{OUTSIDE}-{count}-{more}" for more in range(1 << 20))


def _both(one: EndpointSelector, other: EndpointSelector) -> EndpointSelector:
    """The conjunction of both selectors."""
    of_namespace = (one.namespace_labels, other.namespace_labels)
    conditions: tuple[Condition, ...] = tuple(
        c for c in (one.condition, other.condition) if c != ALWAYS
    )
    return EndpointSelector(
        one.namespace if one.namespace is not None else other.namespace,
        LabelSelector(tuple(r for each in of_namespace for r in each.requirements)),
        LabelSelector((*one.labels.requirements, *other.labels.requirements)),
        AllOf(conditions) if conditions else ALWAYS,
    )


def _node(condition: Condition) -> Node | None:
    end = Ends("node", Domains(tests_in(condition)))
    reading = _model(z3.And(end.is_legal(), end.is_node(), end.condition(condition)))
    return None if reading is None else node_of(reading.values(end), "", _NOWHERE)


def _model(goal: object) -> Reading | None:
    solver = z3.SimpleSolver()
    solver.set("timeout", 1000)
    solver.add(goal)
    return Reading(solver.model()) if solver.check() == z3.sat else None


def _selectors_of(policies: PolicySet) -> Iterator[EndpointSelector]:
    for policy in policies_of((policies,)):
        yield policy.subject
        for direction in Direction:
            for rule in policy.rules(direction):
                for leaf in (leaf for p in (rule.own, *rule.peers) for leaf in leaves(p)):
                    if isinstance(leaf, EndpointPeer):
                        yield leaf.selector


def _node_conditions(policies: PolicySet) -> Iterator[Condition]:
    for policy in policies_of((policies,)):
        for direction in Direction:
            for rule in policy.rules(direction):
                for leaf in (leaf for peer in rule.peers for leaf in leaves(peer)):
                    if isinstance(leaf, NodePeer):
                        yield leaf.condition


def _first(network: Network) -> int:
    return int(network.network_address)
