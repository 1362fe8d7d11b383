# SPDX-License-Identifier: Apache-2.0
"""Rules with a part that policyc does not support: an error, or compiled so that nothing is opened.

With `--unsupported=deny` an allow matches nothing, and a deny, a reject or a pass denies its subject
unconditionally: a pass that was lost could open traffic in a later tier. What only makes a note is left
out. A subject that is not supported is always an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policyc.compiler.frontend import codes_together as codes
from policyc.compiler.frontend.lowered import Unsupported
from policyc.ir.diagnostics import Report
from policyc.ir.policy import ANY_PEER, Action, AnyService, Rule
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class UnsupportedPart:
    """A field that is valid and not supported: its place and path, and what it asks for in words.

    `is_peer`: it is one of several peers, so that an allow keeps what its other peers allow.
    """

    span: Span
    path: str
    what: str
    is_peer: bool = False


def fail_closed(
    rule: Rule, parts: Sequence[UnsupportedPart], how: Unsupported, report: Report
) -> Rule:
    """The rule as it may be enforced. `rule` has everything but the parts that are not supported.

    Every part is reported: an error by default, a warning where the rule is made to fail closed.
    """
    if not parts:
        return rule
    if how is Unsupported.ERROR:
        for part in parts:
            found = codes.UNSUPPORTED.at(part.span, part.path, where=part.path, what=part.what)
            report.add(found.help("take it out, or compile it closed: --unsupported=deny"))
        return rule
    outcome = _OUTCOMES[rule.action]
    for part in parts:
        report.add(
            codes.UNSUPPORTED_CLOSED.at(
                part.span, part.path, where=part.path, what=part.what, outcome=outcome
            )
        )
    if rule.action is Action.ALLOW and all(part.is_peer for part in parts):
        return rule
    return closed(rule)


def closed(rule: Rule) -> Rule:
    """The rule so that it opens nothing, whatever it was meant to match."""
    if rule.action is Action.ALLOW or rule.action.goes_on:
        return replace(rule, peers=())
    return Rule(Action.DENY, (ANY_PEER,), (AnyService(),), rule.origin, name=rule.name)


def outcome_of(action: Action) -> str:
    """What becomes of a rule with this action once it is closed, in words."""
    return _OUTCOMES[action]


_OUTCOMES = {
    Action.ALLOW: "what it would allow is not allowed",
    Action.DENY: "the rule denies everything",
    Action.REJECT: "the rule denies everything",
    Action.PASS: "the rule denies everything, since what it would pass on might be opened later",
    Action.LOG: "nothing is logged",
    Action.AUDIT: "nothing is counted",
}


def refuse_subject(part: UnsupportedPart, report: Report) -> None:
    """Report a subject that is not supported: without it, nobody knows whom to close off."""
    found = codes.UNSUPPORTED_SUBJECT.at(part.span, part.path, where=part.path, what=part.what)
    report.add(found.help("--unsupported=deny does not help here: the policy has no known subject"))
