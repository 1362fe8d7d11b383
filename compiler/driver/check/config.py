# SPDX-License-Identifier: Apache-2.0
"""The configuration of `check`: how severe each finding is. See docs/schemas/config.schema.json."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from policyc.compiler.driver.check.codes import (
    BAD_CONFIG,
    RULES,
    UNKNOWN_CODE,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.codes_git import NOT_IN_COMMIT
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.sources import (
    GIT_SCHEME,
    PathSource,
    contents,
    read_found,
    read_whole,
)
from policyc.compiler.frontend.yaml.tree import Mapping as YamlMapping
from policyc.compiler.frontend.yaml.tree import (
    Node,
    Scalar,
)
from policyc.ir.diagnostics import Report, Severity
from policyc.ir.errors import InputError
from policyc.ir.results.check import CheckRule, ConfigUsed
from policyc.ir.results.common import Finding
from policyc.ir.spans import Span

CONFIG_FILE = ".policyc.yaml"
OFF = "off"
_NOT_COMMITTED = (
    "PATH counts from the root of the repository; where the commit has no configuration, "
    "`--config /dev/null` uses none"
)
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


def read_config(path: str | None, folder: Path | None = None) -> CheckConfig:
    """The configuration in `path`, or the .policyc.yaml nearest to a folder, by default to the current.

    `path` may be `git:REV:PATH`. Without it the file may be missing, and may not be a link, because the
    user did not name it. Raises InputError with all its mistakes.
    """
    report = Report()
    if path is None:
        path = nearest_config(folder or Path())
        if path is None:
            return DEFAULTS
        data = read_found(path, report)
    elif path.startswith(GIT_SCHEME):
        data = _committed(path, report)
    else:
        data = read_whole(PathSource(path), report)
    documents = [] if data is None else list(read_documents(data, path, report))
    found: dict[str, Severity | None] = {}
    for document in documents[:1]:
        _read(document, report, found)
    for extra in documents[1:]:
        _wrong(report, extra.span, "the file", "it has more than one document")
    if report.errors:
        raise InputError(report.sorted())
    return CheckConfig(found, path)


def nearest_config(folder: Path) -> str | None:
    """The .policyc.yaml of a folder, or of the nearest one above it in the same repository.

    The search ends at the folder that has `.git`: files above it are not under review. Outside of a
    repository only the folder itself counts.
    """
    above = [folder, *folder.absolute().parents]
    root = next((at for at, each in enumerate(above) if os.path.lexists(each / ".git")), 0)
    for each in above[: root + 1]:
        path = each / CONFIG_FILE
        if os.path.lexists(path):
            return os.path.relpath(path, folder) if each != folder else str(path)
    return None


def _committed(path: str, report: Report) -> bytes | None:
    """The file as it is in a commit: a change under review cannot touch it."""
    from policyc.compiler.frontend.yaml.git_commits import git_source

    suffixes = (CONFIG_FILE,)
    said = Report()
    found = list(contents([git_source(path)], said, suffixes))
    for each in said.findings:
        report.add(each.help(_NOT_COMMITTED) if each.code == NOT_IN_COMMIT.name else each)
    return found[0].data if len(found) == 1 else None


def _read(document: Node, report: Report, found: dict[str, Severity | None]) -> None:
    if document.is_null:
        return
    check = _only(document, "", ("check",), report)
    severities = _only(check, "check", ("severities",), report)
    if severities is None:
        return
    if not isinstance(severities, YamlMapping):
        _wrong(report, severities.span, "check.severities", "expected codes with severities")
        return
    known = {rule.code for rule in RULES}
    for code, entry in severities:
        if code not in known:
            hint = did_you_mean(code, known) or "docs/check.md lists them"
            report.add(UNKNOWN_CODE.at(entry.key.span, "check.severities", code=code).help(hint))
            continue
        said = _severity(entry.value)
        if said not in (*_SEVERITIES, OFF):
            where = f"check.severities.{code}"
            problem = f"expected error, warning, note or off, found {entry.value.describe()}"
            hint = did_you_mean(said, (*_SEVERITIES, OFF))
            report.add(
                BAD_CONFIG.at(entry.value.span, where, where=where, problem=problem).help(hint)
            )
            continue
        found[code] = _SEVERITIES.get(said)


def _severity(value: Node) -> str:
    """The severity as written; YAML 1.1 reads a plain `off` as a boolean."""
    return value.text.lower() if isinstance(value, Scalar) else ""


def _only(node: Node | None, where: str, fields: tuple[str, ...], report: Report) -> Node | None:
    """The value of the only field that a mapping may have."""
    if node is None or node.is_null:
        return None
    if not isinstance(node, YamlMapping):
        _wrong(
            report, node.span, where or "the file", f"expected a mapping, found {node.describe()}"
        )
        return None
    for name, entry in node:
        if name not in fields:
            finding = BAD_CONFIG.at(
                entry.key.span,
                where,
                where=where or "the file",
                problem=f"there is no field `{name}`",
            )
            report.add(finding.help(did_you_mean(name, fields)))
    return node.get(fields[0])


def _wrong(report: Report, span: Span, where: str, problem: str) -> None:
    report.add(BAD_CONFIG.at(span, where, where=where, problem=problem))
