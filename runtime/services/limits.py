# SPDX-License-Identifier: Apache-2.0
"""Limits how much of the tables a Service, and all Services of a namespace, may use.

    limits = Limits(warn)
    limits.put(service, asked)      whenever a Service changes
    limits.settle()                 name -> what it gets of what it asks for, where that changed

The result depends only on the objects, so that every node decides alike: the oldest Services are kept.
Node ports count as if each node had four addresses of either family.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from policyc.runtime.services.objects import (
    EndpointSlice,
    Service,
)
from policyc.runtime.services.services import (
    Asked,
    Frontend,
    Kind,
    OwnNode,
    frontends_of,
)
from policyc.runtime.state import Warn, unheard

Name = tuple[str, str]
"""Namespace and name."""
_YOUNGEST = "~"


class Demand(NamedTuple):
    """An amount of room in the tables."""

    sites: int
    """How many addresses and ports."""
    endpoints: int
    """How many endpoints behind them, counted for each address and port."""
    ranges: int
    slots: int
    """Entries of Maglev tables."""

    def plus(self, other: "Demand") -> "Demand":
        """The sum of both."""
        return Demand(*(a + b for a, b in zip(self, other, strict=True)))

    def fits(self, room: "Demand") -> bool:
        """Whether all of it fits into the room."""
        return all(a <= b for a, b in zip(self, room, strict=True))


_NOTHING = Demand(0, 0, 0, 0)
NODE_LIMIT = Demand(sites=32768, endpoints=65534, ranges=8192, slots=1048576)
"""Of a whole node: what the maps hold. It does not depend on the node, so that all decide alike."""
NAMESPACE_LIMIT = Demand(*(each // 2 for each in NODE_LIMIT))
OBJECT_LIMIT = Demand(NODE_LIMIT.sites // 8, *(each // 4 for each in NODE_LIMIT[1:]))


def asked_of(service: Service, slices: list[EndpointSlice], own: OwnNode) -> Asked:
    """What the Service asks for, up to the limits of one object."""
    return frontends_of(service, slices, own, (OBJECT_LIMIT.sites, OBJECT_LIMIT.endpoints))


@dataclass(frozen=True, slots=True)
class Grant:
    """The granted part of what a Service asks for."""

    is_served: bool = True
    has_ranges: bool = True
    """Otherwise its load balancer's addresses are left out: without ranges they would be open."""
    has_tables: bool = True
    """Otherwise its endpoints are chosen at random."""

    def of(self, frontends: Iterable[Frontend]) -> Iterator[Frontend]:
        """The frontends that remain, within their limits."""
        for each in frontends if self.is_served else ():
            if self.has_ranges or each.kind is not Kind.BALANCER:
                yield each if self.has_tables else replace(each, maglev_slots=0)


WHOLE = Grant()


@dataclass(frozen=True, slots=True)
class _Entry:
    asked: Asked
    created: str
    demand: Demand


