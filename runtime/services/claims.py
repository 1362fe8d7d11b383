# SPDX-License-Identifier: Apache-2.0
"""Assigns each address, protocol and port to one Service, if several ask for it or it is taken.

    claims = Claims(warn)
    claims.put(name, created, frontends)    whenever a Service changes; () removes it
    claims.settle(node)                     site -> frontend before and after

The outcome depends only on the objects and the node, not on their order. A Service's clusterIPs and node
ports are its own; otherwise the older object wins. No Service gets an external address that is a pod's,
or on which a process of the node listens.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from policyc.runtime.bundle.address_value import (
    Address,
    Network,
)
from policyc.runtime.devices import listening
from policyc.runtime.devices.listening import Sockets
from policyc.runtime.errors import InputError
from policyc.runtime.services.services import (
    Frontend,
    Kind,
    OwnNode,
)
from policyc.runtime.state import Warn, unheard

Name = tuple[str, str]
"""Namespace and name."""
Site = tuple[Address, str, int]
"""Address, protocol and port: what one frontend occupies."""
Changes = dict[Site, tuple[Frontend | None, Frontend | None]]
Ranges = tuple[Network, ...]
"""The allowed ranges of externalIPs; empty: any address is allowed."""
_YOUNGEST = "~"
"""Sorts after each date, for objects without a creationTimestamp."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NodeState:
    """The addresses and ports of the node and its pods, which no Service gets."""

    addresses: frozenset[Address] = frozenset()
    """The node's own addresses."""
    pods: frozenset[Address] = frozenset()
    sockets: Sockets = field(default_factory=Sockets)
    external: Ranges = ()

    def refusal(self, frontend: Frontend) -> str:
        """Why the node does not serve the frontend for any Service; empty: it does."""
        if frontend.kind is Kind.CLUSTER:
            return ""
        if frontend.kind is Kind.EXTERNAL and not self._is_allowed(frontend.address):
            return "is outside of --external-cidr"
        if frontend.address in self.pods:
            return "is the address of a pod"
        site = frontend.address, frontend.protocol, frontend.port
        if frontend.address in self.addresses and self.sockets.has(*site):
            return "is bound by a socket of the node"
        return ""

    def _is_allowed(self, address: Address) -> bool:
        return not self.external or any(
            address.version == each.version and address in each for each in self.external
        )


@dataclass(frozen=True, slots=True)
class _Claim:
    frontend: Frontend
    created: str

    @property
    def order(self) -> tuple[bool, str, list[str]]:
        """The sort key; the least one wins."""
        return not self.is_own, self.created or _YOUNGEST, self.frontend.service.split("/")

    @property
    def is_own(self) -> bool:
        """Whether the API server gives the address to one Service only."""
        return self.frontend.kind in (Kind.CLUSTER, Kind.NODE)


