# SPDX-License-Identifier: Apache-2.0
"""The listing as a Markdown table, with every name escaped and the length limited."""

from policyc.backends.report.listing import isolation_words, listing_headline, other_side
from policyc.backends.report.markdown_text import code, escaped
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.words import evidence_words
from policyc.ir.counts import counted
from policyc.ir.results.listing import Exposure, ListedLine, ListResult

FORMAT = "markdown"
MAX_CHARACTERS = 60_000
"""A comment on a pull request may have 65,536 characters."""


def listing_markdown(result: ListResult, _options: ReportOptions) -> str:
    """The headline, a table of lines, the exposure on request, and the evidence."""
    head = [f"**{escaped(listing_headline(result))}**", ""]
    if result.undecided:
        head = [f"**not decided:** {escaped(result.undecided)}", "", *head]
    foot = [f"- {escaped(note)}" for note in result.notes]
    foot.append(f"- universe: {escaped(result.universe.words)}")
    foot.append(f"- certified by: {escaped(evidence_words(result.evidence))}")
    rows = [_row(line) for line in result.lines]
    for exposure in result.exposures or ():
        rows += _exposure_rows(exposure)
    room = MAX_CHARACTERS - sum(map(len, (*head, *foot)))
    shown = _that_fit(rows, room)
    omitted = result.omitted_lines + len(rows) - len(shown)
    more = [f"\n{omitted} more lines not shown."] if omitted else []
    if result.omitted_exposures:
        more.append(
            f"\nThe exposure of {counted(result.omitted_exposures, 'more group')} is not shown."
        )
    table = ["| from | to | services |", "|---|---|---|", *shown]
    return "\n".join([*head, *table, *more, "", *foot]) + "\n"


def _row(line: ListedLine) -> str:
    only = f" (IPv{line.families[0]})" if len(line.families) == 1 else ""
    return f"| {code(line.src)} | {code(line.dst)} | {escaped(line.services)}{only} |"


def _exposure_rows(exposure: Exposure) -> list[str]:
    """An exposure as rows of the same table: source, destination, services."""
    ingress = other_side(exposure.direction) == "from"

    def row(who: str, services: str) -> str:
        ends = (code(who), code(exposure.name)) if ingress else (code(exposure.name), code(who))
        return f"| {ends[0]} | {ends[1]} | {escaped(services)} |"

    rows = []
    state = f"{exposure.direction.value}: {isolation_words(exposure)}"
    if exposure.cluster:
        rows.append(row("every pod", f"{exposure.cluster}; {state}"))
    rows += [row(each.who, f"{each.services}; {state}") for each in exposure.outside]
    for peer in exposure.potential:
        rows.append(row(f"{peer.who} (none exist now)", f"{peer.services}; {peer.place.words}"))
    return rows or [row("no peer in general", state)]


def _that_fit(rows: list[str], room: int) -> list[str]:
    shown = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        shown.append(row)
    return shown


RENDERERS = {ListResult: listing_markdown}
