# SPDX-License-Identifier: Apache-2.0
"""The policies as a bundle enforces them: the pass `enforceable`, whose errors end the run."""

from policyc.compiler.frontend.lowered import Unsupported
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError
from policyc.ir.passes.enforceable import Enforceable
from policyc.ir.policy import PolicySet


def enforced(
    policies: PolicySet, how: Unsupported, counts_rules: bool = True
) -> tuple[PolicySet, list[Diagnostic]]:
    """The policies, and warnings. `InputError` for what is refused."""
    report = Report()
    made = Enforceable(how is Unsupported.DENY, counts_rules).run(policies, report)
    if report.errors:
        raise InputError(report.findings)
    return made, report.findings
