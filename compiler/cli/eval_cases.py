# SPDX-License-Identifier: Apache-2.0
"""Every way in which the unknown parts of a flow could turn out, as far as the rules concerned see it.

One end's verdict reads the rules that select it. What nobody has said is an address of either end, the
node that a pod will run on, and the port that a connection comes from; each is replaced by one value of
every region that those rules tell apart (docs/decisions/0005-unknown-addresses.md).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policyc.ir.peers import AddressPeer, NodePeer, Peer, Where, leaves
from policyc.ir.policy import Direction, PolicySet, Rule
from policyc.ir.semantics import as_seen, is_subject
from policyc.ir.services import Protocol
from policyc.ir.universe import Address, End, Endpoint, Flow, Node

_WITH_PORTS = frozenset(protocol.value for protocol in Protocol)
_LAST_PORT = 65535
_SOME_NODE = "<some node>"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that nobody has said: of which end, and what; `end` None: of the flow itself."""

    what: str
    end: Endpoint | None = None


ADDRESS, NODE, SOURCE_PORT = "the address", "the node", "the source port"


def cases_of(
    policies: PolicySet, flow: Flow, direction: Direction
) -> tuple[list[Flow], list[Unknown]]:
    """The flows to ask about for the verdict of one end, and what they differ in."""
    if flow.src == flow.dst:
        return [flow], []
    rules = tuple(_rules_of(policies, flow.src if _is_out(direction) else flow.dst, direction))
    own, other = ("src", "dst") if _is_out(direction) else ("dst", "src")
    peers = [peer for rule in rules for peer in rule.peers]
    cases, unknown = [flow], []
    for split, reasons in (
        (_by_address(other, peers), [Unknown(ADDRESS, _endpoint(flow, other))]),
        (_by_address(own, [rule.own for rule in rules]), [Unknown(ADDRESS, _endpoint(flow, own))]),
        (_by_node(direction, peers), _without_node(flow)),
        (_by_source_port(rules), [Unknown(SOURCE_PORT)]),
    ):
        cases = [one for case in cases for one in split(case)]
        if len(split(flow)) > 1:
            unknown += reasons
    return cases, unknown


def _is_out(direction: Direction) -> bool:
    return direction is Direction.EGRESS


def _rules_of(policies: PolicySet, subject: End, direction: Direction) -> Iterator[Rule]:
    subject = as_seen(subject)
    if not isinstance(subject, Endpoint | Node):
        return
    for tier in policies.tiers:
        for policy in tier.policies:
            if is_subject(policy, subject):
                yield from policy.rules(direction)


def _endpoint(flow: Flow, side: str) -> Endpoint | None:
    end = flow.src if side == "src" else flow.dst
    return end if isinstance(end, Endpoint) else None


Split = Callable[[Flow], list[Flow]]
"""One flow for each way in which one thing could turn out; only the flow itself where it is known."""


def _by_address(side: str, peers: Iterable[Peer]) -> Split:
    """One address of each region that the blocks of `peers` tell apart."""
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


def _by_node(direction: Direction, peers: Iterable[Peer]) -> Split:
    """Pods that are not scheduled yet may land on the other end's node (A22, and Cilium's `host`)."""
    found = (leaf for peer in peers for leaf in leaves(peer))
    is_read = any(isinstance(leaf, NodePeer) and leaf.where is not Where.ANYWHERE for leaf in found)

    def split(flow: Flow) -> list[Flow]:
        if not (is_read or not _is_out(direction)) or not _may_share_node(flow):
            return [flow]
        node = _node_name(flow.src) or _node_name(flow.dst) or _SOME_NODE
        return [flow, replace(flow, src=_on(node, flow.src), dst=_on(node, flow.dst))]

    return split


def _may_share_node(flow: Flow) -> bool:
    """Whether one end is a node, and where the other runs (or it, as a pod) is not known."""
    ends = (flow.src, flow.dst)
    if any(not isinstance(end, Endpoint | Node) for end in ends):
        return False
    if not any(_is_node(end) for end in ends) or all(isinstance(end, Node) for end in ends):
        return False
    return not all(_node_name(end) for end in ends)


def _is_node(end: End) -> bool:
    return isinstance(end, Node) or (isinstance(end, Endpoint) and end.host_network)


def _node_name(end: End) -> str:
    match end:
        case Endpoint():
            return end.node
        case Node():
            return end.name
        case _:
            return ""


def _on(node: str, end: End) -> End:
    return replace(end, node=node) if isinstance(end, Endpoint) else end


def _without_node(flow: Flow) -> list[Unknown]:
    ends = (flow.src, flow.dst)
    return [Unknown(NODE, end) for end in ends if isinstance(end, Endpoint) and not end.node]


def _by_source_port(rules: Iterable[Rule]) -> Split:
    """One source port of each region that the rules tell apart."""
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
