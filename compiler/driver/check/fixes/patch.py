# SPDX-License-Identifier: Apache-2.0
"""Fixed files as a unified diff that `git apply` and `patch -p1` accept."""

import difflib
import os
from collections.abc import Iterable, Iterator

from policyc.compiler.driver.check.codes import NOT_IN_PATCH
from policyc.compiler.driver.check.fixes.plan import FixedFile, Plan
from policyc.ir.counts import counted
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

_NO_END = "\\ No newline at end of file\n"
_NOTHING = "/dev/null"


def patch(plan: Plan, universe: str) -> str:
    """The diff, after a sentence that tells where it holds; empty if there is no fix.

    Paths are relative to the working directory. Raises InputError for a file that is not in it.
    """
    if not plan.files:
        return ""
    fixes, files = counted(plan.n_fixes, "fix", "fixes"), counted(len(plan.files), "file")
    head = f"policyc check: {fixes} in {files}. No verdict and no effect changes for {universe}.\n"
    return head + "".join(line for each in plan.files for line in _difference(each))


def _difference(fixed: FixedFile) -> Iterator[str]:
    name = relative_name(fixed)
    end = "\t" if " " in name else ""  # a tab ends a name with spaces, as in the diffs of git
    old = _lines(fixed.content.data)
    new = _lines(fixed.new or b"")
    yield f"--- a/{name}{end}\n"
    yield f"+++ {_NOTHING if fixed.new is None else f'b/{name}{end}'}\n"
    yield from _ended(list(difflib.unified_diff(old, new, n=3))[2:])


def relative_name(fixed: FixedFile) -> str:
    """The path of a file from the working directory. Raises InputError if a patch cannot name it."""
    path = os.path.relpath(fixed.content.path)
    if path.startswith("..") or not path.isprintable() or '"' in path or "\\" in path:
        raise InputError([NOT_IN_PATCH.at(Span(fixed.content.name, 0, 0), name=fixed.content.name)])
    return path


def _lines(data: bytes) -> list[str]:
    """Lines with their ends; only a line feed ends a line of a diff."""
    parts = data.decode("utf-8").split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{_NO_END}"
