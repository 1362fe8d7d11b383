# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc list`. Data only."""

from dataclasses import dataclass

from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Direction
from policyc.ir.results.common import Evidence, Place, UniverseUsed
from policyc.ir.services import ALL_SERVICES, Kind, kind_span


@dataclass(frozen=True, slots=True)
class EndGroup:
    """Ends that behave equally: they reach, and are reached by, the same ends for the same services.

    `kind` is `pods`, `nodes` or `outside`; `name` is the group in words; `members` are its ends by name,
    or merged CIDRs. `families` are those in which it can talk. `is_focus`: the user asked for it with
    --focus.
    """

    number: int
    kind: str
    name: str
    members: tuple[str, ...]
    families: tuple[int, ...]
    is_focus: bool = False


@dataclass(frozen=True, slots=True)
class ServiceRange:
    """Consecutive services of a protocol: ports, ICMP `type << 8 | code`, or protocol numbers.

    `sources` are the source ports (first, last) if rules read them, else None.
    """

    protocol: str
    first: int
    last: int
    sources: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ListedConnection:
    """The services that one group may use of another, by the numbers of the groups, in some families."""

    src: int
    dst: int
    families: tuple[int, ...]
    services: str
    ranges: tuple[ServiceRange, ...]


@dataclass(frozen=True, slots=True)
class ListedLine:
    """Connections merged for a reader: several groups to several groups, in words."""

    src: str
    dst: str
    services: str
    families: tuple[int, ...]
    n_connections: int


@dataclass(frozen=True, slots=True)
class ExposedTo:
    """A peer that a group's own rules allow, and for which services."""

    who: str
    services: str


@dataclass(frozen=True, slots=True)
class PotentialPeer:
    """A rule that allows pods which the cluster does not have now."""

    who: str
    services: str
    place: Place


@dataclass(frozen=True, slots=True)
class Exposure:
    """The exposure of a group in one direction: what its own rules allow, whatever the other end says.

    `isolated_by` are the policies that isolate the group; empty: not isolated, so everything passes.
    `selected_by` are all policies with rules for it. `cluster` are the services open to every pod,
    `outside` the external clients or destinations that are allowed, `potential` the rules for pods that
    do not exist now.
    """

    group: int
    name: str
    direction: Direction
    isolated_by: tuple[Place, ...]
    selected_by: tuple[Place, ...]
    cluster: str
    outside: tuple[ExposedTo, ...]
    potential: tuple[PotentialPeer, ...]


@dataclass(frozen=True, slots=True)
class ListResult:
    """The answer to `policyc list`.

    `groups` are those that `connections` and `exposures` name. `n_groups` counts all groups,
    `n_connected` and `n_silent` the ordered pairs of them that may talk, and that may not. `lines` and
    `connections` are cut by --limit; the omitted ones are counted. `focus` is the user's --focus, empty
    for everything.
    """

    universe: UniverseUsed
    evidence: Evidence
    groups: tuple[EndGroup, ...]
    connections: tuple[ListedConnection, ...]
    lines: tuple[ListedLine, ...]
    n_groups: int
    n_connected: int
    n_silent: int
    omitted_connections: int = 0
    omitted_lines: int = 0
    exposures: tuple[Exposure, ...] | None = None
    omitted_exposures: int = 0
    focus: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    undecided: str = ""


def service_ranges(
    keys: IntervalSet, sources: tuple[int, int] | None = None
) -> tuple[ServiceRange, ...]:
    """A set of service keys, protocol by protocol; `any` alone for every service."""
    if keys == ALL_SERVICES:
        return (ServiceRange("any", 0, 0, sources),)
    return tuple(
        ServiceRange(kind.name, lo & 0xFFFF, hi & 0xFFFF, sources)
        for kind in Kind
        for lo, hi in keys & kind_span(kind)
    )
