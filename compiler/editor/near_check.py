# SPDX-License-Identifier: Apache-2.0
"""Check for one file: its policies, beside all policies that can apply to the same pods.

Removing a rule changes verdicts only for pods that its policy selects. So policies for other pods have
no say in the findings about it, and an edit needs no check of the whole set.
"""

from dataclasses import dataclass, replace

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import Checked, check
from policyc.compiler.driver.check.codes import ADOPTED
from policyc.compiler.driver.check.ignores import ignores_in
from policyc.compiler.driver.check.input import ToCheck
from policyc.compiler.driver.check.lints import adopted
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.editor.reading import Reading
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.passes.cancel import Subjects, restricted
from policyc.ir.policy import Policy
from policyc.ir.results.common import Finding
from policyc.verifier.cluster.reads import policies_of

_LIMIT_MS = 1000
"""The time for a question. What is undecided then is left to the check of all files."""


@dataclass(frozen=True, slots=True)
class NearChecked:
    """The findings of a file. `checked` is None if comments in the file have mistakes."""

    findings: tuple[Diagnostic, ...]
    checked: Checked | None = None


def options_of(reading: Reading, timeout_ms: int | None = None, file: str = "") -> CheckOptions:
    """The universe of the settings: their cluster, or every cluster that could exist."""
    return CheckOptions(reading.cluster is None, timeout_ms=timeout_ms, file=file)


def near_check(reading: Reading, name: str) -> NearChecked:
    """The findings of `check` about one file."""
    own = reading.findings.get(name, ())
    content = reading.folder.files[name]
    every = reading.policies.policies
    mine = [each for each in policies_of((every,)) if _is_of(each, name)]
    subjects = Subjects.of(mine)
    near = restricted(every, lambda each: _is_of(each, name) or subjects.may_share(each))
    policies = replace(reading.policies, policies=near, findings=own)
    cluster = reading.cluster and replace(reading.cluster, findings=())
    given = ToCheck(Read(policies, cluster), (content,))
    options = options_of(reading, _LIMIT_MS, name)
    try:
        checked = check(given, options, lambda _: None, reading.folder.settings.check)
    except InputError as failure:
        return NearChecked((*own, *failure.findings))
    return NearChecked(shown(checked, name), checked)


def _is_of(policy: Policy, name: str) -> bool:
    """Whether a policy is in a file. One that selects nothing shares no pod, even with itself."""
    return policy.origin.span.file == name


def read_findings(reading: Reading, name: str) -> tuple[Diagnostic, ...]:
    """The part of `near_check` that needs no solver: what strict reading says, as `check` shows it."""
    own = reading.findings.get(name, ())
    text = reading.folder.files[name].data.decode("utf-8", "replace")
    wrong: list[Diagnostic] = []
    ignores = list(ignores_in(name, text, wrong))
    found = reading.folder.settings.check.findings(adopted(own))
    kept = (f for f in found if not any(i.covers(f.code, f.place.span) for i in ignores))
    others = (each for each in own if each.code not in ADOPTED)
    return (*others, *map(as_diagnostic, kept), *wrong)


def shown(checked: Checked, name: str | None = None) -> tuple[Diagnostic, ...]:
    """All findings of a check, or those about one file."""
    found = (*checked.others, *map(as_diagnostic, checked.result.findings))
    return tuple(each for each in found if name is None or each.span.file == name)


def as_diagnostic(finding: Finding) -> Diagnostic:
    """A finding with its explanation in the message."""
    message = "\n".join(filter(None, (finding.message, finding.explanation)))
    place = finding.place
    return Diagnostic(
        finding.code, finding.severity, message, place.span, place.path, finding.notes, finding.hint
    )
