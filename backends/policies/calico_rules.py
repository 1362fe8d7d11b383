# SPDX-License-Identifier: Apache-2.0
"""A rule of the Policy IR as rules of Calico's, in a row and with the same action (semantics D43).

A rule of Calico's is a conjunction over addresses of one family; alternatives become rules of their own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv6Network

from policyc.backends.policies.calico_selectors import (
    EVERY_POD,
    EVERYTHING,
    conjuncts,
    of_named,
    of_workloads,
    only_namespace,
    reads_only,
    simplified,
    to_text,
)
from policyc.backends.policies.calico_services import is_of_both_families, services
from policyc.backends.policies.normal_form import (
    PeerWay,
    UnsayableError,
    as_condition,
    peer_ways,
)
from policyc.backends.policies.target import Object
from policyc.ir.peers import AddressPeer, Network, NodePeer, Peer
from policyc.ir.policy import Action, Direction, Rule
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
)

MOST_RULES = 256
"""As many as one rule may become."""
LOG = "Log"
_ACTIONS = {Action.ALLOW: "Allow", Action.DENY: "Deny", Action.PASS: "Pass", Action.LOG: LOG}
_NO_WORDS = {
    Action.REJECT: "it rejects, and Calico drops without an answer",
    Action.AUDIT: "it makes an audit note, and Calico only logs",
}
_NOBODY: Peer = OneOf(())
Networks = tuple[Network, ...]
_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule stands: in a NetworkPolicy of namespace `home`, or in a global one (None).

    `has_hosts`: its subjects may be host interfaces, too.
    """

    direction: Direction
    home: str | None = None
    has_hosts: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """A source or destination: its selectors, and addresses in one of `nets` and in none of `holes`.

    `family` is that of the addresses, None where both are meant; without `nets` it is every address.
    """

    selectors: Object
    family: int | None = None
    nets: tuple[Network, ...] = ()
    holes: tuple[Network, ...] = ()

    @property
    def fields(self) -> Object:
        """As an EntityRule."""
        out: Object = {"nets": [str(net) for net in self.nets]} if self.nets else {}
        if self.holes:
            out["notNets"] = [str(net) for net in self.holes]
        return out | self.selectors

    def with_nets_of(self, other: "Side") -> "Side | None":
        """Either of two that differ by their networks, as one; None where that is not said so."""
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


def api_rules(rule: Rule, place: Place) -> list[Object]:
    """The rules; none where it matches nobody. Raises UnsayableError."""
    if rule.action in _NO_WORDS:
        raise UnsayableError(_NO_WORDS[rule.action])
    if rule.limit is not None:
        raise UnsayableError("it limits new connections")
    found = list(_matches(rule, place))
    if len(found) > MOST_RULES:
        raise UnsayableError(f"written out it is more than {MOST_RULES} rules")
    actions = [_ACTIONS[rule.action]]
    if rule.log and rule.action is not Action.LOG:
        actions.insert(0, LOG)
    return [{"action": action} | match for match in found for action in actions]


def matches_outsiders_but_pods(rule: Rule) -> bool:
    """Whether it takes pods out of everybody, which only rules of global policies can say."""
    try:
        return any(way.not_selected for way in _ways(rule.peers))
    except UnsayableError:  # which api_rules will say
        return False


def _matches(rule: Rule, place: Place) -> Iterator[Object]:
    own = rule.own if place.has_hosts else _of_pods(rule.own)
    peers = _sides(_ways(rule.peers), place.home, EVERYTHING)
    for mine in _sides(_own_ways(own, place), place.home, ""):
        for theirs in peers:
            if None not in (mine.family, theirs.family) and mine.family != theirs.family:
                continue
            yield from _served(rule, place.direction, mine, theirs)


def _served(rule: Rule, direction: Direction, mine: Side, theirs: Side) -> Iterator[Object]:
    family = mine.family or theirs.family
    families = (4, 6) if family is None and is_of_both_families(rule) else (family,)
    has_nets = any(side.nets or side.holes for side in (mine, theirs))
    source, destination = mine.fields, theirs.fields
    if direction is Direction.INGRESS:
        source, destination = destination, source
    for version in families:
        head: Object = {"ipVersion": version} if version and not has_nets else {}
        for words in services(rule, version):
            out = head | words.rule
            for name, fields in (
                ("source", source | words.source),
                ("destination", destination | words.destination),
            ):
                if fields:
                    out[name] = fields
            yield out


