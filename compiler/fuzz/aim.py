# SPDX-License-Identifier: Apache-2.0
"""Flows aimed at one rule: one of its subjects, and a peer and a service at the borders of its ranges.

Most flows between random ends meet defaults only. Flows at the first and last value of a rule's ranges
distinguish its matches.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from policyc.ir.matching import selects
from policyc.ir.peers import AddressPeer, EndpointPeer, NodePeer, leaves
from policyc.ir.policy import (
    Direction,
    EveryPort,
    IcmpType,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.semantics import is_subject
from policyc.ir.services import Kind, Service
from policyc.ir.universe import Address, End, Endpoint, Flow, Node


@dataclass(frozen=True)
class Target:
    """A rule, and the subjects of its policy that are not on their node's network."""

    direction: Direction
    rule: Rule
    subjects: tuple[Endpoint, ...]


def targets_of(policies: PolicySet, ends: Sequence[End]) -> list[Target]:
    """The rules that have some pod as a subject."""
    pods = [end for end in ends if isinstance(end, Endpoint) and not end.host_network]
    found = []
    for policy in (policy for tier in policies.tiers for policy in tier.policies):
        subjects = tuple(pod for pod in pods if is_subject(policy, pod))
        if subjects:
            found += [Target(d, rule, subjects) for d, rule in _rules(policy)]
    return found


def _rules(policy: Policy) -> Iterator[tuple[Direction, Rule]]:
    for direction in Direction:
        yield from ((direction, rule) for rule in policy.rules(direction))


def aimed(
    rng: random.Random, target: Target, ends: Sequence[End], family: int, usual: Service
) -> Flow | None:
    """A flow near the rule's matches; `usual` if it has no services. None without peers."""
    subject = rng.choice(target.subjects)
    if subject.address(family) is None:
        return None
    peers = [end for end in _peers(rng, target.rule, ends, family) if end != subject]
    if not peers:
        return None
    peer = rng.choice(peers)
    src, dst = (subject, peer) if target.direction is Direction.EGRESS else (peer, subject)
    entries = (*target.rule.ports, *target.rule.except_ports)
    service = _service(rng, rng.choice(entries), dst, family, usual) if entries else usual
    return Flow(src, dst, service, family)


def _peers(rng: random.Random, rule: Rule, ends: Sequence[End], family: int) -> Sequence[End]:
    """Ends that one leaf of the rule's peers matches, or borders on; any end if there is none."""
    asked = [leaf for peer in (*rule.peers, rule.own) for leaf in leaves(peer)]
    match rng.choice(asked) if asked else None:
        case EndpointPeer(selector):
            return [e for e in ends if isinstance(e, Endpoint) and selects(selector, e)]
        case NodePeer():
            return [end for end in ends if isinstance(end, Node)]
        case AddressPeer() as block:
            held = {_address(end, family): end for end in ends}
            near = at_borders(block, family)
            excepted = [a for a in near if any(a in hole for hole in block.excepts)]
            chosen = excepted if excepted and rng.random() < 0.5 else near
            return [held.get(address, address) for address in chosen]
        case _:
            return ends


def _address(end: End, family: int) -> Address | None:
    return end.address(family) if isinstance(end, Endpoint | Node) else end


def at_borders(block: AddressPeer, family: int) -> list[Address]:
    """The addresses on both sides of the borders of a block and its excepts."""
    bits = 32 if family == 4 else 128
    if block.network.version != family:
        return []
    numbers = {
        number
        for network in (block.network, *block.excepts)
        for edge in (int(network.network_address), int(network.broadcast_address))
        for number in (edge - 1, edge, edge + 1)
        if 0 <= number < 1 << bits
    }
    return [ip_address(number.to_bytes(bits // 8, "big")) for number in sorted(numbers)]


_NUMBERS: Mapping[Kind, int] = {Kind.ICMP: 1, Kind.ICMPV6: 58}


def _service(rng: random.Random, ports: Ports, dst: End, family: int, usual: Service) -> Service:
    """A service at the border of one entry of the rule's ports."""
    match ports:
        case PortRange(protocol, lo, hi):
            near = rng.choice((lo, hi)) + rng.choice((-1, 0, 0, 1))
            return Service(protocol.value, min(max(near, 1), 65535))
        case NamedPort(protocol, name):
            declared = dst.named_ports(name, protocol) if isinstance(dst, Endpoint) else ()
            return Service(protocol.value, rng.choice(sorted(declared))) if declared else usual
        case EveryPort(protocol):
            return Service(protocol.value, rng.randint(1, 65535))
        case IcmpType(kind, icmp_type, code):
            number = _NUMBERS[kind]
            if (number == 1) is not (family == 4):
                return usual
            asked = (8 if icmp_type is None else icmp_type) << 8 | (code or 0)
            return Service(number, asked)
        case ProtocolNumber(number) if number not in (1, 6, 17, 58, 132):
            return Service(number)
        case _:
            return usual
