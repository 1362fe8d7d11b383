# SPDX-License-Identifier: Apache-2.0
"""The part of the page about the allowed connections of a cluster, as `list` finds them."""

from collections.abc import Iterable
from dataclasses import dataclass

from policyc.backends.report.html.ends import CLUSTER, EXTERNAL, MatrixEnd
from policyc.backends.report.html.markup import Markup, cells, joined, table, tag
from policyc.backends.report.html.places import Places
from policyc.ir.results.listing import Exposure, ListResult

ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The services that one end may use of others; ends by their number on the page."""

    src: int
    dst: tuple[int, ...]
    services: str
    families: tuple[int, ...]


def listed_ends(listing: ListResult) -> tuple[MatrixEnd, ...]:
    """The groups as ends of a matrix."""
    return tuple(
        MatrixEnd(each.name, EXTERNAL if each.kind == "outside" else CLUSTER, each.members)
        for each in listing.groups
    )


def allowed(listing: ListResult) -> list[Allowed]:
    """The connections, those of one source put together that have the same services."""
    place = {group.number: at for at, group in enumerate(listing.groups)}
    found: dict[tuple[int, str, tuple[int, ...]], list[int]] = {}
    for each in listing.connections:
        key = (place[each.src], each.services, each.families)
        found.setdefault(key, []).append(place[each.dst])
    return [
        Allowed(src, tuple(dst), services, families)
        for (src, services, families), dst in sorted(found.items())
    ]


def connections(listing: ListResult, places: Places) -> Markup:
    """A row for each source and set of services, and the rules that isolate and select each group."""
    ends = listed_ends(listing)
    rows = [_row(number, each, ends) for number, each in enumerate(allowed(listing))]
    heads = ("Verdict", "From", "To", "Services")
    shown = table("Allowed connections", heads, rows, id="regions")
    talk = f"{listing.n_connected} pairs of groups may talk, {listing.n_silent} may not"
    exposed = _exposures(listing.exposures or (), listing, places)
    return joined((tag("p", talk), shown, exposed))


def _row(number: int, each: Allowed, ends: tuple[MatrixEnd, ...]) -> Markup:
    family = f" (IPv{each.families[0]} only)" if len(each.families) == 1 else ""
    to = tag("ul", *(tag("li", ends[at].name) for at in each.dst), class_="places")
    name = tag("span", f"+ {ALLOWED}", class_=f"badge {ALLOWED}")
    content = cells(name, ends[each.src].name, to, f"{each.services}{family}")
    return tag("tr", content, id=f"region-{number}", data_state=ALLOWED, data_certain="yes")


def _exposures(given: Iterable[Exposure], listing: ListResult, places: Places) -> Markup:
    place = {group.number: at for at, group in enumerate(listing.groups)}
    rows = [
        tag(
            "tr",
            cells(
                each.name,
                each.direction.value,
                places.links(each.isolated_by, "not isolated: all is allowed"),
                places.links(each.selected_by, "no policy"),
            ),
            id=f"exposure-{place[each.group]}-{each.direction.value}",
        )
        for each in given
    ]
    heads = ("Group", "Direction", "Isolated by", "Policies with rules for it")
    return table("Policies of each group", heads, rows) if rows else Markup()
