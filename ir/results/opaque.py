# SPDX-License-Identifier: Apache-2.0
"""Opaque rules as results name them, and the opaque rules that a flow's verdict may depend on."""

from collections.abc import Iterator

from policyc.ir.bounds import OpaqueRule, opaque_rules
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.common import OpaquePart
from policyc.ir.results.places import place_of_rule
from policyc.ir.semantics import as_seen, is_subject, rule_matches
from policyc.ir.universe import Endpoint, Flow, Node


def part_of(rule: OpaqueRule, side: str = "") -> OpaquePart:
    """An opaque rule as results name it."""
    asks = rule.rule.opaque.asks if rule.rule.opaque is not None else ()
    return OpaquePart(place_of_rule(rule.policy, rule.rule), asks, side)


def blamed_for(
    policies: PolicySet, flow: Flow, only: Direction | None = None
) -> Iterator[OpaqueRule]:
    """The opaque rules that may or may not match a flow; `direction` restricts them to one direction."""
    src, dst = as_seen(flow.src), as_seen(flow.dst)
    for each in opaque_rules(policies):
        direction = each.place.direction
        if only not in (None, direction):
            continue
        subject, peer = (dst, src) if direction is Direction.INGRESS else (src, dst)
        opaque = each.rule.opaque
        if opaque is None or not isinstance(subject, Endpoint | Node):
            continue
        is_asked = is_subject(each.policy, subject)
        if is_asked and rule_matches(opaque.widest, direction, subject, peer, flow):
            yield each


def words_of(part: OpaquePart) -> str:
    """`shop/web spec.egress[0] (web.yaml:12) asks for domain names`."""
    return f"{_named(part)} asks for {', '.join(part.asks)}"


def clause_of(part: OpaquePart) -> str:
    """`shop/web spec.egress[0] (web.yaml:12), which asks for domain names,`."""
    return f"{_named(part)}, which asks for {', '.join(part.asks)},"


def _named(part: OpaquePart) -> str:
    span = part.place.span
    return f"{part.place.words} ({span.file}:{span.line})"
