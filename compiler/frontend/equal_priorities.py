# SPDX-License-Identifier: Apache-2.0
"""Policies of policy.networking.k8s.io that share a tier and a priority (semantics B31).

The API leaves open which of them is asked first. That is an error where two of their rules can both
match with different actions, unless that is excluded; else it is only a warning.
"""

from collections.abc import Iterable, Iterator, Sequence

from policyc.compiler.frontend import codes_admin as codes
from policyc.compiler.frontend.lowered import AdminSlot, BaselineSlot, Lowered
from policyc.compiler.frontend.overlap import endpoints_overlap, rules_overlap
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.policy import Direction, Policy, Rule


def check_priorities(lowered: Iterable[Lowered], report: Report) -> None:
    """Report policies whose order is not defined: each with the first that it collides with."""
    groups: dict[AdminSlot | BaselineSlot, list[Policy]] = {}
    for item in lowered:
        if isinstance(item.slot, AdminSlot | BaselineSlot) and not item.is_staged:
            groups.setdefault(item.slot, []).append(item.policy)
    for slot, policies in groups.items():
        for at, policy in enumerate(policies[1:], start=1):
            report.add(_finding(policy, policies[:at], slot.priority))


def _finding(policy: Policy, earlier: Sequence[Policy], priority: int) -> Diagnostic:
    for other in earlier:
        pair = next(_conflicts(policy, other), None)
        if pair is not None:
            mine, theirs = pair
            found = codes.PRIORITY_CONFLICT.at(
                policy.origin.span,
                "spec.priority",
                policy=policy.title,
                other=other.title,
                priority=priority,
                rule=mine.origin.path,
                other_rule=theirs.origin.path,
            )
            found = found.note(mine.origin.span, f"{mine.action.value} here")
            found = found.note(theirs.origin.span, f"{theirs.action.value} here")
            return found.help("give one of the two another priority")
    other = earlier[0]
    found = codes.PRIORITY_SHARED.at(
        policy.origin.span,
        "spec.priority",
        policy=policy.title,
        other=other.title,
        priority=priority,
    )
    found = found.note(other.origin.span, f"{other.title} is here")
    return found.help("no two of their rules contradict each other; a change could make them")


def _conflicts(one: Policy, other: Policy) -> Iterator[tuple[Rule, Rule]]:
    """Pairs of rules of one direction with different actions, not shown to be apart."""
    if not endpoints_overlap(one.subject, other.subject):
        return
    for direction in Direction:
        for mine in one.rules(direction):
            for theirs in other.rules(direction):
                if mine.action is not theirs.action and rules_overlap(mine, theirs):
                    yield mine, theirs
