# SPDX-License-Identifier: Apache-2.0
"""The listing as text: how many ends may talk, then merged lines of connections."""

from policyc.backends.report.listing import isolation_words, listing_headline, other_side
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, Page
from policyc.backends.report.verdicts import where
from policyc.backends.report.words import evidence_words
from policyc.ir.results.listing import EndGroup, Exposure, ListedLine, ListResult

FORMAT = "text"


def listing_text(result: ListResult, options: ReportOptions) -> str:
    """The headline, the lines, the exposure on request, and the certification."""
    page = Page()
    if result.undecided:
        page.add(("not decided", f"{STRONG} {BAD}"), f": {result.undecided}")
    page.add((listing_headline(result), STRONG))
    page.gap()
    for line in result.lines:
        _line(page, line)
    if result.omitted_lines:
        page.add(f"{result.omitted_lines} more lines not shown; --all shows them")
    page.gap()
    if result.exposures is not None:
        _exposures(page, result.exposures)
        if result.omitted_exposures:
            page.add(f"the exposure of {result.omitted_exposures} more groups is not shown")
        page.gap()
    if options.is_full:
        _groups(page, result.groups)
    for note in result.notes:
        page.add(f"note: {note}")
    page.add((f"universe: {result.universe.words}", FAINT))
    page.add((f"certified by: {evidence_words(result.evidence)}", FAINT))
    return page.to_text(options)


def _line(page: Page, line: ListedLine) -> None:
    only = f" (IPv{line.families[0]})" if len(line.families) == 1 else ""
    page.add(f"{line.src} -> {line.dst}: ", (line.services, GOOD), only)


def _groups(page: Page, groups: tuple[EndGroup, ...]) -> None:
    page.add(("groups", STRONG))
    for group in groups:
        page.add(f"{group.number}. {group.name}", indent=2, hanging=4)
        if group.members != (group.name,):
            page.add((", ".join(group.members), FAINT), indent=6, hanging=0)
    page.gap()


def _exposures(page: Page, exposures: tuple[Exposure, ...]) -> None:
    name = None
    for exposure in exposures:
        if exposure.group != name:
            page.gap()
            page.add((exposure.name, STRONG))
            name = exposure.group
        _exposure(page, exposure)


def _exposure(page: Page, exposure: Exposure) -> None:
    """One direction: the policies that isolate, then the open services by peer."""
    direction = exposure.direction.value
    page.add(f"{direction}: {isolation_words(exposure)}", indent=2)
    side = other_side(exposure.direction)
    if exposure.cluster:
        page.add(f"{side} every pod: ", (exposure.cluster, GOOD), indent=4)
    for each in exposure.outside:
        page.add(f"{side} {each.who}: ", (each.services, GOOD), indent=4)
    for peer in exposure.potential:
        place = f" ({peer.place.words}, {where(peer.place.span)})"
        page.add(f"{side} {peer.who} (none exist now): {peer.services}", place, indent=4)


RENDERERS = {ListResult: listing_text}
