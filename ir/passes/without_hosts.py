# SPDX-License-Identifier: Apache-2.0
"""WithoutHosts: policies of endpoints select no host interface (`convert` without HostEndpoints)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.policy import NEVER, NO_ENDPOINT, Policy, PolicySet


@dataclass(frozen=True)
class WithoutHosts(IrPass):
    """A policy about hosts alone stays as it is, so that what it says is refused and not lost."""

    name: ClassVar[str] = "without-hosts"
    keeps: ClassVar[Keeps] = Keeps.ACTIONS_OF_PODS

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """Every verdict on an endpoint stays as it is."""
        return PolicySet(
            tuple(replace(t, policies=tuple(map(_of_pods, t.policies))) for t in policies.tiers)
        )


def _of_pods(policy: Policy) -> Policy:
    return policy if policy.subject == NO_ENDPOINT else replace(policy, hosts=NEVER)
