# SPDX-License-Identifier: Apache-2.0
"""The parts of a region as data: its ends and its services. Data only."""

from dataclasses import dataclass

from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import Peer


@dataclass(frozen=True, slots=True)
class EndGroups:
    """Ends of a cluster: groups by number (`DiffResult.groups`), and external networks as CIDRs."""

    groups: tuple[int, ...]
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndConditions:
    """Ends of the symbolic universe: those `among` pods, hosts or all peers that meet all conditions.

    A condition is a peer, and whether the end matches it.
    """

    among: str
    conditions: tuple[tuple[Peer, bool], ...]


RegionEnds = EndGroups | EndConditions


@dataclass(frozen=True, slots=True)
class ServicePart:
    """Services of a region: keys, ranges of source ports (none: any), further conditions in words."""

    keys: IntervalSet
    source_ports: tuple[tuple[int, int], ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionParts:
    """A region is the product of its sources, destinations and services."""

    src: RegionEnds
    dst: RegionEnds
    services: tuple[ServicePart, ...]