def _of_pods(own: Peer) -> Peer:
    """What a rule asks of its own side where that is a pod: no node, and selected or not."""
    match own:
        case NodePeer():
            return _NOBODY
        case AllOf(parts):
            return AllOf(tuple(map(_of_pods, parts)))
        case OneOf(parts):
            return OneOf(tuple(map(_of_pods, parts)))
        case Not(part):
            return Not(_of_pods(part))
        case _:
            return own


def _own_ways(own: Peer, place: Place) -> list[PeerWay]:
    ways = _ways((own,))
    if place.has_hosts:
        return ways
    return [_positive(way) if way.not_selected else way for way in ways]


def _positive(way: PeerWay) -> PeerWay:
    """A pod that is not selected is one that another selector selects."""
    refused = tuple(Not(as_condition(selector)) for selector in way.not_selected)
    return replace(way, selector=AllOf(refused), not_selected=())


def _ways(peers: Iterable[Peer]) -> list[PeerWay]:
    """The alternatives, item by item: a long list is no complicated one."""
    found = dict.fromkeys(
        way for peer in _listed(peers) for way in peer_ways((_without_excepts(peer),))
    )
    return [PeerWay(None)] if PeerWay(None) in found else list(found)


def _listed(peers: Iterable[Peer]) -> Iterator[Peer]:
    for peer in peers:
        if isinstance(peer, OneOf):
            yield from _listed(peer.parts)
        else:
            yield peer


def _without_excepts(peer: Peer) -> Peer:
    """Blocks as networks, those inside them taken out."""
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


def _sides(ways: Iterable[PeerWay], home: str | None, anywhere: str) -> list[Side]:
    """The fields of each alternative; those that are alike but for their networks share them."""
    found: list[Side] = []
    for way in ways:
        if way.node or way.not_nodes:
            raise UnsayableError("it tells nodes from other addresses")
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
    """The selectors; None where they select nobody."""
    if way.selector is not None:
        return selection(way.selector, home, anywhere)
    refused = simplified(OneOf(tuple(as_condition(each) for each in way.not_selected)))
    if refused == NEVER:
        return {}
    if refused == ALWAYS:
        return {"notSelector": EVERY_POD}
    return {"notSelector": to_text([refused], of_workloads)}


def selection(condition: Condition, home: str | None, anywhere: str) -> Object | None:
    """Pods as an EntityRule selects them; None where it selects none.

    `anywhere` is the namespaceSelector for pods of any namespace, empty where none is needed.
    """
    parts = conjuncts(condition)
    if parts == [NEVER]:
        return None
    place = [p for p in parts if reads_only(p, Attribute.NAMESPACE, Attribute.NAMESPACE_LABEL)
             and p != ALWAYS]  # fmt: skip
    accounts = [
        p
        for p in parts
        if reads_only(p, Attribute.SERVICE_ACCOUNT, Attribute.SERVICE_ACCOUNT_LABEL) and p != ALWAYS
    ]
    rest = [part for part in parts if part not in (*place, *accounts) and part != ALWAYS]
    out: Object = {"selector": to_text(rest, of_workloads)} if rest else {}
    is_home = home is not None and bool(place) and all(only_namespace(p) == home for p in place)
    if is_home and anywhere and not rest and not accounts:
        out["selector"] = EVERYTHING
    elif place and not is_home:
        out["namespaceSelector"] = to_text(place, of_named)
    elif anywhere and not is_home:
        out["namespaceSelector"] = anywhere
    if accounts:
        out["serviceAccounts"] = _accounts(accounts)
    return out


def _accounts(parts: list[Condition]) -> Object:
    """Names where one test lists them; the rest as a selector."""
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
    """The alternative's addresses; each family apart where there is a CIDR at all."""
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
    """Inside all and outside of all; None where nothing is. Two networks nest, or share nothing."""
    if any(net.version == 6 and _contains(_MAPPED, net) for net in (*inside, *outside)):
        raise UnsayableError("Calico takes no CIDRs of IPv4-mapped addresses")
    if not inside:
        return None if any(net.prefixlen == 0 for net in outside) else ((), _outermost(outside))
    within = max(inside, key=lambda network: network.prefixlen)
    if not all(_contains(network, within) for network in inside):
        return None
    if any(_contains(network, within) for network in outside):
        return None
    return (within,), _outermost([network for network in outside if _contains(within, network)])


def _outermost(networks: list[Network]) -> Networks:
    found = dict.fromkeys(networks)
    return tuple(
        net for net in found if not any(other != net and _contains(other, net) for other in found)
    )


def _contains(outer: Network, inner: Network) -> bool:
    return inner.subnet_of(outer)  # type: ignore[arg-type]
