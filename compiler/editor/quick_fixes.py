# SPDX-License-Identifier: Apache-2.0
"""The fix of one finding, proved beside all policies: no verdict and no effect changes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from policyc.compiler.driver.check.check import Checked
from policyc.compiler.driver.check.codes import ALLOWS_ALL
from policyc.compiler.driver.check.findings import place_of
from policyc.compiler.driver.check.fixes.fixing import fix
from policyc.compiler.driver.check.input import PolicyReader, ToCheck
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.editor.near_check import options_of
from policyc.compiler.editor.reading import Reading
from policyc.ir.results.common import Finding
from policyc.ir.results.places import place_of_policy
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.redundancy.accidents import all_rules

_LIMIT_MS = 5000


@dataclass(frozen=True, slots=True)
class Replacement:
    """Characters `start` to `end` (exclusive) become `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class QuickFix:
    """A fix in one file; `edits` None: the file holds nothing else and is deleted."""

    finding: Finding
    universe: str
    edits: tuple[Replacement, ...] | None


def quick_fix(reading: Reading, checked: Checked, finding: Finding) -> QuickFix | None:
    """The fix of a finding; None if it has no certain remedy, or the text does not allow it."""
    one = _only(reading, checked, finding)
    if not (one.together or one.deletable or finding.hint == "remove the comment"):
        return None
    read = Read(replace(reading.policies, findings=()), reading.cluster)
    cluster = reading.folder.settings.cluster
    reader = PolicyReader(reading.folder.options, cluster, b"", read)
    given = ToCheck(read, tuple(reading.folder.files.values()), reader)
    options = options_of(reading, _LIMIT_MS)
    # As with `check --fix`: a cluster that only the settings name may be older than the policies.
    fixed = fix(given, one, options, lambda _: None, is_cluster_meant=False)
    if fixed.plan.n_fixes != 1 or len(fixed.plan.files) != 1:
        return None
    file = fixed.plan.files[0]
    if file.new is None:
        return QuickFix(finding, fixed.universe, None)
    edits = tuple(_edits(file.content.data.decode(), file.new.decode()))
    return QuickFix(finding, fixed.universe, edits)


def _only(reading: Reading, checked: Checked, finding: Finding) -> Checked:
    """The check as if this were its only finding, beside those that say that a rule is a mistake."""
    mistakes = (each for each in checked.result.findings if each.code == ALLOWS_ALL.name)
    result = replace(checked.result, findings=tuple(dict.fromkeys((finding, *mistakes))))
    every = reading.policies.policies
    rules = tuple(each for each in all_rules(every) if place_of(each) == finding.place)
    gone = {place_of_policy(each) for each in checked.deletable} & {finding.place}
    policies = tuple(each for each in policies_of((every,)) if place_of_policy(each) in gone)
    return replace(checked, result=result, together=rules, deletable=policies)


def _edits(old: str, new: str) -> Iterator[Replacement]:
    """The changed lines, with nothing between that stays."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Replacement(starts[i], starts[j], "".join(after[k:m]))
