# SPDX-License-Identifier: Apache-2.0
"""Results as workflow commands of GitHub Actions, which annotate the lines of a pull request.

The commands are `::error`, `::warning` and `::notice`. A step shows the first ten of each, so further
entries are plain lines of the log.
"""

from collections import Counter
from collections.abc import Iterable

from policyc.backends.report.entries import (
    Entry,
    Level,
    check_entries,
    diff_entries,
    failure_entries,
    omitted_lines,
    place_in_work_tree,
    shown,
    verify_entries,
)
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.replay import replay_entries, replay_headline
from policyc.backends.report.words import (
    check_headline,
    clipped_lines,
    diff_headline,
    objects_words,
    verify_headline,
)
from policyc.ir.printable import printable, printable_line
from policyc.ir.results.check import CheckResult
from policyc.ir.results.diff import DiffResult
from policyc.ir.results.failure import Failure
from policyc.ir.results.replay import ReplayResult
from policyc.ir.results.verify import VerifyResult

FORMAT = "github"
WRITES_COMMANDS = True
MOST_ANNOTATIONS = 10
"""The annotations of one level that a step shows."""
MOST_NAMESPACES = 10
_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def diff_github(result: DiffResult, options: ReportOptions) -> str:
    """The answer, the changed policies, and an annotation for each region."""
    head = [f"policyc diff: {result.outcome.value}: {diff_headline(result)}"]
    if result.objects:
        head.append(objects_words(result.objects))
        summary = result.objects.summary
        head += clipped_lines(summary, MOST_NAMESPACES, "namespace", "namespaces")
    return _document([*head, *omitted_lines(result)], diff_entries(result), options)


def check_github(result: CheckResult, options: ReportOptions) -> str:
    """The answer, and an annotation for each finding."""
    return _document([f"policyc check: {check_headline(result)}"], check_entries(result), options)


def verify_github(result: VerifyResult, options: ReportOptions) -> str:
    """The answer, and an annotation for each intent that does not hold."""
    entries = (each for each in verify_entries(result) if each.level is not Level.HOLDS)
    return _document([f"policyc verify: {verify_headline(result)}"], entries, options)


def replay_github(result: ReplayResult, options: ReportOptions) -> str:
    """The answer, and an annotation for each observed flow that is denied or affected."""
    head = [f"policyc replay: {replay_headline(result)}"]
    return _document(head, replay_entries(result), options)


def failure_github(failure: Failure, options: ReportOptions) -> str:
    """An annotation for each error that stopped the command."""
    head = [f"policyc failed with exit code {failure.exit_code}"]
    return _document(head, failure_entries(failure), options)


def _document(head: list[str], entries: Iterable[Entry], options: ReportOptions) -> str:
    lines = [printable_line(line) for line in head]
    n_of_level: Counter[Level] = Counter()
    for entry in entries:
        n_of_level[entry.level] += 1
        if n_of_level[entry.level] <= MOST_ANNOTATIONS:
            lines.append(_annotation(entry, options))
        else:
            where = f"{entry.span}: " if entry.span else ""
            lines.append(printable_line(f"{where}{entry.level.value}: {entry.title}"))
    return "\n".join(lines) + "\n"


def _annotation(entry: Entry, options: ReportOptions) -> str:
    """`::error file=F,line=N,col=N,title=T::message`."""
    properties = place_in_work_tree(entry.span, options) if entry.span else {}
    properties["title"] = f"policyc {entry.kind}"
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    open_ = "" if entry.is_decided else "undecided: "
    message = shown([f"{open_}{entry.title}", *entry.lines])
    return f"::{_COMMANDS[entry.level]} {given}::{_data(message)}"


def _data(text: str) -> str:
    """A message as the runner reads it: it decodes these escapes alone."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


RENDERERS = {
    DiffResult: diff_github,
    CheckResult: check_github,
    VerifyResult: verify_github,
    ReplayResult: replay_github,
    Failure: failure_github,
}
