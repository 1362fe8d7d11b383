# SPDX-License-Identifier: Apache-2.0
"""Warnings that a comment in their file suppresses: `# policyc:ignore=PC0503 reason`.

`check` reports them with the reason, and mistakes in such comments. Other commands only leave them out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from policyc.compiler.driver.check.codes import RULES
from policyc.compiler.driver.check.ignores import Ignore, ignores_in
from policyc.compiler.frontend.yaml.git_commits import SCHEME, git_source
from policyc.compiler.frontend.yaml.sources import PathSource, contents
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError

_CODES = frozenset(rule.code for rule in RULES)


def without_suppressed(
    findings: Iterable[Diagnostic],
) -> tuple[list[Diagnostic], Counter[str]]:
    """The findings that no comment suppresses, and the codes of the others.

    The files are read again. Standard input and rendered text are not: their findings stay.
    """
    given = list(findings)
    by_file: defaultdict[str, list[Diagnostic]] = defaultdict(list)
    for finding in given:
        if not finding.is_error and finding.code in _CODES:
            by_file[finding.span.file].append(finding)
    ignores = {name: _ignores(name) for name in by_file}
    kept = [each for each in given if not _is_suppressed(each, ignores.get(each.span.file, ()))]
    return kept, Counter(each.code for each in given) - Counter(each.code for each in kept)


def _is_suppressed(finding: Diagnostic, ignores: Sequence[Ignore]) -> bool:
    is_one = not finding.is_error
    return is_one and any(each.covers(finding.code, finding.span) for each in ignores)


def _ignores(name: str) -> Sequence[Ignore]:
    """The comments of a file, by its name in findings; none if it cannot be read again."""
    if name.startswith("<"):
        return ()
    found: list[Ignore] = []
    with suppress(InputError, OSError):
        source = git_source(name) if name.startswith(SCHEME) else PathSource(name)
        for content in contents([source], Report()):
            found += ignores_in(name, content.data.decode("utf-8", "replace"), [])
    return found
