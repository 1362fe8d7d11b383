# SPDX-License-Identifier: Apache-2.0
"""Exposure: what each group's own rules allow, whatever the other end says, and the rules' places.

A *potential* peer is the target of a rule whose selector selects no pod of the cluster now.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from policyc.ir.bits import bits_of, members
from policyc.ir.describe import describe_ports, describe_selector
from policyc.ir.peers import EndpointPeer
from policyc.ir.policy import NEVER, Action, Direction, Policy, Rule
from policyc.ir.results.common import Place
from policyc.ir.results.listing import ExposedTo, Exposure, PotentialPeer
from policyc.ir.results.places import place_of_policy, place_of_rule
from policyc.ir.universe import FAMILIES, Endpoint
from policyc.verifier.cluster.groups import Group
from policyc.verifier.cluster.listing import Listing
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.rows import Row


class Exposures:
    """Describes the exposure of the groups of one listing."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.space = listing.space
        self._pods = bits_of(
            [
                at
                for at, c in enumerate(self.space.columns)
                if c.owner >= 0 and isinstance(self.space.classes[c.owner].before, Endpoint)
            ]
        )

        self._policies = list(policies_of((listing.policies,)))
        self._policies_of: list[list[int]] = [[] for _ in self.space.classes]
        view = self.space.before
        for number, policy in enumerate(self._policies):
            selected = view.pods.selected(policy.subject)
            if policy.hosts != NEVER:
                selected |= view.nodes.condition(policy.hosts)
            for owner in members(selected):
                self._policies_of[owner].append(number)

    def wanted(self) -> list[int]:
        """The groups to which policies apply, among those in focus."""
        groups = self.listing.groups.all
        return [at for at, g in enumerate(groups) if g.is_decided and self.listing.wanted >> at & 1]

    def of(self, at: int) -> Iterator[Exposure]:
        """The exposures: ingress, then egress."""
        for direction in Direction:
            yield self._exposure(at, self.listing.groups.all[at], direction)

    def _exposure(self, at: int, group: Group, direction: Direction) -> Exposure:
        rows = self._rows(group, direction)
        isolating = (
            policy
            for row in rows
            for tier in row.tiers
            if tier.unmatched is not None
            for policy in tier.isolating
        )
        policies = [policy for policy in self._selecting(group) if policy.rules(direction)]
        rules = [(policy, rule) for policy in policies for rule in policy.rules(direction)]
        return Exposure(
            at,
            self.listing.name(at),
            direction,
            _places(isolating),
            _places(policies),
            self._to_every_pod(group, direction),
            tuple(self._outside(group, direction)),
            tuple(self._potential(rules)),
        )

    def _selecting(self, group: Group) -> list[Policy]:
        """The policies that select any end of a group, in order."""
        owners = dict.fromkeys(self.space.columns[c].owner for c in members(group.columns))
        found = {at for owner in owners for at in self._policies_of[owner]}
        return [self._policies[at] for at in sorted(found)]

    def _rows(self, group: Group, direction: Direction) -> list[Row]:
        rows = self.listing.behaviour.rows[direction]
        owners = dict.fromkeys(self.space.columns[c].owner for c in members(group.columns))
        return list({id(rows[owner]): rows[owner] for owner in owners}.values())

    def _to_every_pod(self, group: Group, direction: Direction) -> str:
        """The services open to all pods alike in both families; empty if there are none."""
        areas: dict[int, int] = {}
        for family, label in group.labels:
            column = self.listing.behaviour.first[label]
            itself = group.columns if group.is_alone else 0
            rest = self._pods & self.space.of_family[family] & ~itself
            if not rest:
                continue
            area = self.listing.behaviour.everything
            for part, columns in self.listing.behaviour.own(direction, column):
                if columns & rest:
                    area = self.listing.behaviour.areas.meet(area, part)
                    rest &= ~columns
            areas[family] = 0 if rest else area
        return self._words(areas)

    def _words(self, areas: dict[int, int]) -> str:
        said = [
            (families, self.listing.services(families, area))
            for families, area in self.listing.groups.merged(areas)
            if area
        ]
        if len(said) == 1 and set(said[0][0]) == set(areas):
            return said[0][1]
        return ", ".join(f"{services} (IPv{families[0]})" for families, services in said)

    def _outside(self, group: Group, direction: Direction) -> Iterator[ExposedTo]:
        """External addresses by the services, in both families together."""
        found: defaultdict[str, int] = defaultdict(int)
        for family, label in group.labels:
            column = self.listing.behaviour.first[label]
            for area, columns in self.listing.behaviour.own(direction, column):
                if columns & self.space.outside:
                    services = self.listing.services((family,), area)
                    found[services] |= columns & self.space.outside
        of_families = [self.space.of_family[f] for f in FAMILIES if f in group.families]
        for services, columns in found.items():
            every = all(not mine & self.space.outside & ~columns for mine in of_families)
            who = "any external address" if every else self.listing.words.side(columns)
            yield ExposedTo(who, services)

    def _potential(self, rules: Iterable[tuple[Policy, Rule]]) -> Iterator[PotentialPeer]:
        for policy, rule in rules:
            if rule.action is not Action.ALLOW:
                continue
            for peer in rule.peers:
                if isinstance(peer, EndpointPeer) and not self.space.before.peer(peer, ""):
                    ports = ", ".join(describe_ports(port) for port in rule.ports)
                    who = f"pods [{describe_selector(peer.selector)}]"
                    yield PotentialPeer(who, ports, place_of_rule(policy, rule))


def _places(policies: Iterable[Policy]) -> tuple[Place, ...]:
    return tuple(map(place_of_policy, {id(policy): policy for policy in policies}.values()))
