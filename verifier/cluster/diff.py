# SPDX-License-Identifier: Apache-2.0
"""The effect of a policy change on the flows of a cluster: regions, each with a confirmed witness."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policyc.ir.errors import InternalError
from policyc.ir.peers import EndpointPeer, Network, leaves
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.common import Witness
from policyc.ir.results.diff import Counts, Difference, DifferenceKind, DiffOutcome, counts_of
from policyc.ir.results.regions import RegionParts, ServicePart
from policyc.ir.results.turns import Subject, first_in_turns
from policyc.ir.selectors import EndpointSelector
from policyc.ir.semantics import verdict
from policyc.ir.services import describe_services
from policyc.ir.universe import Universe
from policyc.verifier.cluster.connections import Cell, Comparison
from policyc.verifier.cluster.own_node import OWN_NODE, OwnNodeChange, OwnNodeComparison
from policyc.verifier.cluster.reads import Reads, policies_of
from policyc.verifier.cluster.regions import Examples, Region, regions
from policyc.verifier.cluster.sites import sites_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.cluster.widths import ChangedNamespaces, Widths
from policyc.verifier.cluster.words import Words
from policyc.verifier.symbolic.differences import (
    deciders,
    ends_that_differ,
    kind_between,
    outcome_of,
    plain_services,
    steps,
)

DEFAULT_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Change:
    """One side of a diff over a cluster: policies, the ends, and the pods' networks."""

    policies: PolicySet
    universe: Universe
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterDiff:
    """The result: the outcome, at most `limit` regions with their witnesses, the counts of all.

    `compared` counts the pairs of rows that were decided in full; rows of equal content need no
    comparison.
    """

    outcome: DiffOutcome
    kinds: frozenset[DifferenceKind]
    differences: tuple[Difference, ...]
    counts: Counts
    space: Space
    compared: int
    replayed: int


def diff_cluster(
    before: Change,
    after: Change,
    *,
    ignore_effects: bool = False,
    limit: int | None = DEFAULT_LIMIT,
    cells: Iterable[Cell] | None = None,
) -> ClusterDiff:
    """Compare two policy sets on every flow between ends that are on both sides.

    Exact: every class of ends, every address run and every service segment is compared. Each region that
    is shown has a witness that the reference semantics confirmed on both sides. `cells` are those that
    `cells_of` has already found in other processes.
    """
    _, space = _space_of(before, after)
    compared = 0
    if cells is None:
        comparison = Comparison(space, before.policies, after.policies, ignore_effects)
        cells = list(comparison.cells())
        compared = comparison.compared
    sets = before.policies, after.policies
    of_own = OwnNodeComparison(space, *sets, ignore_effects).changes()
    widths, changed = Widths(space), ChangedNamespaces(space, *sets)
    order = list(DifferenceKind)
    of_cluster = sorted(
        regions(cells, space), key=lambda each: (order.index(each.kind), -widths.flows(each))
    )
    found: list[Region | OwnNodeChange] = [*of_cluster, *of_own]
    shown = first_in_turns(found, lambda each: _subject(each, changed), limit)
    describing = _Describing(space, *sets, ignore_effects, widths)
    differences = tuple(describing.difference(region) for region in shown)
    kinds = {each.kind for each in found}
    return ClusterDiff(
        outcome_of(kinds),
        frozenset(kinds),
        differences,
        counts_of(each.kind for each in found),
        space,
        compared,
        len(shown),
    )


def _subject(region: Region | OwnNodeChange, changed: ChangedNamespaces) -> Subject:
    return region.kind, changed.of(region) if isinstance(region, Region) else OWN_NODE


def _space_of(before: Change, after: Change) -> tuple[Reads, Space]:
    reads = Reads.of((before.policies, after.policies))
    networks = (*before.networks, *(n for n in after.networks if n not in before.networks))
    return reads, Space(sites_of(before.universe, after.universe, reads, networks), reads)


def cells_of(task: tuple[Change, Change, bool], share: tuple[int, int]) -> list[Cell]:
    """The cells of one share, (k, of n): the same in whichever process they are found.

    The task ends with `ignore_effects`.
    """
    before, after, ignore_effects = task
    _, space = _space_of(before, after)
    comparison = Comparison(space, before.policies, after.policies, ignore_effects)
    return list(comparison.cells(share))


def selectors_of(sets: Iterable[PolicySet]) -> Iterator[EndpointSelector]:
    """The selectors that policies use: the words of their authors."""
    for policy in policies_of(sets):
        yield policy.subject
        for direction in Direction:
            for rule in policy.rules(direction):
                for leaf in (leaf for peer in rule.peers for leaf in leaves(peer)):
                    if isinstance(leaf, EndpointPeer):
                        yield leaf.selector


@dataclass
class _Describing:
    space: Space
    before: PolicySet
    after: PolicySet
    ignore_effects: bool
    widths: Widths

    def __post_init__(self) -> None:
        self.examples = Examples(self.space)
        self._words: Words | None = None

    @property
    def words(self) -> Words:
        """Made for the first region that is described: most diffs have none."""
        if self._words is None:
            self._words = Words(self.space, selectors_of((self.before, self.after)))
        return self._words

    def difference(self, region: Region | OwnNodeChange) -> Difference:
        """A region in words, with a witness that the reference semantics confirmed."""
        if isinstance(region, OwnNodeChange):
            return region.difference(self.space, self.words)
        example = self.examples.find(region.src, region.dst, region.services)
        if example is None:
            raise InternalError("a region of differences without a flow")
        was, now = self.examples.flows(example, region.sources)
        one, other = verdict(self.before, was), verdict(self.after, now)
        if kind_between(one, other, self.ignore_effects) is not region.kind:
            raise InternalError(f"the reference semantics do not confirm the witness {now}")
        ends = ends_that_differ(one, other, self.ignore_effects)
        families = [f for f, mine in self.space.of_family.items() if region.src & mine]
        plain = plain_services(region.services, families)
        services = describe_services(plain)
        if region.sources is not None:
            services += f" from source ports {region.sources[0]}-{region.sources[1]}"
        labelled = (("before", one), ("after", other))
        return Difference(
            region.kind,
            self.words.side(region.src),
            self.words.side(region.dst),
            (services,),
            ends[0] if len(ends) == 1 else None,
            Witness(now, labelled, tuple(s for name, v in labelled for s in steps(name, v))),
            deciders(one, ends),
            deciders(other, ends),
            self.widths.pairs(region),
            RegionParts(
                self.words.ends(region.src),
                self.words.ends(region.dst),
                (ServicePart(plain, () if region.sources is None else (region.sources,)),),
            ),
        )
