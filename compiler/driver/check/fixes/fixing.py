# SPDX-License-Identifier: Apache-2.0
"""The fixes of a check, planned and proved: no verdict and no effect changes.

The edited text is read again by the same front end, and compared with the original as `policyc diff`
does, in the universe of the check. Whole policies are compared for every pod that could exist, too,
because their findings hold there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import Checked
from policyc.compiler.driver.check.findings import place_of
from policyc.compiler.driver.check.fixes.found import Fixable, beside_mistakes, fixable
from policyc.compiler.driver.check.fixes.plan import LeftOut, Plan, plan
from policyc.compiler.driver.check.input import ToCheck
from policyc.compiler.driver.compare.diff import DiffOptions, diff_sides
from policyc.compiler.driver.compile.compile import Progress, Read
from policyc.ir.bounds import is_understood
from policyc.ir.errors import InternalError
from policyc.ir.results.diff import DiffOutcome

_ONLY_HERE = "it holds for the cluster alone, which the command line does not name"
_MISTAKE = "a rule without peers makes it useless, which PC2006 calls a mistake"
_NOT_WITHOUT = "its removal is not proved without findings that stay"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The plan, which is proved, and the input after it. `universe` is where it holds, in words."""

    plan: Plan
    given: ToCheck
    universe: str


def fix(
    given: ToCheck,
    checked: Checked,
    options: CheckOptions,
    progress: Progress,
    *,
    is_cluster_meant: bool = True,
) -> Fixed:
    """The fixes of the findings of `checked`, proved.

    Without `is_cluster_meant` those that hold for the given cluster alone are left out. Raises
    InternalError if the fixes of all findings together change a verdict or an effect.
    """
    wanted = fixable(checked)
    doubtful = beside_mistakes(checked, wanted)
    left_out = tuple(LeftOut(place_of(each), _MISTAKE) for each in doubtful)
    wanted = replace(wanted, rules=tuple(each for each in wanted.rules if each not in doubtful))
    if not options.is_symbolic and not is_cluster_meant:
        left_out += tuple(LeftOut(place_of(each), _ONLY_HERE) for each in wanted.rules)
        wanted = replace(wanted, rules=())
    universe = checked.result.universe.words if wanted.rules else _everywhere(options)
    prover = _Prover(given, options, progress)
    is_whole = is_understood(given.read.policies.policies) and _has_all(wanted, checked)
    for fixes, dropped in _attempts(wanted):
        planned = plan(fixes, given.read.policies.policies, given.contents)
        after = prover.after(planned)
        outcome = prover.outcome(fixes, planned, after)
        if outcome is DiffOutcome.EQUAL:
            return Fixed(_with_left_out(planned, (*dropped, *left_out)), after, universe)
        if outcome is not DiffOutcome.UNDECIDED and is_whole and not planned.left_out:
            raise InternalError(
                "check found fixes that change nothing, but verdicts differ with them"
            )
    raise InternalError("the removal of comments changes verdicts")


def _has_all(wanted: Fixable, checked: Checked) -> bool:
    n_rules, n_policies = len(checked.together), len(checked.deletable)
    return (len(wanted.rules), len(wanted.policies)) == (n_rules, n_policies)


def _everywhere(options: CheckOptions) -> str:
    among = ", ".join(map(str, options.pod_networks))
    where = f", with pod addresses in {among}" if among else ""
    return f"every pod, node and address that could exist{where}"


def _with_left_out(planned: Plan, more: tuple[LeftOut, ...]) -> Plan:
    return replace(planned, left_out=(*planned.left_out, *more))


def _attempts(wanted: Fixable) -> Iterator[tuple[Fixable, tuple[LeftOut, ...]]]:
    """All fixes; then fewer, for a set that lacks a part without which the rest is not proved."""
    yield wanted, ()
    fewer = replace(wanted, rules=())
    rules = tuple(LeftOut(place_of(each), _NOT_WITHOUT) for each in wanted.rules)
    yield fewer, rules
    comments = replace(fewer, policies=())
    policies = tuple(LeftOut(each, _NOT_WITHOUT) for each in replace(fewer, comments=()).places())
    yield comments, (*rules, *policies)


class _Prover:
    """Compares the input with the input after a plan."""

    def __init__(self, given: ToCheck, options: CheckOptions, progress: Progress) -> None:
        self._given = given
        self._options = options
        self._progress = progress

    def after(self, planned: Plan) -> ToCheck:
        """The input after a plan."""
        if self._given.reader is None or not planned.files:
            return self._given
        return self._given.reader.again(planned.contents(self._given.contents))

    def outcome(self, fixes: Fixable, planned: Plan, after: ToCheck) -> DiffOutcome:
        """The comparison in the universe of the check, and of whole policies everywhere."""
        if not planned.files:
            return DiffOutcome.EQUAL
        everywhere = replace(fixes, rules=())
        if fixes.policies and not self._options.is_symbolic:
            policies = plan(everywhere, self._given.read.policies.policies, self._given.contents)
            found = self._compared(self.after(policies).read, is_symbolic=True)
            if found is not DiffOutcome.EQUAL:
                return found
        return self._compared(after.read, self._options.is_symbolic or not fixes.rules)

    def _compared(self, after: Read, is_symbolic: bool) -> DiffOutcome:
        options = self._options
        how = DiffOptions(
            is_symbolic,
            pod_networks=options.pod_networks,
            timeout_ms=options.timeout_ms,
            solver=options.solver,
            jobs=options.jobs,
            executor=options.executor,
        )
        return diff_sides(self._given.read, after, how, self._progress).outcome
