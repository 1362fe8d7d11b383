# SPDX-License-Identifier: Apache-2.0
"""The listing as CSV (RFC 4180, lines ended by LF): one row for a pair of groups and a service range."""

import csv
import io

from policyc.backends.report.listing import range_words
from policyc.backends.report.options import ReportOptions
from policyc.ir.printable import printable
from policyc.ir.results.listing import EndGroup, ListResult

FORMAT = "csv"
HEAD = (
    "source",
    "source_kind",
    "source_members",
    "destination",
    "destination_kind",
    "destination_members",
    "families",
    "protocol",
    "ports",
    "source_ports",
)
_FORMULA = ("=", "+", "-", "@")


def listing_csv(result: ListResult, _options: ReportOptions) -> str:
    """A header, then the rows in order; members are separated by spaces."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    groups = {group.number: group for group in result.groups}
    for each in result.connections:
        ends = (*_end(groups[each.src]), *_end(groups[each.dst]))
        families = " ".join(f"IPv{family}" for family in each.families)
        for found in each.ranges:
            sources = "" if found.sources is None else f"{found.sources[0]}-{found.sources[1]}"
            row = (*ends, families, found.protocol, range_words(found), sources)
            writer.writerow([_harmless(printable(cell)) for cell in row])
    return out.getvalue()


def _end(group: EndGroup) -> tuple[str, str, str]:
    return group.name, group.kind, " ".join(group.members)


def _harmless(cell: str) -> str:
    """A cell that no spreadsheet reads as a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


RENDERERS = {ListResult: listing_csv}
