# SPDX-License-Identifier: Apache-2.0
"""Peers as sources and destinations of Calico rules: selectors, and CIDRs of one family (D43)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv6Network

from policyc.backends.policies.calico_selectors import (
    EVERY_POD,
    asked_by,
    namespace_selector,
    of_named,
    of_workloads,
    only_namespace,
    simplified,
    to_text,
)
from policyc.backends.policies.normal_form import (
    PeerWay,
    UnsayableError,
    peer_ways,
)
from policyc.backends.policies.target import Object
from policyc.ir.peers import AddressPeer, Network, Peer, is_inside
from policyc.ir.selectors import (
    ALWAYS,
    NEVER,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    Not,
    OneOf,
    Operator,
    as_condition,
)

Networks = tuple[Network, ...]
_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class Side:
    """A source or destination: its selectors, and addresses in one of `nets` and in none of `holes`.

    `family` is that of the addresses, None for both families. Without `nets`, every address matches.
    """

    selectors: Object
    family: int | None = None
    nets: tuple[Network, ...] = ()
    holes: tuple[Network, ...] = ()

    @property
    def fields(self) -> Object:
        """The fields of an EntityRule."""
        out: Object = {"nets": [str(net) for net in self.nets]} if self.nets else {}
        if self.holes:
            out["notNets"] = [str(net) for net in self.holes]
        return out | self.selectors

    def with_nets_of(self, other: "Side") -> "Side | None":
        """The union of two sides that differ only in networks; None if one side cannot say it."""
        if (self.selectors, self.family) != (other.selectors, other.family):
            return None
        if not (self.nets and other.nets) or _meet(self.holes, other.nets):
            return None
        if _meet(other.holes, self.nets):
            return None
        nets, holes = dict.fromkeys(self.nets + other.nets), dict.fromkeys(self.holes + other.holes)
        return replace(self, nets=tuple(nets), holes=tuple(holes))


def _meet(some: Iterable[Network], others: Iterable[Network]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)


def ways_of(peers: Iterable[Peer]) -> list[PeerWay]:
    """The alternatives; excepted parts of a block become blocks of their own."""
    return peer_ways(tuple(map(_without_excepts, peers)))


def _without_excepts(peer: Peer) -> Peer:
    """Blocks as networks, without the excepts inside them."""
    match peer:
        case AddressPeer(network, excepts) if excepts:
            holes: list[Peer] = [Not(AddressPeer(hole)) for hole in excepts]
            return AllOf((AddressPeer(network), *holes))
        case AllOf(parts):
            return AllOf(tuple(map(_without_excepts, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(_without_excepts, parts)))
        case Not(part):
            return Not(_without_excepts(part))
        case _:
            return peer


def sides_of(ways: Iterable[PeerWay], home: str | None, anywhere: str) -> list[Side]:
    """The fields of each alternative; alternatives that differ only in networks share them."""
    found: list[Side] = []
    for way in ways:
        if way.node:
            raise UnsayableError("it matches nodes, but Calico knows only their addresses")
        if way.not_nodes:
            raise UnsayableError("it distinguishes nodes from other addresses")
        selectors = _selected(way, home, anywhere)
        for side in () if selectors is None else _addressed(way, selectors):
            for at, other in enumerate(found):
                both = other.with_nets_of(side)
                if both is not None:
                    found[at] = both
                    break
            else:
                found.append(side)
    return found


def _selected(way: PeerWay, home: str | None, anywhere: str) -> Object | None:
    """The selectors; None if they select no endpoint."""
    if way.selector is not None:
        return _selection(way.selector, home, anywhere)
    refused = simplified(OneOf(tuple(as_condition(each) for each in way.not_selected)))
    if refused == NEVER:
        return {}
    if refused == ALWAYS:
        return {"notSelector": EVERY_POD}
    return {"notSelector": to_text([refused], of_workloads)}


def _selection(condition: Condition, home: str | None, anywhere: str) -> Object | None:
    """Pods as an EntityRule selects them; None if it selects none.

    `anywhere` is the namespaceSelector for pods of any namespace, empty if none is needed.
    """
    asked = asked_by(condition)
    if asked is None:
        return None
    named = {only_namespace(part) for part in asked.namespaces}
    is_home = home is not None and named == {home}
    out: Object = {}
    if asked.labels or (is_home and anywhere and not asked.accounts):
        out["selector"] = to_text(asked.labels, of_workloads)
    if asked.namespaces and not is_home:
        out["namespaceSelector"] = namespace_selector(asked.namespaces)
    elif anywhere and not is_home:
        out["namespaceSelector"] = anywhere
    if asked.accounts:
        out["serviceAccounts"] = _accounts(asked.accounts)
    return out


def _accounts(parts: list[Condition]) -> Object:
    """Names, if one test lists them; otherwise a selector."""
    listed = next((part for part in parts if _names(part)), None)
    rest = [part for part in parts if part is not listed]
    out: Object = {"names": list(_names(listed))} if listed is not None else {}
    return out | {"selector": to_text(rest, of_named)} if rest else out


def _names(condition: Condition) -> tuple[str, ...]:
    match condition:
        case AttributeTest(Attribute.SERVICE_ACCOUNT, requirement) if (
            requirement.operator is Operator.IN
        ):
            return requirement.values
        case _:
            return ()


def _addressed(way: PeerWay, selectors: Object) -> Iterator[Side]:
    """The alternative's addresses; one entry per family if there is any CIDR."""
    if not (way.inside or way.outside):
        yield Side(selectors)
        return
    for family in (4, 6):
        if all(block.network.version == family for block in way.inside):
            inside = [block.network for block in way.inside]
            outside = [b.network for b in way.outside if b.network.version == family]
            nets = _nets(inside, outside)
            if nets is not None:
                yield Side(selectors, family, *nets)


def _nets(inside: list[Network], outside: list[Network]) -> tuple[Networks, Networks] | None:
    """The intersection of networks minus the holes; None if it is empty.

    Two networks nest, or are disjoint.
    """
    if any(net.version == 6 and is_inside(net, _MAPPED) for net in (*inside, *outside)):
        raise UnsayableError("Calico takes no CIDRs of IPv4-mapped addresses")
    if not inside:
        return None if any(net.prefixlen == 0 for net in outside) else ((), _outermost(outside))
    within = max(inside, key=lambda network: network.prefixlen)
    if not all(is_inside(within, network) for network in inside):
        return None
    if any(is_inside(within, network) for network in outside):
        return None
    return (within,), _outermost([network for network in outside if is_inside(network, within)])


def _outermost(networks: list[Network]) -> Networks:
    found = dict.fromkeys(networks)
    return tuple(
        net for net in found if not any(other != net and is_inside(net, other) for other in found)
    )
