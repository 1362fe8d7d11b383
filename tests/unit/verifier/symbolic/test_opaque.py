# SPDX-License-Identifier: Apache-2.0
"""Which opaque rules two sides share, and which are taken alike. By hand, where chance seldom goes."""

from dataclasses import replace
from ipaddress import ip_address

from policyc.ir.bounds import lower_rule
from policyc.ir.policy import (
    ANY_PEER,
    Action,
    AnyService,
    Direction,
    EndpointSelector,
    LabelSelector,
    Opaque,
    Operator,
    Policy,
    PolicySet,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.results.diff import DifferenceKind
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import Endpoint, Flow
from policyc.verifier.symbolic.differences import kind_between
from policyc.verifier.symbolic.opaque import (
    MOST_BUNDLES,
    comparison,
    readings,
)

ORIGIN = Origin(Span("p.yaml", 1, 1), "spec")
A, B = (
    Endpoint("shop", name, {"app": name}, {}, (ip_address(address),))
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"))
)
FLOW = Flow(A, B, Service(6, 80), 4)


def rule(action: Action, text: str = "") -> Rule:
    """A rule for any peer; with a text it is opaque and has no certain match."""
    widest = Rule(action, (ANY_PEER,), (AnyService(),), ORIGIN)
    if not text:
        return widest
    opaque = Opaque(replace(widest, peers=()), widest, ("domain names",), text)
    return replace(lower_rule(replace(widest, opaque=opaque)), opaque=opaque)


def policy(app: str, direction: Direction, *rules: Rule) -> Policy:
    labels = LabelSelector((Requirement("app", Operator.IN, (app,)),))
    ways = {Direction.INGRESS: (rules, ()), Direction.EGRESS: ((), rules)}
    subject = EndpointSelector("shop", labels=labels)
    isolates = frozenset([direction])
    name = f"{app}-{direction.value}"
    return Policy("NetworkPolicy", "shop", name, subject, isolates, *ways[direction], ORIGIN)


def tier(*policies: Policy, mode: TierMode = TierMode.FIRST_MATCH) -> PolicySet:
    return PolicySet((Tier("tier", mode, Action.DENY, policies),))


def kinds(before: PolicySet, after: PolicySet) -> set[DifferenceKind | None]:
    """How the flow changes in the cases of a comparison."""
    return {
        kind_between(verdict(case.before, FLOW), verdict(case.after, FLOW), True)
        for case in comparison(before, after).possible
    }


def test_equal_texts_cancel() -> None:
    same = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "api.github.com")))
    again = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "api.github.com")))
    assert kinds(same, again) == {None}


def test_different_texts_do_not_cancel() -> None:
    one = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "api.github.com")))
    other = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "evil.example.com")))
    assert kinds(one, other) == {DifferenceKind.WIDENED, DifferenceKind.NARROWED}


def test_equal_texts_at_another_subject_do_not_cancel() -> None:
    one = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "x")))
    other = PolicySet(
        (replace(one.tiers[0], policies=(policy("b", Direction.EGRESS, rule(Action.ALLOW, "x")),)),)
    )
    assert kinds(one, other) - {None}


def test_equal_texts_in_another_order_do_not_cancel() -> None:
    """The first rule is shared; a rule that moved past it would have another precedence."""
    one = tier(policy("a", Direction.EGRESS, rule(Action.ALLOW, "x"), rule(Action.DENY, "y")))
    other = tier(policy("a", Direction.EGRESS, rule(Action.DENY, "y"), rule(Action.ALLOW, "x")))
    assert kinds(one, other) - {None}


def test_opaque_rules_of_the_two_ends_are_read_independently() -> None:
    """It closes only where one rule allows egress of `a`, and the other does not deny ingress of `b`."""
    opens = policy("a", Direction.EGRESS, rule(Action.ALLOW, "x"))
    denies = rule(Action.DENY, "y")
    before = tier(opens, policy("b", Direction.INGRESS, denies, rule(Action.ALLOW)))
    after = tier(opens, policy("b", Direction.INGRESS, denies))
    assert DifferenceKind.NARROWED in kinds(before, after)


def test_opaque_rules_of_an_ordered_tier_are_read_independently() -> None:
    """The deny counts only where the first allow does not match, and the second does."""
    rules = (rule(Action.ALLOW, "x"), rule(Action.DENY), rule(Action.ALLOW, "y"))
    without = (rules[0], rules[2])
    sets = readings(tier(policy("a", Direction.EGRESS, *rules)))
    fewer = readings(tier(policy("a", Direction.EGRESS, *without)))
    assert sets is not None and fewer is not None
    assert [verdict(each, FLOW).action for each in sets] != [
        verdict(each, FLOW).action for each in fewer
    ]
    assert len(sets) == 4


def test_opaque_allows_of_a_deny_wins_tier_share_a_reading() -> None:
    rules = [rule(Action.ALLOW, str(number)) for number in range(50)]
    sets = readings(tier(policy("a", Direction.EGRESS, *rules), mode=TierMode.DENY_WINS))
    assert sets is not None and len(sets) == 2


def test_too_many_opaque_rules_have_no_readings() -> None:
    rules = [rule(Action.ALLOW, str(number)) for number in range(MOST_BUNDLES + 1)]
    many = tier(policy("a", Direction.EGRESS, *rules))
    assert readings(many) is None
    assert kinds(many, many) == {None}, "equal policies need no reading"
    one_more = tier(policy("a", Direction.EGRESS, *rules, rule(Action.ALLOW)))
    assert len(comparison(many, one_more).possible) == 2 * 2**MOST_BUNDLES
    assert kinds(many, one_more) - {None}, "what is not tried alike counts as different"
