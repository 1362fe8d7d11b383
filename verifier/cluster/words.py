# SPDX-License-Identifier: Apache-2.0
"""Sets of columns in words: a selector if one selects exactly the set, else names; merged CIDRs."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, summarize_address_range

from policyc.ir.bits import members
from policyc.ir.describe import describe_selector
from policyc.ir.peers import Network, is_inside
from policyc.ir.results.regions import EndGroups
from policyc.ir.selectors import EndpointSelector
from policyc.ir.universe import Endpoint, Node, end_name
from policyc.verifier.cluster.regions import owners
from policyc.verifier.cluster.space import Space

_FEW = 4
_SOME = 3
"""Fewer networks than this are listed as they are."""
_MOST_SELECTORS = 2000
"""Beyond this number, selectors are not combined to describe pods: each set is compared to all."""
_ALL_OF = "all pods of"


class Words:
    """Describes ends of one space. `selectors` are those that may serve as descriptions."""

    def __init__(self, space: Space, selectors: Iterable[EndpointSelector]) -> None:
        self.space = space
        self._pods = 0
        for at, column in enumerate(space.columns):
            if column.owner >= 0 and isinstance(space.classes[column.owner].after, Endpoint):
                self._pods |= 1 << at
        self._all_pods = frozenset(owners(space, self._pods))
        self._by_selector: dict[frozenset[int], EndpointSelector] = {}
        view = space.after
        for selector in sorted(dict.fromkeys(selectors), key=_plainness):
            found = view.pod_columns.selected(selector)
            if found:
                self._by_selector.setdefault(frozenset(owners(space, found)), selector)

    def ends(self, columns: int) -> EndGroups:
        """The ends of some columns: classes by number, and external networks."""
        outside = columns & self.space.outside
        found = [
            cidr
            for family, mine in self.space.of_family.items()
            for cidr in networks(self.space, outside & mine, family)
        ]
        return EndGroups(tuple(sorted(owners(self.space, columns))), tuple(found))

    def side(self, columns: int) -> str:
        """The ends of some columns in words."""
        space = self.space
        parts = []
        if columns == space.all:
            return "any peer"
        pods = columns & self._pods
        nodes = columns & ~self._pods & ~space.outside
        if pods:
            parts.append(self._pods_in(pods))
        if nodes:
            parts.append(listed(sorted(self._names(nodes)), "nodes"))
        if columns & space.outside:
            parts.append(self._addresses(columns & space.outside))
        shown = ", ".join(parts)
        only = [f for f, mine in space.of_family.items() if not columns & ~mine]
        both = all(self._pods & mine for mine in space.of_family.values())
        return f"{shown} (IPv{only[0]} only)" if only and pods and both else shown

    def _pods_in(self, columns: int) -> str:
        found = frozenset(owners(self.space, columns))
        if found == self._all_pods:
            return "all pods"
        selector = self._by_selector.get(found)
        if selector is not None:
            return f"pods [{describe_selector(selector)}]"
        names = sorted(self._names(columns))
        if len(names) <= _FEW:
            return ", ".join(names)
        parts = _by_namespace(names, self._all_names)
        if all(part.startswith(_ALL_OF) for part in parts):
            return listed(parts, "namespaces")
        chosen = self._by_selectors(found)
        return f"pods {', '.join(chosen)}" if chosen else listed(parts, "namespaces")

    def _by_selectors(self, found: frozenset[int]) -> list[str]:
        """A few selectors that together select exactly these classes; none if there are no such."""
        rest = set(found)
        chosen: list[str] = []
        if len(self._by_selector) > _MOST_SELECTORS:
            return []
        inside = [selected for selected in self._by_selector if selected <= found]
        while rest and len(chosen) < _FEW - 1:
            best = max(inside, key=lambda selected: len(selected & rest), default=frozenset[int]())
            if not best & rest:
                return []
            rest -= best
            chosen.append(f"[{describe_selector(self._by_selector[best])}]")
        return [] if rest else sorted(chosen)

    @cached_property
    def _all_names(self) -> Counter[str]:
        ends = (site.after for site in self.space.sites)
        names = {e.qualified_name for e in ends if isinstance(e, Endpoint)}
        return Counter(name.partition("/")[0] for name in names)

    def _names(self, columns: int) -> set[str]:
        return {
            _name(self.space.sites[member].after)
            for owner in owners(self.space, columns)
            for member in self.space.classes[owner].members
        }

    def _addresses(self, columns: int) -> str:
        space = self.space
        whole = [f for f, mine in space.of_family.items() if not (mine & space.outside) & ~columns]
        if len(whole) == len(space.of_family):
            return "any external address"
        parts = []
        for family, mine in space.of_family.items():
            if family in whole:
                parts.append(f"any external IPv{family} address")
            elif columns & mine:
                parts.append(self._shorter(columns & mine, mine & space.outside, family))
        return ", ".join(parts)

    def _shorter(self, columns: int, every: int, family: int) -> str:
        """As CIDRs, with exceptions if that is shorter."""
        inside = _networks(self.space, columns, family)
        if len(inside) < _SOME:
            return listed(list(map(_cidr, inside)), "networks")
        without = _networks(self.space, every & ~columns, family)
        parts = _blocks(inside, without)
        if len(parts) == 1 and parts[0][0].prefixlen == 0:
            excepted = listed(list(map(_cidr, parts[0][1])), "networks")
            return f"any external IPv{family} address (except {excepted})"
        return listed([_block(*part) for part in parts], "networks")


Excepted = tuple[Network, list[Network]]
"""A network, and its excepted parts."""


def _blocks(inside: list[Network], without: list[Network]) -> list[Excepted]:
    """The fewest networks to name for `inside` without `without`."""
    if not inside:
        return []
    tight = _common(inside)
    without = [network for network in without if is_inside(network, tight)]
    if len(inside) == 1 or not without:
        return [(tight, [])]
    halves: list[Network] = list(tight.subnets())
    split = [
        part
        for half in halves
        for part in _blocks(
            [network for network in inside if is_inside(network, half)],
            [network for network in without if is_inside(network, half)],
        )
    ]
    cost = sum(1 + len(excepted) for _, excepted in split)
    return [(tight, without)] if 1 + len(without) < cost else split


def _common(given: list[Network]) -> Network:
    """The smallest network that contains all of some networks."""
    found = given[0]
    while not all(is_inside(network, found) for network in given):
        found = found.supernet()
    return found


def _block(network: Network, excepted: list[Network]) -> str:
    if not excepted:
        return _cidr(network)
    return f"{_cidr(network)} (except {listed(list(map(_cidr, excepted)), 'networks')})"


def _cidr(network: Network) -> str:
    """A CIDR; the address alone if it is a single address."""
    is_one = network.prefixlen == network.max_prefixlen
    return str(network.network_address) if is_one else str(network)


def members_of_classes(space: Space) -> tuple[tuple[str, ...], ...]:
    """The ends of each class, sorted: `namespace/pod` and `node/name`."""
    return tuple(
        tuple(sorted({_identity(space.sites[member].after) for member in each.members}))
        for each in space.classes
    )


def _identity(end: Endpoint | Node) -> str:
    return end.qualified_name if isinstance(end, Endpoint) else f"node/{end.name}"


def networks(space: Space, columns: int, family: int) -> list[str]:
    """Addresses as the fewest CIDRs; runs that pods fill up do not interrupt them."""
    return list(map(_cidr, _networks(space, columns, family)))


def _networks(space: Space, columns: int, family: int) -> list[Network]:
    make = IPv4Address if family == 4 else IPv6Address
    runs = [space.columns[column].run for column in members(columns)]
    there = space.outside_runs[family]
    joined: list[list[int]] = []
    for run in runs:
        if joined and bisect_right(there, joined[-1][1]) == bisect_left(there, run):
            joined[-1][1] = run
        else:
            joined.append([run, run])
    found: list[Network] = []
    for lo, hi in joined:
        first, last = space.networks_of(lo, family)[0], space.networks_of(hi, family)[1]
        found += summarize_address_range(make(first), make(last))
    return found


def listed(names: list[str], what: str) -> str:
    """Some names; if there are many, the last ones are only counted."""
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{', '.join(names[: _FEW - 1])} and {len(names) - _FEW + 1} more {what}"


def _by_namespace(names: list[str], everything: Counter[str]) -> list[str]:
    """Names by namespace: all of one, or a number of it."""
    counts = Counter(name.partition("/")[0] for name in names)
    parts = []
    for namespace, count in sorted(counts.items()):
        if count == everything[namespace]:
            parts.append(f"{_ALL_OF} {namespace}")
        else:
            parts.append(f"{count} of {everything[namespace]} pods of {namespace}")
    return parts


def _name(end: Endpoint | Node) -> str:
    return end.qualified_name if isinstance(end, Endpoint) else end_name(end)


def _plainness(selector: EndpointSelector) -> tuple[int, str]:
    text = describe_selector(selector)
    return len(text), text
