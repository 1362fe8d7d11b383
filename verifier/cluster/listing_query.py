# SPDX-License-Identifier: Apache-2.0
"""The query whether a listing is wrong about some flow of its cluster, as a Z3 goal."""

from collections.abc import Iterator

import z3

from policyc.ir.bits import members
from policyc.verifier.cluster.areas import LAST_PORT, Area
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.cluster.listing import Listing
from policyc.verifier.smt.terms import (
    Term,
    in_range,
)
from policyc.verifier.symbolic.connection_ends import ConnectionEnd


class ListingQuery:
    """The goal for one listing; its ends are those of a `ClusterConnection` of the same cluster."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.space = listing.space
        self.connection = ClusterConnection(
            (listing.policies,), listing.universe, (), listing.pod_networks
        )
        self._labels = [self._columns_of(label) for label in range(len(listing.behaviour.first))]

    def _columns_of(self, label: int) -> list[int]:
        return [at for at, mine in enumerate(self.listing.behaviour.labels) if mine == label]

    def goal(self) -> list[Term]:
        """A flow that is subject to policies is allowed and not listed, or listed and not allowed."""
        connection = self.connection
        ends = (connection.src, connection.dst)
        asked = z3.Or(*(z3.Or(end.is_pod, end.is_host) for end in ends))
        allowed = connection.allowed(self.listing.policies)
        return [
            connection.is_possible(),
            z3.Not(connection.is_builtin(self.listing.policies)),
            asked,
            allowed != z3.Or(*self._listed()),
        ]

    def _listed(self) -> Iterator[Term]:
        behaviour = self.listing.behaviour
        into = [self._is_in(self.connection.dst, label) for label in range(len(self._labels))]
        firsts = set(behaviour.first)
        for label in range(len(self._labels)):
            out = []
            for area, columns in behaviour.out(label):
                reached = {behaviour.labels[at] for at in members(columns) if at in firsts}
                to = z3.Or(*(into[other] for other in sorted(reached)))
                out.append(z3.And(to, self._asks_for(behaviour.areas.known[area])))
            if out:
                yield z3.And(self._is_in(self.connection.src, label), z3.Or(*out))

    def _asks_for(self, area: Area) -> Term:
        """The flow's service, and its source port if it has one, are in the area."""
        connection = self.connection
        parts = []
        for lo, hi, keys in area:
            among = z3.Or(*(in_range(connection.key, low, high) for low, high in keys))
            if (lo, hi) != (0, LAST_PORT):
                port = in_range(connection.source_port, lo, hi)
                among = z3.And(among, z3.Or(z3.Not(connection.has_source_port), port))
            parts.append(among)
        return z3.Or(*parts)

    def _is_in(self, end: ConnectionEnd, label: int) -> Term:
        """The end is in one of the columns of a label."""
        return z3.Or(*(self._is_column(end, at) for at in self._labels[label]))

    def _is_column(self, end: ConnectionEnd, at: int) -> Term:
        column = self.space.columns[at]
        address, is_family = end.address(self.connection.is_ipv6, column.family)
        if column.owner < 0:
            lo, hi = self.space.networks_of(column.run, column.family)
            return z3.And(is_family, end.is_outside, in_range(address, lo, hi))
        sites = (self.space.sites[m] for m in self.space.classes[column.owner].members)
        return z3.And(is_family, self.connection.is_at(end, sites))
