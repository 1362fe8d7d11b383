# SPDX-License-Identifier: Apache-2.0
"""Enforceable: what the datapath can enforce of a policy set; the rest is refused, or compiled closed.

Nothing is compiled and then ignored: what is left out or closed is said (PC0904), and without
`--unsupported=deny` it is an error (PC0903).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.passes import codes
from policyc.ir.passes.closing import closed, outcome_of
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.policy import Action, Policy, PolicySet, Rule, Tier

_HINT = "take it out, or compile it closed: --unsupported=deny"


@dataclass(frozen=True)
class Enforceable(IrPass):
    """What the datapath can enforce; the rest is an error, or closed with a warning.

    `close` (`--unsupported=deny`): a rule that the tables cannot hold is compiled so that it opens
    nothing. `counts_rules`: the program counts by rule, which is all that `audit` asks for.
    """

    name: ClassVar[str] = "enforceable"
    keeps: ClassVar[Keeps] = Keeps.DENIALS

    close: bool = False
    counts_rules: bool = True

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """The policies as they are enforced."""
        return PolicySet(
            tuple(
                replace(tier, policies=tuple(self._policies(tier, report)))
                for tier in policies.tiers
            )
        )

    def _policies(self, tier: Tier, report: Report) -> Iterator[Policy]:
        for policy in tier.policies:
            yield replace(
                policy,
                ingress=tuple(self._rules(policy, policy.ingress, report)),
                egress=tuple(self._rules(policy, policy.egress, report)),
            )

    def _rules(self, policy: Policy, rules: tuple[Rule, ...], report: Report) -> Iterator[Rule]:
        for rule in rules:
            if rule.action is Action.AUDIT and not self.counts_rules:
                self._say(policy, rule, "`audit` without counters", report)
                continue
            yield self._rule(policy, rule, report)

    def _rule(self, policy: Policy, rule: Rule, report: Report) -> Rule:
        """The rule, closed where a part of it would be lost."""
        if rule.source_ports is None:
            return rule
        self._say(policy, rule, "source ports", report)
        return closed(replace(rule, source_ports=None))

    def _say(self, policy: Policy, rule: Rule, what: str, report: Report) -> None:
        name, place = f"{policy.title} {rule.origin.path}", rule.origin
        if self.close:
            outcome = outcome_of(rule.action)
            report.add(
                codes.NOT_ENFORCED_CLOSED.at(
                    place.span, place.path, name=name, what=what, outcome=outcome
                )
            )
        else:
            found = codes.NOT_ENFORCED.at(place.span, place.path, name=name, what=what)
            report.add(found.help(_HINT))