@dataclass
class Claims:
    """Everything that Services ask for, and what of it is active."""

    warn: Warn = unheard
    frontends: dict[Site, Frontend] = field(default_factory=dict)
    """The frontends of the last `settle`."""
    lost: dict[tuple[Name, Site], str] = field(default_factory=dict)
    """What is left out, and the reason."""
    _by_site: dict[Site, dict[Name, _Claim]] = field(default_factory=dict)
    _sites: dict[Name, frozenset[Site]] = field(default_factory=dict)
    _open: set[Site] = field(default_factory=set)
    """Sites that need a decision."""
    _node: NodeState = field(default_factory=NodeState)
    _is_warned: bool = False

    def put(self, name: Name, created: str, frontends: Iterable[Frontend]) -> None:
        """Set all that a Service asks for. `created` is its creationTimestamp; "": unknown."""
        wanted = {(each.address, each.protocol, each.port): each for each in frontends}
        for site in self._sites.pop(name, frozenset()) - wanted.keys():
            del self._by_site[site][name]
            self.lost.pop((name, site), None)
            self._open.add(site)
        for site, frontend in wanted.items():
            self._by_site.setdefault(site, {})[name] = _Claim(frontend, created)
            self._open.add(site)
        if wanted:
            self._sites[name] = frozenset(wanted)

    def settle(self, node: NodeState) -> Changes:
        """Decide what has changed since the last call; `frontends` is then the new result."""
        self._open.update(self._moved(node))
        self._node = node
        changes: Changes = {}
        news: dict[tuple[str, str], list[Site]] = {}
        for site in self._open:
            before, after = self.frontends.get(site), self._decide(site, news)
            if after:
                self.frontends[site] = after
            elif before:
                del self.frontends[site]
            if before != after:
                changes[site] = before, after
        self._open.clear()
        self._tell(news)
        return changes

    def is_moved(self, node: NodeState) -> bool:
        """Whether such a node changes any decision."""
        return next(self._moved(node), None) is not None

    def _moved(self, node: NodeState) -> Iterator[Site]:
        """Sites where the node refuses another Service than last time, or for another reason."""
        if node == self._node:
            return
        for site, claims in self._by_site.items():
            asked = (each.frontend for each in claims.values())
            if any(node.refusal(each) != self._node.refusal(each) for each in asked):
                yield site

    def _decide(self, site: Site, news: dict[tuple[str, str], list[Site]]) -> Frontend | None:
        claims = self._by_site[site]
        refused = {name: self._node.refusal(each.frontend) for name, each in claims.items()}
        able = [name for name in claims if not refused[name]]
        first = min(able, key=lambda name: claims[name].order, default=None)
        for name, claim in claims.items():
            why = refused[name]
            if not why and first and name != first:
                why = _beaten(claim, claims[first])
            if not why:
                self.lost.pop((name, site), None)
            elif self.lost.get((name, site)) != why:
                self.lost[name, site] = why
                news.setdefault((claim.frontend.service, why), []).append(site)
        if not claims:
            del self._by_site[site]
        return claims[first].frontend if first else None

    def _tell(self, news: Mapping[tuple[str, str], list[Site]]) -> None:
        for (service, why), sites in sorted(news.items()):
            found = sorted(sites, key=lambda site: (site[0].version, *site))
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            shown = ", ".join(
                f"{at} port {port}/{protocol}" for at, protocol, port in found[:_SHOWN]
            )
            self.warn(f"{service}: left out: {shown}{more}: {why}")
        if not self._node.external and not self._is_warned:
            self._warn_of_external()

    def _warn_of_external(self) -> None:
        """Warn once about external addresses, if there are any."""
        served = {f.service for f in self.frontends.values() if f.kind is Kind.EXTERNAL}
        if served:
            self._is_warned = True
            self.warn(
                f"externalIPs of {min(served)}"
                + (f" and {len(served) - 1} other Services" if len(served) > 1 else "")
                + " may be any address (CVE-2020-8554): limit them with --external-cidr"
            )


def _beaten(claim: _Claim, first: _Claim) -> str:
    why = "which owns it" if first.is_own and not claim.is_own else "which is older"
    return f"taken by the Service {first.frontend.service}, {why}"


def surroundings(own: OwnNode, external: Ranges) -> NodeState:
    """The node as it is now: its addresses, from its endpoints file and devices, and its sockets."""
    addresses = frozenset(own.addresses) | listening.addresses()
    return NodeState(addresses, own.pods, listening.sockets(), external)


def external_ranges(given: Iterable[str]) -> Ranges | None:
    """Parse the option --external-cidr; None if it is not given. One empty range removes the limit.

    Raises `InputError` for text that is no range.
    """
    texts = tuple(dict.fromkeys(given))
    if not texts:
        return None
    return () if texts == ("",) else tuple(map(_range, texts))


def _range(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(
            f"--external-cidr: expected a range of addresses as 192.0.2.0/24, found {text!r}",
            "give '' alone: it removes the limit",
        ) from error
