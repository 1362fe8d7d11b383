# SPDX-License-Identifier: Apache-2.0
"""The severities of findings, as `check.severities` of the configuration sets them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from policyc.compiler.driver.check.codes import (
    BAD_CONFIG,
    RULES,
    UNKNOWN_CODE,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import Mapping as YamlMapping
from policyc.compiler.frontend.yaml.tree import (
    Node,
    Scalar,
)
from policyc.ir.diagnostics import Report, Severity
from policyc.ir.results.check import CheckRule, ConfigUsed
from policyc.ir.results.common import Finding
from policyc.ir.spans import Span

FAIL_ON = ("error", "warning", "note", "none")
"""The severities from which `check` fails."""
OFF = "off"
_SEVERITIES = {severity.value: severity for severity in Severity}


@dataclass(frozen=True, slots=True)
class CheckConfig:
    """The severity of codes that the configuration names; None: the finding is off.

    `file` is the configuration's, empty if there is none.
    """

    severities: Mapping[str, Severity | None] = field(default_factory=dict, hash=False)
    file: str = ""

    def findings(self, found: Iterable[Finding]) -> list[Finding]:
        """The findings with the configured severities, without those that are off."""
        shown = []
        for finding in found:
            severity = self.severities.get(finding.code, finding.severity)
            if severity is not None:
                shown.append(replace(finding, severity=severity))
        return shown

    def used(self, found: Iterable[Finding]) -> ConfigUsed | None:
        """The configured values, and the number of findings that they hide; None: no configuration."""
        if not self.file:
            return None
        words = {code: s.value if s is not None else OFF for code, s in self.severities.items()}
        off = [each.code for each in found if words.get(each.code) == OFF]
        return ConfigUsed(self.file, tuple(words.items()), tuple(sorted(Counter(off).items())))

    def rules(self, rules: Iterable[CheckRule]) -> tuple[CheckRule, ...]:
        """The checked kinds of findings, with the configured severities."""
        given = ((rule, self.severities.get(rule.code, rule.severity)) for rule in rules)
        return tuple(replace(rule, severity=s) for rule, s in given if s is not None)


DEFAULTS = CheckConfig()


def severities_of(node: Node | None, where: str, report: Report) -> dict[str, Severity | None]:
    """The severity of each code in a mapping; mistakes go to `report`. None: the finding is off."""
    found: dict[str, Severity | None] = {}
    if node is None or node.is_null:
        return found
    if not isinstance(node, YamlMapping):
        wrong(report, node.span, where, "expected codes with severities")
        return found
    known = {rule.code for rule in RULES}
    for code, entry in node:
        if code not in known:
            hint = did_you_mean(code, known) or "docs/check.md lists them"
            report.add(UNKNOWN_CODE.at(entry.key.span, where, code=code).help(hint))
            continue
        said = _severity(entry.value)
        if said not in (*_SEVERITIES, OFF):
            problem = f"expected error, warning, note or off, found {entry.value.describe()}"
            hint = did_you_mean(said, (*_SEVERITIES, OFF))
            wrong(report, entry.value.span, f"{where}.{code}", problem, hint)
            continue
        found[code] = _SEVERITIES.get(said)
    return found


def _severity(value: Node) -> str:
    """The severity as written; YAML 1.1 reads a plain `off` as a boolean."""
    return value.text.lower() if isinstance(value, Scalar) else ""


def wrong(report: Report, span: Span, where: str, problem: str, hint: str = "") -> None:
    """Report a mistake in the configuration."""
    report.add(BAD_CONFIG.at(span, where, where=where or "the file", problem=problem).help(hint))
