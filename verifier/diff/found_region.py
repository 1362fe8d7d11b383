# SPDX-License-Identifier: Apache-2.0
"""A region that the symbolic diff found: its identity, its confirmed witness, and its words."""

from collections.abc import Hashable
from dataclasses import dataclass

from policyc.ir.errors import InternalError
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.common import Witness
from policyc.ir.results.diff import Difference, DifferenceKind
from policyc.ir.results.regions import EndConditions, RegionParts
from policyc.ir.results.turns import Subject
from policyc.ir.semantics import Verdict, verdict
from policyc.ir.services import ALL_SERVICES
from policyc.ir.universe import Flow
from policyc.verifier.diff.end_changes import EndRegion
from policyc.verifier.symbolic.differences import (
    deciders,
    kind_between,
    steps,
)
from policyc.verifier.symbolic.literals import (
    Literal,
    Other,
    Own,
    Services,
    describe_service_part,
    describe_side,
    service_part,
)

_INEXACT = "where no other rule decides the same"


@dataclass
class FoundRegion:
    """Regions that differ only in services and the like, and a flow of the first."""

    kind: DifferenceKind
    regions: list[EndRegion]
    flow: Flow

    @property
    def key(self) -> Hashable:
        """Equal if the regions are about the same ends, changed alike."""
        one = self.regions[0]
        return self.kind, one.change, one.direction, one.is_host, _ends(one)

    @property
    def subject(self) -> Subject:
        """The kind of change, and the ends whose policies changed."""
        one = self.regions[0]
        return self.kind, (one.is_host, frozenset(_side(Own, one)))

    @property
    def narrowness(self) -> tuple[int, int]:
        """Wider regions come first: the conditions on both ends, then the services, negated."""
        keys = IntervalSet()
        for services, *_ in self.services():
            assert isinstance(services, Services)
            keys = keys | services.keys
        return len(_ends(self.regions[0])), -keys.size

    def services(self) -> list[tuple[Literal, ...]]:
        """The regions' services in words; services of equal parts are merged."""
        by_rest: dict[tuple[Literal, ...], IntervalSet] = {}
        for region in self.regions:
            others = [each for each in region.literals if not isinstance(each, Own | Other)]
            keys = next((each.keys for each in others if isinstance(each, Services)), ALL_SERVICES)
            rest = tuple(each for each in others if not isinstance(each, Services))
            by_rest[rest] = by_rest.get(rest, IntervalSet()) | keys
        return [(Services(keys), *rest) for rest, keys in by_rest.items()]

    def confirmed(
        self, before: PolicySet, after: PolicySet, ignore_effects: bool
    ) -> tuple[Verdict, Verdict]:
        """The reference semantics' verdicts on the flow; InternalError if its change differs."""
        one, other = verdict(before, self.flow), verdict(after, self.flow)
        if kind_between(one, other, ignore_effects) is not self.kind:
            raise InternalError(f"the reference semantics do not confirm the witness {self.flow}")
        return one, other

    def described(self, one: Verdict, other: Verdict) -> Difference:
        """The region in words, with its witness and both verdicts of it."""
        region = self.regions[0]
        own = describe_side(_side(Own, region), "hosts" if region.is_host else "any pod")
        peers = describe_side(_side(Other, region), "any peer")
        ingress = region.direction is Direction.INGRESS
        services = [describe_service_part(each) for each in self.services()]
        if not all(each.is_exact for each in self.regions):
            services[-1] += f", {_INEXACT}"
        labelled = (("before", one), ("after", other))
        return Difference(
            self.kind,
            peers if ingress else own,
            own if ingress else peers,
            tuple(services),
            region.direction,
            Witness(self.flow, labelled, tuple(s for n, v in labelled for s in steps(n, v))),
            deciders(one, [region.direction]),
            deciders(other, [region.direction]),
            parts=self._parts(),
        )

    def _parts(self) -> RegionParts:
        region = self.regions[0]
        own = _conditions("hosts" if region.is_host else "pods", _side(Own, region))
        peers = _conditions("peers", _side(Other, region))
        ends = (peers, own) if region.direction is Direction.INGRESS else (own, peers)
        inexact = () if all(each.is_exact for each in self.regions) else (_INEXACT,)
        return RegionParts(*ends, tuple(service_part(each, inexact) for each in self.services()))


def _conditions(among: str, literals: list[Own | Other]) -> EndConditions:
    return EndConditions(among, tuple((each.peer, each.holds) for each in literals))


def _ends(region: EndRegion) -> frozenset[Literal]:
    return frozenset(each for each in region.literals if isinstance(each, Own | Other))


def _side(kind: type[Own] | type[Other], region: EndRegion) -> list[Own | Other]:
    found: list[Own | Other] = []
    for each in region.literals:
        if isinstance(each, Own | Other) and isinstance(each, kind):
            found.append(each)
    return found
