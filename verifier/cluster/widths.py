# SPDX-License-Identifier: Apache-2.0
"""The width of a region, and the namespaces that its change is about."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from policyc.ir.bits import union
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.universe import Endpoint
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.regions import Region
from policyc.verifier.cluster.space import Column, Space

Numbers = tuple[tuple[int, int], ...]
"""Pairs of a number and the columns that have so many ends."""


class Widths:
    """Counts the pairs of ends in regions, and the flows between them."""

    def __init__(self, space: Space) -> None:
        self._families = tuple(space.of_family.values())
        self._ends = _by_number(space, lambda _: 1)
        self._addresses = _by_number(space, lambda column: _addresses(space, column))

    def pairs(self, region: Region) -> int:
        """The number of pairs of ends, or ranges of addresses, of the region in its larger family."""
        return self._pairs(region, self._ends)

    def flows(self, region: Region) -> int:
        """The number of flows, in which the size of a range of addresses is a power of two."""
        return self._pairs(region, self._addresses) * region.services.size

    def _pairs(self, region: Region, numbers: Numbers) -> int:
        src, dst = region.src, region.dst
        return max(_total(src & f, numbers) * _total(dst & f, numbers) for f in self._families)


def _by_number(space: Space, external: Callable[[Column], int]) -> Numbers:
    """The columns of each number of ends; `external` is that of a range of addresses."""
    found: defaultdict[int, int] = defaultdict(int)
    for at, column in enumerate(space.columns):
        is_external = column.owner < 0
        number = external(column) if is_external else len(space.classes[column.owner].members)
        found[number] |= 1 << at
    return tuple(found.items())


def _addresses(space: Space, column: Column) -> int:
    lo, hi = space.networks_of(column.run, column.family)
    return 1 << (hi - lo + 1).bit_length() - 1


def _total(columns: int, numbers: Numbers) -> int:
    return sum(number * (columns & mine).bit_count() for number, mine in numbers)


class ChangedNamespaces:
    """The namespaces in which policies differ, as sets of columns."""

    def __init__(self, space: Space, before: PolicySet, after: PolicySet) -> None:
        names = changed_namespaces(before, after)
        columns: defaultdict[str, list[int]] = defaultdict(list)
        for at, each in enumerate(space.classes):
            for name in {*_namespaces(space, each.members)} & names:
                columns[name] += space.columns_of[at]
        self._columns = tuple(
            (name, union(1 << at for at in columns[name])) for name in sorted(columns)
        )

    def of(self, region: Region) -> tuple[str, ...]:
        """Those that have sources or destinations of the region."""
        ends = region.src | region.dst
        return tuple(name for name, columns in self._columns if ends & columns)


def changed_namespaces(before: PolicySet, after: PolicySet) -> frozenset[str]:
    """The namespaces of policies that one side lacks, or that differ."""
    old, new = _by_title(before), _by_title(after)
    return frozenset(
        (old.get(title) or new[title]).namespace
        for title in {*old, *new}
        if old.get(title) != new.get(title)
    )


def _by_title(policies: PolicySet) -> dict[str, Policy]:
    return {policy.title: policy for policy in policies_of((policies,))}


def _namespaces(space: Space, sites: Iterable[int]) -> Iterable[str]:
    for site in sites:
        for end in (space.sites[site].before, space.sites[site].after):
            if isinstance(end, Endpoint):
                yield end.namespace
