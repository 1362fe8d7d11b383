# SPDX-License-Identifier: Apache-2.0
"""The two bounds of an opaque rule, action by action."""

from dataclasses import replace

import pytest

from policyc.ir.bounds import lower_rule, rule_action, upper_rule
from policyc.ir.policy import (
    ANY_PEER,
    Action,
    AnyService,
    EndpointPeer,
    EndpointSelector,
    Opaque,
    Rule,
)
from policyc.ir.spans import Origin, Span

ORIGIN = Origin(Span("p.yaml", 1, 1), "spec")
KNOWN, WIDEST = (EndpointPeer(EndpointSelector("shop")),), (ANY_PEER,)


def opaque(action: Action) -> Rule:
    certain = Rule(action, KNOWN, (AnyService(),), ORIGIN)
    widest = replace(certain, peers=WIDEST)
    found = Opaque(certain, widest, ("domain names",), "text")
    return replace(lower_rule(replace(certain, opaque=found)), opaque=found)


@pytest.mark.parametrize(
    ("action", "lower", "upper"),
    [
        (Action.ALLOW, (Action.ALLOW, KNOWN), (Action.ALLOW, WIDEST)),
        (Action.DENY, (Action.DENY, WIDEST), (Action.DENY, KNOWN)),
        (Action.REJECT, (Action.REJECT, WIDEST), (Action.REJECT, KNOWN)),
        (Action.PASS, (Action.DENY, WIDEST), (Action.ALLOW, WIDEST)),
        (Action.LOG, (Action.LOG, KNOWN), (Action.LOG, WIDEST)),
        (Action.AUDIT, (Action.AUDIT, KNOWN), (Action.AUDIT, WIDEST)),
    ],
)
def test_the_bounds_of_a_rule(
    action: Action, lower: tuple[Action, object], upper: tuple[Action, object]
) -> None:
    rule = opaque(action)
    for bound, wanted in ((lower_rule(rule), lower), (upper_rule(rule), upper)):
        assert (bound.action, bound.peers) == wanted
        assert bound.opaque is None
    assert rule_action(rule) is action
    assert (rule.action, rule.peers) == lower, "it is enforced at the lower bound"


def test_the_bounds_of_a_supported_rule_are_the_rule() -> None:
    rule = Rule(Action.ALLOW, KNOWN, (AnyService(),), ORIGIN)
    assert lower_rule(rule) is upper_rule(rule) is rule
