# SPDX-License-Identifier: Apache-2.0
"""What `policyc node status` says of the bypass."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from policyc.runtime.attach.socket_listing import BYPASSED
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.bypass import BypassedSockets, totals
from policyc.runtime.observe.rule_names import place_of, rules_by_id
from policyc.runtime.state import Generation


@dataclass(frozen=True, slots=True)
class RuleBypass:
    """What open connections that a rule allows have sent by the bypass."""

    rule: int
    where: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BypassStatus:
    """The open connections, and the counters since the first load with a bypass."""

    open: int
    """Connections that were added and are open."""
    sending: int
    """Sockets of these whose last message was bypassed."""
    connections: int
    """All that were added."""
    messages: int
    bytes: int
    left: Mapping[str, int]
    """How often a direction went back to the stack, by reason."""
    rules: tuple[RuleBypass, ...]


def of(pins: Pins, generation: Generation) -> BypassStatus | None:
    """None if the load has no bypass."""
    programs = pins.generation(generation.epoch)
    if not generation.bypass or not BYPASSED.pin(programs).exists():
        return None
    with BypassedSockets(pins) as sockets:
        found = sockets.read(BYPASSED.read(programs, sockets.fd))
    messages: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    for each in found:
        for rule in filter(None, each.rules):
            messages[rule] += each.messages
            sent[rule] += each.bytes
    known = rules_by_id(generation)
    counters = totals(pins)
    return BypassStatus(
        open=len(found) // 2,
        sending=sum(each.is_bypassed for each in found),
        connections=counters.connections,
        messages=counters.messages,
        bytes=counters.bytes,
        left=counters.left,
        rules=tuple(
            RuleBypass(rule, place_of(known.get(rule, {})), messages[rule], sent[rule])
            for rule in sorted(messages)
            if messages[rule]
        ),
    )
