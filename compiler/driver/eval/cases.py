# SPDX-License-Identifier: Apache-2.0
"""All cases of a flow's unknown parts, as far as the rules concerned distinguish them.

The verdict at one end depends on the rules that select it. Four things may be unknown: an address of
either end, the node that a pod will run on, the labels of that node, and the source port of the
connection. Each is replaced by one value for every class of values that those rules distinguish
(docs/decisions/0005-unknown-addresses.md).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policyc.compiler.frontend.cilium.hosts import has_host_policy
from policyc.ir.peers import AddressPeer, NodePeer, Peer, Where, leaves
from policyc.ir.policy import NEVER, Condition, Direction, PolicySet, Rule
from policyc.ir.semantics import as_seen, is_subject
from policyc.ir.services import Protocol
from policyc.ir.universe import Address, End, Endpoint, Flow, Node
from policyc.verifier.symbolic.unknown_nodes import (
    Nodes,
    Read,
    conditions_on,
    is_node,
    is_open,
    placed,
    placements,
    reads_nodes,
)

_WITH_PORTS = frozenset(protocol.value for protocol in Protocol)
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown attribute: of which end, and which one; `end` None: of the flow itself."""

    what: str
    end: Endpoint | None = None


ADDRESS, NODE, SOURCE_PORT = "the address", "the node", "the source port"
NODE_LABELS = "the labels of the node"


def cases_of(
    policies: PolicySet, flow: Flow, direction: Direction, known: Sequence[Node] = ()
) -> tuple[list[Flow], list[Unknown]]:
    """The cases of a flow for the verdict of one end, and the unknown attributes in which they differ.

    `known` are the nodes of the cluster; a pod may also run on one that is not among them.
    """
    if flow.src == flow.dst:
        return [flow], []
    subject = flow.src if _is_out(direction) else flow.dst
    nodes = Nodes(known, is_node(subject) and is_open(subject) and has_host_policy(policies))
    conditions = tuple(_conditions_of_subjects(policies, subject))
    rules = tuple(_rules_of(policies, placements(subject, conditions, nodes), direction))
    own, other = ("src", "dst") if _is_out(direction) else ("dst", "src")
    peers = [peer for rule in rules for peer in rule.peers]
    owns = [rule.own for rule in rules]
    cases, unknown = _by_node(flow, _read(flow, direction, conditions, owns, peers), nodes)
    for split, reasons in (
        (_by_address(other, peers), [Unknown(ADDRESS, _endpoint(flow, other))]),
        (_by_address(own, owns), [Unknown(ADDRESS, _endpoint(flow, own))]),
        (_by_source_port(rules), [Unknown(SOURCE_PORT)]),
    ):
        cases = [one for case in cases for one in split(case)]
        if len(split(flow)) > 1:
            unknown += reasons
    return cases, unknown


def _is_out(direction: Direction) -> bool:
    return direction is Direction.EGRESS


def _conditions_of_subjects(policies: PolicySet, subject: End) -> Iterator[Condition]:
    """The conditions that decide whether an end is a policy's subject, as far as its node counts."""
    if not is_open(subject):
        return
    for policy in (policy for tier in policies.tiers for policy in tier.policies):
        if is_node(subject) and policy.hosts != NEVER:
            yield policy.hosts
        elif not is_node(subject) and reads_nodes(policy.subject.condition):
            yield policy.subject.condition


def _rules_of(policies: PolicySet, subjects: list[End], direction: Direction) -> Iterator[Rule]:
    """The rules of the policies that select the subject on one node at least."""
    seen = [end for end in map(as_seen, subjects) if isinstance(end, Endpoint | Node)]
    for tier in policies.tiers:
        for policy in tier.policies:
            if any(is_subject(policy, end) for end in seen):
                yield from policy.rules(direction)


def _read(
    flow: Flow,
    direction: Direction,
    subject: tuple[Condition, ...],
    owns: list[Peer],
    peers: list[Peer],
) -> Read:
    """What the rules read of nodes; by default a pod's own node also reaches it (A22)."""
    found = (leaf for peer in (*owns, *peers) for leaf in leaves(peer))
    relative = any(
        isinstance(leaf, NodePeer) and leaf.where is not Where.ANYWHERE for leaf in found
    )
    if _is_out(direction):
        own = (*subject, *conditions_on(flow.src, owns))
        return Read(own, tuple(conditions_on(flow.dst, peers)), relative)
    own = (*subject, *conditions_on(flow.dst, owns))
    return Read(tuple(conditions_on(flow.src, peers)), own, sharing=True)


def _by_node(flow: Flow, read: Read, nodes: Nodes) -> tuple[list[Flow], list[Unknown]]:
    """The ends on nodes of each sort that the rules distinguish, and on the same node or not."""
    if not any(is_open(end) for end in (flow.src, flow.dst)):
        return [flow], []
    cases, ends = placed(flow, read, nodes)
    return cases, [Unknown(NODE_LABELS if end.node else NODE, end) for end in ends]


def _endpoint(flow: Flow, side: str) -> Endpoint | None:
    end = flow.src if side == "src" else flow.dst
    return end if isinstance(end, Endpoint) else None


Split = Callable[[Flow], list[Flow]]
"""One flow for each possible value of one attribute; only the flow itself if it is known."""


def _by_address(side: str, peers: Iterable[Peer]) -> Split:
    """One address of each region that the blocks of `peers` distinguish."""
    blocks = [leaf for peer in peers for leaf in leaves(peer) if isinstance(leaf, AddressPeer)]

    def split(flow: Flow) -> list[Flow]:
        end = _endpoint(flow, side)
        if end is None or end.addresses_known:
            return [flow]
        found = []
        for start in _region_starts(blocks, flow.family):
            address = _address(start, flow.family)
            known = replace(end, addresses=(address,), addresses_known=True)
            found.append(replace(flow, src=known) if side == "src" else replace(flow, dst=known))
        return found

    return split


def _region_starts(blocks: Iterable[AddressPeer], family: int) -> list[int]:
    starts = {0}
    for block in blocks:
        if block.network.version == family:
            for network in (block.network, *block.excepts):
                starts.add(int(network.network_address))
                starts.add(int(network.broadcast_address) + 1)
    return sorted(start for start in starts if start < 1 << (32 if family == 4 else 128))


def _address(number: int, family: int) -> Address:
    return IPv4Address(number) if family == 4 else IPv6Address(number)


def _by_source_port(rules: Iterable[Rule]) -> Split:
    """One source port of each range that the rules distinguish."""
    read = [rule.source_ports for rule in rules if rule.source_ports is not None]
    starts = {1}
    for ports in read:
        for lo, hi in ports:
            starts |= {lo, hi + 1}

    def split(flow: Flow) -> list[Flow]:
        if not read or flow.source_port is not None or flow.service.number not in _WITH_PORTS:
            return [flow]
        inside = sorted(port for port in starts if 1 <= port <= _LAST_PORT)
        return [replace(flow, source_port=port) for port in inside]

    return split
