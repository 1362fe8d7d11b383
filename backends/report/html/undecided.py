# SPDX-License-Identifier: Apache-2.0
"""What the report does not decide, and what it leaves out: shown first, so that it is never missed."""

from collections.abc import Iterator

from policyc.backends.report.words import left_out_words, opaque_notes
from policyc.ir.counts import counted
from policyc.ir.results.check import CheckResult
from policyc.ir.results.diff import DiffOutcome, DiffResult
from policyc.ir.results.listing import ListResult
from policyc.ir.results.report import Report
from policyc.ir.results.verify import IntentStatus, VerifyResult


def undecided(report: Report) -> list[str]:
    """A sentence for each open question, and for regions that are not shown; each once."""
    found = [*_check(report.check)]
    if report.intents is not None:
        found = [*_intents(report.intents), *found]
    if report.listing is not None:
        found = [*_listing(report.listing), *found]
    if report.diff is not None:
        found = [*_diff(report.diff), *found]
    return list(dict.fromkeys(found))


def _diff(diff: DiffResult) -> Iterator[str]:
    if diff.outcome is DiffOutcome.UNDECIDED:
        yield f"whether verdicts differ is not decided: {diff.undecided}".removesuffix(": ")
    if diff.possible:
        yield f"{counted(len(diff.possible), 'region')} may differ: opaque rules decide"
    yield from opaque_notes(diff.opaque)
    for words in (
        left_out_words(diff.counts, diff.differences),
        left_out_words(diff.possible_counts, diff.possible),
    ):
        if words:
            yield words


def _listing(listing: ListResult) -> Iterator[str]:
    if listing.undecided:
        yield listing.undecided
    if listing.omitted_connections:
        yield f"not shown: {listing.omitted_connections} allowed pairs of groups"


def _intents(result: VerifyResult) -> Iterator[str]:
    for each in result.intents:
        if each.status is IntentStatus.UNDECIDED:
            yield f"the intent {each.title} is not decided: {each.explanation}"


def _check(result: CheckResult) -> Iterator[str]:
    for each in result.undecided:
        yield f"check does not decide {each}"
    yield from opaque_notes(result.opaque)
