# SPDX-License-Identifier: Apache-2.0
"""A connection that could exist: between any pods, nodes and addresses of any cluster.

The symbolic universe: both ends are free, except that ends in one namespace, service account or node
share its attributes. Two pods may be equal in all attributes and still be two pods.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import z3

from policyc.ir.intents import Intent
from policyc.ir.peers import Network, Peer
from policyc.ir.policy import PolicySet, Ports
from policyc.ir.selectors import Attribute
from policyc.ir.services import Service
from policyc.ir.universe import Address, ContainerPort, End, Endpoint, HostInterface, Node
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.attributes import (
    NODE_KEY,
    Domains,
    agree,
)
from policyc.verifier.symbolic.connection_ends import (
    ConnectionEnd,
    HostRules,
    free_end,
    in_pod_networks,
    is_legal,
)
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.model_ends import (
    UNKNOWN_NODE,
    Reading,
    name_of_node,
    node_of,
    pod_of,
)


class Connection(ConnectionTerms):
    """A connection of the symbolic universe, and the verdicts of policy sets on it.

    `sets` are all the policy sets that will be evaluated, `intents` those whose peers and services will
    be. `pod_networks` contain all pod addresses and no external ones (a family without any: free).
    """

    def __init__(
        self,
        sets: Sequence[PolicySet],
        intents: Iterable[Intent] = (),
        pod_networks: Sequence[Network] = (),
        peers: Iterable[Peer] = (),
        ports: Iterable[Ports] = (),
    ) -> None:
        intents = tuple(intents)
        self.pod_networks = tuple(pod_networks)
        of_intents = [peer for intent in intents for peer in (*intent.src, *intent.dst)]
        asked = [entry for intent in intents for entry in intent.services]
        super().__init__(sets, (*of_intents, *peers), (*asked, *ports))
        self.has_strings = bool(self.src.pod.domains.texts)

    def _end(self, name: str) -> ConnectionEnd:
        return free_end(name, Domains(self.tests))

    def _universe(self) -> Iterator[Term]:
        """The constraints on the ends: legal values, and equal attributes where they share an owner."""
        hosts = HostRules.of(self.sets)
        for end in (self.src, self.dst):
            yield from is_legal(end)
            yield from hosts.asked_of(end)
            yield from in_pod_networks(end, self.is_ipv6, self.pod_networks)
        for (direction, is_host), situation in self._situations.items():
            subject = self._subject(direction)
            is_subject = subject.is_node if is_host else subject.is_pod
            yield z3.Implies(is_subject, z3.And(*situation.shared()))
        same = [agree(self.src.pod, self.dst.pod, attribute) for attribute in Attribute]
        yield z3.Implies(self.is_same_pod, z3.And(*same))
        yield z3.Implies(self.is_same_node, z3.And(*self._one_host()))

    def _one_host(self) -> Iterator[Term]:
        """A node has one host interface."""
        src, dst = self.src, self.dst
        yield agree(src.node, dst.node, Attribute.LABEL)
        yield src.has_host == dst.has_host
        yield src.denies_unmatched == dst.denies_unmatched
        yield src.has_failsafes == dst.has_failsafes

    def _ends_of(self, reading: Reading, family: int, service: Service) -> tuple[End, End]:
        reader = _Reader(self, reading, family, self._ports(reading, service))
        return reader.ends()

    def _ports(self, reading: Reading, service: Service) -> tuple[ContainerPort, ...]:
        """The destination's declarations: the flow's number under each name of the model."""
        return tuple(
            ContainerPort(port.name, port.protocol.name, service.value)
            for port in self.named_ports
            if service.kind is port.protocol.kind and reading.holds(self.declares(port))
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the ends out of a model. `ports` are the destination's declarations."""

    connection: Connection
    reading: Reading
    family: int
    ports: tuple[ContainerPort, ...]

    def ends(self) -> tuple[End, End]:
        """Source and destination; their objects show if they are one pod or share a node."""
        c = self.connection
        src, dst = self._end(c.src), self._end(c.dst)
        if isinstance(dst, Endpoint):
            dst = replace(dst, ports=self.ports)
        if self.reading.holds(c.is_same_pod):
            return dst, dst
        if isinstance(src, Endpoint) and self._holds(c.is_on_src_node):
            src, dst = _on_node(src, dst)
        elif isinstance(dst, Endpoint) and self._holds(c.is_on_dst_node):
            dst, src = _on_node(dst, src)
        elif isinstance(dst, Node) and self._holds(c.is_same_node):
            dst = replace(dst, name=src.name) if isinstance(src, Node) else dst
        if isinstance(src, Node):
            src = replace(src, speaks=self._holds(c.speaks))
        return src, dst

    def _holds(self, term: Term) -> bool:
        return self.reading.holds(term)

    def _end(self, end: ConnectionEnd) -> End:
        address = self.reading.address(end.addresses[self.family], self.family)
        if self._holds(end.is_pod):
            found = self.reading.values(end.pod)
            return pod_of(found, end.name, address, found.get(NODE_KEY, ""))
        return self._node(end, address) if self._holds(end.is_node) else address

    def _node(self, end: ConnectionEnd, address: Address) -> Node:
        found = self.reading.values(end.node)
        node = node_of(found, name_of_node(found, end.node), address)
        if not self._holds(end.has_host):
            return replace(node, host=None, speaks=True)
        labels = node.host.labels if node.host else {}
        host = HostInterface(
            "host", labels, self._holds(end.denies_unmatched), self._holds(end.has_failsafes)
        )
        return replace(node, host=host, speaks=True)


def _on_node(pod: Endpoint, node: End) -> tuple[Endpoint, End]:
    """The pod on this node, which gets the name of the pod's node, if that has one."""
    assert isinstance(node, Node)
    name = pod.node or UNKNOWN_NODE
    node = replace(node, name=name)
    return replace(pod, node=name, its_node=Node(name, node.labels)), node
