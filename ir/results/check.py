# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc check`. Data only."""

from dataclasses import dataclass

from policyc.ir.diagnostics import Severity
from policyc.ir.results.common import Evidence, Finding, OpaquePart, Place, UniverseUsed


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that the input asks not to be told of, with the reason given, and where (`by`)."""

    finding: Finding
    reason: str
    by: Place


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A kind of finding: its code, a title of a few words, and help that says what to do about it."""

    code: str
    title: str
    help: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True)
class ConfigUsed:
    """A configuration that changes what is reported.

    `severities` are (code, severity or `off`) as it says, `hidden` (code, how many findings are off).
    """

    file: str
    severities: tuple[tuple[str, str], ...]
    hidden: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to `policyc check`.

    `removable_together` is one maximal set of rules that may all be removed at once without any
    verdict changing, proved; each redundancy among the findings is true on its own. `undecided` are
    the questions that a solver gave up on, in words. `n_policies` and `n_rules` are what was looked at,
    `rules` the kinds of findings that were looked for. `opaque` are the rules that ask for what is not
    decided: no finding says that they are useless. `config` is None where there is no configuration.
    """

    findings: tuple[Finding, ...]
    universe: UniverseUsed
    evidence: Evidence
    suppressed: tuple[Suppressed, ...] = ()
    removable_together: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    n_policies: int = 0
    n_rules: int = 0
    rules: tuple[CheckRule, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
    config: ConfigUsed | None = None
