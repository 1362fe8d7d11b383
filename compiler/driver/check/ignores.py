# SPDX-License-Identifier: Apache-2.0
"""Comments that ignore findings: `# policyc:ignore=PC2003 reason`, for a rule or a whole policy.

A comment applies to the line that it is on. On a line of its own, it applies to the next line that is
not a comment. On the `kind` or `metadata` line of an object it applies to everything in the object. The
YAML reader drops comments, so this module reads them from the text, line by line.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from policyc.compiler.driver.check.codes import (
    IGNORE_WITHOUT_CODE,
    IGNORE_WITHOUT_REASON,
    RULES,
    UNKNOWN_CODE,
    UNUSED_IGNORE,
)
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.results.check import Suppressed
from policyc.ir.results.common import Finding, Place
from policyc.ir.spans import Span

_WORD = "policyc:ignore"
_COMMENT = re.compile(r"(?:^|\s)#\s*policyc:ignore(?P<rest>.*)$")
_KEY = re.compile(r"^(?P<lead>\s*(?:-\s+)*)(?P<key>[A-Za-z]+)\s*:(?:\s|$)")
_OF_OBJECTS = {"apiVersion", "kind", "metadata"}
_EXAMPLE = "write `# policyc:ignore=PC2003 why it is wanted`"


@dataclass(frozen=True, slots=True)
class Ignore:
    """One code that a comment ignores, on lines `first` to `last` of a file."""

    code: str
    reason: str
    span: Span
    first: int
    last: int

    def covers(self, code: str, span: Span) -> bool:
        """Whether the comment is about a finding with this code and place."""
        is_there = span.file == self.span.file and self.first <= span.line <= self.last
        return is_there and code == self.code


def read_ignores(texts: Mapping[str, str]) -> tuple[Ignore, ...]:
    """Every comment of some files. Raises InputError for comments without a code or a reason."""
    wrong: list[Diagnostic] = []
    found: list[Ignore] = []
    for name, text in texts.items():
        found += ignores_in(name, text, wrong)
    if wrong:
        raise InputError(wrong)
    return tuple(found)


def ignores_in(name: str, text: str, wrong: list[Diagnostic]) -> Iterator[Ignore]:
    """The comments of one file; mistakes go to `wrong`."""
    lines = text.split("\n") if _WORD in text else []
    for at, line in enumerate(lines):
        comment = _COMMENT.search(line)
        if comment is None:
            continue
        start = line.index("#", comment.start())
        span = Span(name, at + 1, start + 1, len(line.rstrip()) + 1)
        target = at if line[: comment.start()].strip() else _next_line(lines, at)
        first, last = _extent(lines, target)
        for code, reason in _asked(comment["rest"], span, wrong):
            yield Ignore(code, reason, span, first + 1, last + 1)


def _asked(rest: str, span: Span, wrong: list[Diagnostic]) -> Iterator[tuple[str, str]]:
    """The codes of a comment, with the reason."""
    words = rest.strip()
    listed, _, reason = words.removeprefix("=").partition(" ")
    names = [name for name in listed.split(",") if name]
    if not rest.startswith("=") or not names:
        wrong.append(IGNORE_WITHOUT_CODE.at(span).help(_EXAMPLE))
        return
    known = {rule.code for rule in RULES}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "docs/check.md lists them"
            wrong.append(UNKNOWN_CODE.at(span, code=name).help(hint))
        elif not reason.strip():
            wrong.append(IGNORE_WITHOUT_REASON.at(span, code=name).help(_EXAMPLE))
        else:
            yield name, reason.strip()


def _next_line(lines: list[str], at: int) -> int:
    """The next line that is not only a comment; the last one if there is none."""
    following = range(at + 1, len(lines))
    return next((n for n in following if _is_content(lines[n])), at)


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _extent(lines: list[str], at: int) -> tuple[int, int]:
    """The lines of the object if the line is its `kind` or `metadata`; else the line alone."""
    key = _KEY.match(lines[at])
    if key is None or key["key"] not in _OF_OBJECTS:
        return at, at
    depth = len(key["lead"])
    first, last = _up(lines, at, depth), _down(lines, at, depth)
    keys = (_KEY.match(line) for line in lines[first : last + 1])
    own = {found["key"] for found in keys if found and len(found["lead"]) == depth}
    return (first, last) if own >= _OF_OBJECTS else (at, at)


def _up(lines: list[str], at: int, depth: int) -> int:
    """The first line of the mapping that has a key at this depth."""
    while at > 0 and not _begins_item(lines[at], depth):
        before = lines[at - 1]
        if _is_border(before) or (_is_content(before) and not _is_inside(before, depth)):
            break
        at -= 1
    return at


def _down(lines: list[str], at: int, depth: int) -> int:
    while at + 1 < len(lines):
        following = lines[at + 1]
        is_other = _begins_item(following, depth) or not _is_inside(following, depth)
        if _is_border(following) or (_is_content(following) and is_other):
            break
        at += 1
    return at


def _is_border(line: str) -> bool:
    return line.startswith(("---", "..."))


def _begins_item(line: str, depth: int) -> bool:
    """The line begins an item of a list, whose keys are at this depth."""
    key = _KEY.match(line)
    return key is not None and "-" in key["lead"] and len(key["lead"]) == depth


def _is_inside(line: str, depth: int) -> bool:
    return len(line) - len(line.lstrip()) >= depth or _begins_item(line, depth)


def apply_ignores(
    findings: Iterable[Finding], ignores: tuple[Ignore, ...], looked_for: Collection[str]
) -> tuple[list[Finding], list[Suppressed]]:
    """The findings that stay, and those that a comment suppresses; unused comments are findings, too."""
    kept: list[Finding] = []
    quiet: list[Suppressed] = []
    used: set[Ignore] = set()
    for finding in findings:
        by = [each for each in ignores if each.covers(finding.code, finding.place.span)]
        used |= set(by)
        if by:
            place = Place(by[0].span, "", f"the comment at {by[0].span}")
            quiet.append(Suppressed(finding, by[0].reason, place))
        else:
            kept.append(finding)
    idle = (each for each in ignores if each not in used and each.code in looked_for)
    return [*kept, *map(_unused, idle)], quiet


def _unused(ignore: Ignore) -> Finding:
    code = UNUSED_IGNORE
    return Finding(
        code.name,
        code.severity,
        code.at(ignore.span, code=ignore.code).message,
        f"The comment gives the reason: {ignore.reason}",
        Place(ignore.span, "", "a comment"),
        f"{ignore.span.file}|{ignore.code}|{ignore.reason}",
        hint="remove the comment",
    )
