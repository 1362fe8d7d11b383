# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc check`. Data only."""

from dataclasses import dataclass

from policyc.ir.diagnostics import Severity
from policyc.ir.results.common import Evidence, Finding, OpaquePart, Place, UniverseUsed
from policyc.ir.results.coverage import Coverage


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that a comment in the input suppresses, with the reason given, and the place (`by`)."""

    finding: Finding
    reason: str
    by: Place


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A kind of finding: its code, a title of a few words, and help that names the remedy."""

    code: str
    title: str
    help: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True)
class ConfigUsed:
    """A configuration that changes what is reported.

    `severities` are (code, severity or `off`) as configured, `hidden` are (code, the number of findings
    turned off).
    """

    file: str
    severities: tuple[tuple[str, str], ...]
    hidden: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to `policyc check`.

    `removable_together` is one maximal set of rules whose joint removal changes no verdict, proved; each
    redundancy among the findings is true alone. `undecided` are the questions that a solver gave up on,
    in words. `n_policies` and `n_rules` count what was checked, `rules` are the kinds of findings that
    were checked for. `opaque` are the rules with a requirement that policyc cannot decide: no finding
    calls them useless. `config` is None if there is no configuration, `coverage` without a cluster.
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
    coverage: Coverage | None = None
