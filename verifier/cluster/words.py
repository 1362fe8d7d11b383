# SPDX-License-Identifier: Apache-2.0
"""Sets of columns in words: selectors where one says it, else names; addresses as merged CIDRs."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, summarize_address_range

from policyc.ir.peers import Network
from policyc.ir.selectors import EndpointSelector
from policyc.ir.universe import Endpoint, Node, end_name
from policyc.ir.words import describe_selector
from policyc.verifier.cluster.bits import members
from policyc.verifier.cluster.regions import owners
from policyc.verifier.cluster.space import Space

_FEW = 4


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

    def side(self, columns: int) -> str:
        """Who some columns are."""
        space = self.space
        parts = []
        if columns == space.all:
            return "anyone"
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
        return _by_namespace(names, self._all_names)

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
            return "any address outside"
        parts = []
        for family, mine in space.of_family.items():
            if family in whole:
                parts.append(f"any IPv{family} address outside")
            elif columns & mine:
                parts.append(self._shorter(columns & mine, mine & space.outside, family))
        return ", ".join(parts)

    def _shorter(self, columns: int, every: int, family: int) -> str:
        """As CIDRs, or as everything but some CIDRs, whichever is fewer."""
        inside = networks(self.space, columns, family)
        without = networks(self.space, every & ~columns, family)
        if len(without) < len(inside) and len(inside) > 2:
            return f"any IPv{family} address outside but {listed(without, 'networks')}"
        return listed(inside, "networks")


def networks(space: Space, columns: int, family: int) -> list[str]:
    """Outside addresses as the fewest CIDRs; runs that pods fill up do not interrupt them."""
    make = IPv4Address if family == 4 else IPv6Address
    runs = [space.columns[column].run for column in members(columns)]
    there = {c.run for c in space.columns if c.owner < 0 and c.family == family}
    joined: list[list[int]] = []
    for run in runs:
        if joined and not any(r in there for r in range(joined[-1][1] + 1, run)):
            joined[-1][1] = run
        else:
            joined.append([run, run])
    found: list[Network] = []
    for lo, hi in joined:
        first, last = space.networks_of(lo, family)[0], space.networks_of(hi, family)[1]
        found += summarize_address_range(make(first), make(last))
    return [str(n.network_address) if n.prefixlen == n.max_prefixlen else str(n) for n in found]


def listed(names: list[str], what: str) -> str:
    """Some names, the last of them only counted where they are many."""
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{', '.join(names[: _FEW - 1])} and {len(names) - _FEW + 1} more {what}"


def _by_namespace(names: list[str], everything: Counter[str]) -> str:
    """Names by namespace: all of one, or so many of it."""
    counts = Counter(name.partition("/")[0] for name in names)
    parts = []
    for namespace, count in sorted(counts.items()):
        if count == everything[namespace]:
            parts.append(f"all pods of {namespace}")
        else:
            parts.append(f"{count} of {everything[namespace]} pods of {namespace}")
    return listed(parts, "namespaces")


def _name(end: Endpoint | Node) -> str:
    return end.qualified_name if isinstance(end, Endpoint) else end_name(end)


def _plainness(selector: EndpointSelector) -> tuple[int, str]:
    text = describe_selector(selector)
    return len(text), text
