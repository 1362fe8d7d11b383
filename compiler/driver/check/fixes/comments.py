# SPDX-License-Identifier: Apache-2.0
"""Edits that remove codes from comments that ignore findings, or the whole comment."""

import re
from collections.abc import Collection

from policyc.compiler.driver.check.fixes.edits import Edit, NotEditableError, line_end, line_start
from policyc.ir.results.common import Finding

_CODES = re.compile(r"#\s*policyc:ignore=(?P<codes>\S+)")


def unused_code(finding: Finding) -> str:
    """The code that a comment ignores in vain: the finding's key is `FILE|CODE|REASON`."""
    return finding.key.removeprefix(f"{finding.place.span.file}|").partition("|")[0]


def comment_on(text: str, line: int) -> re.Match[str]:
    """The comment on a line, from 1. Raises NotEditableError."""
    begin = 0
    for _ in range(line - 1):
        begin = line_end(text, begin)
    comment = _CODES.search(text, begin, line_end(text, begin))
    if comment is None:
        raise NotEditableError("the comment is not where it was read")
    return comment


def without_codes(text: str, comment: re.Match[str], unused: Collection[str]) -> Edit:
    """The edit that removes codes from a comment; the comment goes with its last code."""
    codes = [each for each in comment["codes"].split(",") if each]
    kept = [each for each in codes if each not in unused]
    if kept:
        return Edit(*comment.span("codes"), ",".join(kept))
    begin, finish = line_start(text, comment.start()), line_end(text, comment.start())
    before = text[begin : comment.start()]
    if not before.strip():
        return Edit(begin, finish)
    return Edit(begin + len(before.rstrip(" \t")), len(text[:finish].rstrip("\r\n")))
