# SPDX-License-Identifier: Apache-2.0
"""The data that the page's script draws: ends, and the regions between them by number."""

from policyc.backends.report.html.changes import SIGNS
from policyc.backends.report.html.connections import ALLOWED, allowed, listed_ends
from policyc.backends.report.html.ends import MatrixEnd, ends_of
from policyc.backends.report.words import DID
from policyc.ir.printable import json_text, printable
from policyc.ir.results.diff import DiffOutcome, DiffResult, n_regions
from policyc.ir.results.listing import ListResult
from policyc.ir.results.report import Report

MOST_MEMBERS = 50
"""The number of members of an end that the page names."""
NOT_DECIDED = "not decided"


def island(report: Report) -> str:
    """JSON without `<`, `>` and `&`, so that it cannot end the element that holds it."""
    data: dict[str, object] = {"ends": [], "regions": [], "unlisted": "", "overlap": False}
    if report.diff is not None:
        data = _of_diff(report.diff)
    elif report.listing is not None:
        data = _of_listing(report.listing)
    text = json_text(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _of_diff(diff: DiffResult) -> dict[str, object]:
    ends = ends_of(diff)
    states = [(DID[each.kind], True) for each in diff.differences]
    states += [(DID[each.kind], False) for each in diff.possible]
    return {
        "ends": [_end(each) for each in ends.all],
        "regions": [
            {"state": state, "certain": is_certain, "from": src, "to": dst}
            for (state, is_certain), (src, dst) in zip(states, ends.of_region, strict=True)
        ],
        "unlisted": _unlisted(diff, ends.is_partition),
        "overlap": not ends.is_partition,
        "signs": SIGNS,
    }


def _unlisted(diff: DiffResult, is_partition: bool) -> str:
    """What a cell without a region means. It means "same" only if all is decided and shown."""
    is_whole = all(each.is_complete for each in (*diff.counts, *diff.possible_counts))
    n_possible = n_regions(diff.possible_counts)
    is_shown = not n_regions(diff.omitted) and n_possible == len(diff.possible)
    if diff.undecided or (diff.outcome is DiffOutcome.UNDECIDED and not diff.possible):
        return NOT_DECIDED
    if not is_whole or not is_shown:
        return "no region shown"
    return "same" if is_partition else "no region of its own"


def _of_listing(listing: ListResult) -> dict[str, object]:
    return {
        "ends": [_end(each) for each in listed_ends(listing)],
        "regions": [
            {"state": ALLOWED, "certain": True, "from": (each.src,), "to": each.dst}
            for each in allowed(listing)
        ],
        "unlisted": "not shown" if listing.omitted_connections else "not allowed",
        "overlap": False,
        "signs": {ALLOWED: "+"},
    }


def _end(end: MatrixEnd) -> dict[str, object]:
    return {
        "name": printable(end.name),
        "kind": end.kind,
        "members": [printable(each) for each in end.members[:MOST_MEMBERS]],
        "n": len(end.members),
    }
