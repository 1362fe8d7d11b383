# SPDX-License-Identifier: Apache-2.0
"""Choices that Kubernetes leaves to the implementation, as an explanation used them.

docs/semantics.md lists them.
"""

from collections.abc import Iterator

from policyc.ir.matching import peer_matches, service_matches
from policyc.ir.peers import AddressPeer, leaves
from policyc.ir.policy import Direction, NamedPort, PolicySet, Rule
from policyc.ir.results.explain import Choice, EndWalk
from policyc.ir.semantics import (
    FROM_ITS_NODE,
    NEIGHBOURS,
    DeniedByDefault,
    as_seen,
    is_subject,
)
from policyc.ir.services import Kind
from policyc.ir.universe import Endpoint, Flow, Node

_NAMED_KINDS = (Kind.TCP, Kind.UDP, Kind.SCTP)


def choices_of(walk: EndWalk, policies: PolicySet, flow: Flow) -> tuple[Choice, ...]:
    """The choices that one end's verdict used, each once."""
    found = [*_host_network(walk, flow), *_always(walk, flow), *_other_protocol(walk, flow)]
    found += _named_port(walk, policies, flow)
    return tuple(dict.fromkeys(found))


def _host_network(walk: EndWalk, flow: Flow) -> Iterator[Choice]:
    """Always for the subject, for the peer if a rule was evaluated on it."""
    own, other = _ends(walk.direction, flow)
    asked = any(policy.rules for tier in walk.tiers for policy in tier.policies)
    for end, is_used in ((own, walk.verdict != NEIGHBOURS), (other, asked)):
        if is_used and isinstance(end, Endpoint) and end.host_network:
            words = (
                f"{end.qualified_name} uses the host's network, so it counts as its node: no policy "
                f"selects it, and peers match it only by the node's address"
            )
            yield Choice("A21", words)


def _ends(direction: Direction, flow: Flow) -> tuple[object, object]:
    return (flow.src, flow.dst) if direction is Direction.EGRESS else (flow.dst, flow.src)


def _always(walk: EndWalk, flow: Flow) -> Iterator[Choice]:
    if walk.verdict == NEIGHBOURS:
        yield Choice("A26", "IPv6 neighbour discovery passes on the link")
    elif walk.verdict == FROM_ITS_NODE and isinstance(flow.src, Endpoint):
        words = (
            f"{flow.src.qualified_name} uses the host's network and cannot be distinguished from"
        )
        yield Choice("A22", f"{words} the kubelet")


def _other_protocol(walk: EndWalk, flow: Flow) -> Iterator[Choice]:
    decider = walk.verdict.decider
    if isinstance(decider, DeniedByDefault) and flow.service.kind not in _NAMED_KINDS:
        words = "an isolated pod drops every protocol that no rule allows, ICMP included"
        yield Choice("A26", words)


def _named_port(walk: EndWalk, policies: PolicySet, flow: Flow) -> Iterator[Choice]:
    """A name on egress to an address block: resolved where a pod holds the address (A19)."""
    if walk.direction is not Direction.EGRESS or not walk.tiers:
        return
    subject = as_seen(flow.src)
    if not isinstance(subject, Endpoint | Node):
        return
    asked = {tier.name for tier in walk.tiers if tier.policies}
    for tier in policies.tiers:
        for policy in tier.policies:
            if tier.name in asked and is_subject(policy, subject):
                for rule in policy.egress:
                    if _reads_name_of_block(rule, subject, flow):
                        yield Choice("A19", _NAMED_PORT)


_NAMED_PORT = (
    "on egress to an ipBlock, the pod with the address defines the port name; an address without a "
    "pod has no port names"
)


def _reads_name_of_block(rule: Rule, subject: Endpoint | Node, flow: Flow) -> bool:
    """Whether a block matches the rule's peer, and a port name decides about its ports."""
    destination = as_seen(flow.dst)
    by_block = any(
        isinstance(leaf, AddressPeer) and peer_matches(peer, destination, flow.family, subject)
        for peer in rule.peers
        for leaf in leaves(peer)
    )
    names = [port for port in rule.ports if isinstance(port, NamedPort)]
    others = [port for port in rule.ports if not isinstance(port, NamedPort)]
    return (
        by_block
        and any(name.protocol.value == flow.service.number for name in names)
        and not any(service_matches(port, destination, flow.service) for port in others)
    )
