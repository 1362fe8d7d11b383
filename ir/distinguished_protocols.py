# SPDX-License-Identifier: Apache-2.0
"""The protocols whose ports the policies distinguish. The datapath reads no ports of other protocols.

If every service of a protocol meets the same rules as "protocol N" without ports, one service key stands
for the whole protocol.
"""

from collections.abc import Iterable, Iterator

from policyc.ir.decision import TableRule, TierTable
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Direction
from policyc.ir.services import Kind, Protocol, kind_span
from policyc.ir.vocabulary import Vocabulary

NUMBERS = {Kind.TCP: 6, Kind.UDP: 17, Kind.SCTP: 132, Kind.ICMP: 1, Kind.ICMPV6: 58}


def plain_key(kind: Kind) -> int:
    """The service key of a protocol without ports."""
    return Kind.OTHER << 16 | NUMBERS[kind]


def distinguished_kinds(tables: Iterable[TierTable], vocabulary: Vocabulary) -> frozenset[Kind]:
    """The kinds in which some rule distinguishes two services, or a service from the plain key."""
    sets = list(_service_sets(tables))
    named = {port.protocol for port in vocabulary.named_ports}
    return frozenset(
        kind
        for kind in NUMBERS
        if any(kind is protocol.kind for protocol in named & set(Protocol))
        or any(_tells_apart(keys, kind) for keys in sets)
    )


def _tells_apart(keys: IntervalSet, kind: Kind) -> bool:
    whole, plain = kind_span(kind), IntervalSet.of([(plain_key(kind), plain_key(kind))])
    inside = keys & whole
    if not inside:
        return bool(keys & plain)
    return inside != whole or not keys & plain


def _service_sets(tables: Iterable[TierTable]) -> Iterator[IntervalSet]:
    seen: set[IntervalSet] = set()
    for rule in _rules(tables):
        for services in (rule.services, rule.except_services):
            if services:
                keys = IntervalSet.of(s for s in services if isinstance(s, tuple))
                if keys not in seen:
                    seen.add(keys)
                    yield keys


def _rules(tables: Iterable[TierTable]) -> Iterator[TableRule]:
    for tier in tables:
        for policy in tier.policies:
            for direction in Direction:
                yield from policy.rules(direction)