@dataclass
class Limits:
    """All Services that share the tables."""

    warn: Warn = unheard
    _entries: dict[Name, _Entry] = field(default_factory=dict)
    _of_namespace: dict[str, Demand] = field(default_factory=dict)
    _of_all: Demand = _NOTHING
    _large: set[Name] = field(default_factory=set)
    """Services that ask for more than one object may have."""
    _grants: dict[Name, Grant] = field(default_factory=dict)
    """Grants that are incomplete."""
    _told: dict[Name, tuple[str, ...]] = field(default_factory=dict)

    def put(self, name: Name, created: str, asked: Asked | None) -> None:
        """Set what a Service asks for; None: the Service is gone."""
        old = self._entries.pop(name, None)
        self._large.discard(name)
        if old:
            self._add(name[0], Demand(*(-each for each in old.demand)))
        if asked:
            demand = Demand(asked.sites, asked.endpoints, asked.ranges, asked.slots)
            self._entries[name] = _Entry(asked, created, demand)
            self._add(name[0], demand)
            if not demand.fits(OBJECT_LIMIT):
                self._large.add(name)

    def _add(self, namespace: str, demand: Demand) -> None:
        self._of_all = self._of_all.plus(demand)
        self._of_namespace[namespace] = self._of_namespace.get(namespace, _NOTHING).plus(demand)

    def asked(self, name: Name) -> Asked | None:
        """What the Service asks for; None: the Service is gone."""
        found = self._entries.get(name)
        return found.asked if found else None

    def grant(self, name: Name) -> Grant:
        """What the Service gets since the last `settle`."""
        return self._grants.get(name, WHOLE)

    def settle(self) -> list[Name]:
        """Decide again; returns the Services whose grant changed."""
        reasons: dict[Name, tuple[str, ...]] = {}
        grants = {} if self._is_room_for_all() else dict(self._decided(reasons))
        changed = [
            name
            for name in {**self._grants, **grants}
            if self._grants.get(name, WHOLE) != grants.get(name, WHOLE)
        ]
        self._grants = grants
        for name, entry in self._entries.items():
            if entry.asked.n_over:
                text = (
                    f"left out: {entry.asked.n_over} of its addresses and ports: the limits of an "
                    f"object are {OBJECT_LIMIT.sites} addresses and ports, and {OBJECT_LIMIT.endpoints} "
                    f"endpoints"
                )
                reasons[name] = (text, *reasons.get(name, ()))
        for name in sorted(reasons):
            if self._told.get(name) != reasons[name]:
                for each in reasons[name]:
                    self.warn(f"{'/'.join(name)}: {each}")
        self._told = reasons
        return changed

    @property
    def n_over(self) -> int:
        """How many addresses and ports are left out."""
        found = 0
        for name, entry in self._entries.items():
            grant = self.grant(name)
            found += entry.asked.n_over
            if not grant.is_served:
                found += entry.asked.sites
            elif not grant.has_ranges:
                found += sum(each.kind is Kind.BALANCER for each in entry.asked.frontends)
        return found

    @property
    def n_by_chance(self) -> int:
        """How many Services asked for Maglev tables, and have none."""
        return sum(each.is_served and not each.has_tables for each in self._grants.values())

    def _is_room_for_all(self) -> bool:
        return (
            not self._large
            and self._of_all.fits(NODE_LIMIT)
            and all(each.fits(NAMESPACE_LIMIT) for each in self._of_namespace.values())
        )

    def _decided(self, reasons: dict[Name, tuple[str, ...]]) -> Iterator[tuple[Name, Grant]]:
        """Grants the remaining room from the oldest Service on.

        Gives the Services that do not get everything.
        """
        used: Counter[tuple[str, str]] = Counter()
        for name, entry in sorted(
            self._entries.items(), key=lambda item: (item[1].created or _YOUNGEST, item[0])
        ):
            wants = entry.demand
            over = [_missing(used, name[0], wants, resource) for resource in Demand._fields]
            why_sites = over[0] or over[1]
            grant = Grant(not why_sites, not over[2], not over[3])
            if grant.is_served:
                taken = _taken(wants, grant)
                for resource, amount in zip(Demand._fields, taken, strict=True):
                    used["", resource] += amount
                    used[name[0], resource] += amount
            if grant != WHOLE:
                reasons[name] = tuple(_said(grant, over))
                yield name, grant


def _taken(wants: Demand, grant: Grant) -> Demand:
    """The room that a grant uses."""
    return wants._replace(
        ranges=wants.ranges * grant.has_ranges, slots=wants.slots * grant.has_tables
    )


def _missing(used: Counter[tuple[str, str]], namespace: str, wants: Demand, resource: str) -> str:
    """The limit that the Service exceeds; empty: it fits, or asks for nothing."""
    amount = int(getattr(wants, resource))
    if not amount:
        return ""
    if amount > getattr(OBJECT_LIMIT, resource):
        return f"the limit of an object is {getattr(OBJECT_LIMIT, resource)}"
    if used[namespace, resource] + amount > getattr(NAMESPACE_LIMIT, resource):
        return f"the limit of the namespace {namespace} is {getattr(NAMESPACE_LIMIT, resource)}"
    if used["", resource] + amount > getattr(NODE_LIMIT, resource):
        return f"the limit of the node is {getattr(NODE_LIMIT, resource)}"
    return ""


def _said(grant: Grant, over: list[str]) -> Iterator[str]:
    sites, endpoints, ranges, slots = over
    if not grant.is_served:
        what = "addresses and ports" if sites else "endpoints"
        yield f"left out: {sites or endpoints} {what}, which older Services use"
        return
    if ranges:
        yield f"the load balancer's addresses are left out: {ranges} source ranges"
    if slots:
        yield f"endpoints are chosen at random: {slots} slots of Maglev tables"
