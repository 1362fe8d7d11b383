# SPDX-License-Identifier: Apache-2.0
"""WithoutEffects: the policies without logs, audits and limits (`convert --ignore-effects`)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.policy import Policy, PolicySet, Rule


@dataclass(frozen=True)
class WithoutEffects(IrPass):
    """No rule logs, audits or limits; a rule that does nothing else is gone."""

    name: ClassVar[str] = "without-effects"
    keeps: ClassVar[Keeps] = Keeps.ACTIONS

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """Every action stays as it is."""
        return PolicySet(
            tuple(replace(t, policies=tuple(map(_plain, t.policies))) for t in policies.tiers)
        )


def _plain(policy: Policy) -> Policy:
    return replace(
        policy, ingress=tuple(_decides(policy.ingress)), egress=tuple(_decides(policy.egress))
    )


def _decides(rules: tuple[Rule, ...]) -> Iterator[Rule]:
    for rule in rules:
        if not rule.action.goes_on:
            yield replace(rule, log=False, limit=None)
