# SPDX-License-Identifier: Apache-2.0
"""The listing as JSON: groups with their members, and the services between each pair of groups."""

from policyc.backends.report.formats.json import (
    document,
    evidence_json,
    place_json,
    universe_json,
)
from policyc.backends.report.listing import ICMP, PORTS
from policyc.backends.report.options import ReportOptions
from policyc.ir.results.listing import (
    EndGroup,
    Exposure,
    ListedConnection,
    ListResult,
    ServiceRange,
)

FORMAT = "json"


def listing_json(result: ListResult, _options: ReportOptions) -> str:
    """docs/schemas/list-v1.schema.json."""
    shown = None if result.exposures is None else [_exposure(e) for e in result.exposures]
    return document(
        "list/v1",
        result="undecided" if result.undecided else "listed",
        **({"undecided": result.undecided} if result.undecided else {}),
        universe=universe_json(result.universe),
        evidence=evidence_json(result.evidence),
        focus=list(result.focus),
        counts={
            "groups": result.n_groups,
            "connected_pairs": result.n_connected,
            "silent_pairs": result.n_silent,
        },
        groups=[_group(group) for group in result.groups],
        connections=[_connection(each) for each in result.connections],
        omitted=result.omitted_connections,
        **({} if shown is None else {"exposure": shown}),
        **({} if shown is None else {"omitted_exposure": result.omitted_exposures}),
        notes=list(result.notes),
    )


def _group(group: EndGroup) -> dict[str, object]:
    return {
        "group": group.number,
        "kind": group.kind,
        "name": group.name,
        "members": list(group.members),
        "families": list(group.families),
        "focus": group.is_focus,
    }


def _connection(connection: ListedConnection) -> dict[str, object]:
    return {
        "from": connection.src,
        "to": connection.dst,
        "families": list(connection.families),
        "services": connection.services,
        "ranges": [service_range_json(each) for each in connection.ranges],
    }


def service_range_json(given: ServiceRange) -> dict[str, object]:
    """A range of services: of ports, of ICMP types and codes, or of protocol numbers."""
    shown: dict[str, object] = {"protocol": given.protocol}
    if given.protocol in PORTS:
        shown["ports"] = [given.first, given.last]
    elif given.protocol in ICMP:
        shown["icmp"] = [[value >> 8, value & 0xFF] for value in (given.first, given.last)]
    elif given.protocol != "any":
        shown["numbers"] = [given.first, given.last]
    if given.sources is not None:
        shown["source_ports"] = list(given.sources)
    return shown


def _exposure(exposure: Exposure) -> dict[str, object]:
    return {
        "group": exposure.group,
        "direction": exposure.direction.value,
        "isolated": bool(exposure.isolated_by),
        "isolated_by": [place_json(place) for place in exposure.isolated_by],
        "selected_by": [place_json(place) for place in exposure.selected_by],
        "every_pod": exposure.cluster,
        "outside": [{"who": each.who, "services": each.services} for each in exposure.outside],
        "potential": [
            {"who": each.who, "services": each.services, "place": place_json(each.place)}
            for each in exposure.potential
        ],
    }


RENDERERS = {ListResult: listing_json}
