# SPDX-License-Identifier: Apache-2.0
"""The part of a policy set that the datapath can enforce; the rest is refused, or compiled closed.

Input: a PolicySet. Output: a PolicySet whose every rule the tables can hold. Nothing is ignored
silently: each rule that is left out or closed is reported (PC0904), and without `--unsupported=deny` it
is an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policyc.compiler.driver import codes
from policyc.compiler.frontend.lowered import Unsupported
from policyc.compiler.frontend.unsupported import closed, outcome_of
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.policy import Action, Policy, PolicySet, Rule, Tier

_HINT = "remove it, or deny all that it may match: --unsupported=deny"


def enforceable(
    policies: PolicySet, how: Unsupported, is_counted: bool = True
) -> tuple[PolicySet, list[Diagnostic]]:
    """The policies as they are enforced, and warnings; raises InputError for refused rules.

    `is_counted`: the program counts by rule, which is all that `audit` needs.
    """
    work = _Closing(how, is_counted)
    tiers = tuple(replace(tier, policies=tuple(work.policies(tier))) for tier in policies.tiers)
    if any(finding.is_error for finding in work.findings):
        raise InputError(work.findings)
    return PolicySet(tiers), work.findings


@dataclass
class _Closing:
    """One run over the policies."""

    how: Unsupported
    is_counted: bool
    findings: list[Diagnostic] = field(default_factory=list)

    def policies(self, tier: Tier) -> Iterator[Policy]:
        for policy in tier.policies:
            yield replace(
                policy,
                ingress=tuple(self._rules(policy, policy.ingress)),
                egress=tuple(self._rules(policy, policy.egress)),
            )

    def _rules(self, policy: Policy, rules: tuple[Rule, ...]) -> Iterator[Rule]:
        for rule in rules:
            if rule.action is Action.AUDIT and not self.is_counted:
                self._say(policy, rule, "`audit` without counters", outcome_of(rule.action))
                continue
            yield self._rule(policy, rule)

    def _rule(self, policy: Policy, rule: Rule) -> Rule:
        """The rule, closed if a part of it would be lost."""
        if rule.source_ports is not None:
            self._say(policy, rule, "source ports", outcome_of(rule.action))
            rule = closed(replace(rule, source_ports=None))
        return rule

    def _say(self, policy: Policy, rule: Rule, what: str, outcome: str) -> None:
        name, place = f"{policy.title} {rule.origin.path}", rule.origin
        if self.how is Unsupported.ERROR:
            found = codes.NOT_ENFORCED.at(place.span, place.path, name=name, what=what)
            self.findings.append(found.help(_HINT))
        else:
            self.findings.append(
                codes.NOT_ENFORCED_CLOSED.at(
                    place.span, place.path, name=name, what=what, outcome=outcome
                )
            )
