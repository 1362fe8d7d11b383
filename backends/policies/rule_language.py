# SPDX-License-Identifier: Apache-2.0
"""Rules as text of policyc's rule language (semantics G53, G57): both sides, and modifiers.

Every function raises UnsayableError for what the language cannot express.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_network
from itertools import product

from policyc.backends.policies.expressions import (
    of_nodes,
    pods_text,
    quoted,
    simplified,
    subject_text,
    written,
)
from policyc.backends.policies.normal_form import (
    MOST_ALTERNATIVES,
    PeerWay,
    UnsayableError,
    peer_ways,
)
from policyc.backends.policies.rule_services import service_texts
from policyc.ir.peers import AddressPeer, EndpointPeer, Network, Peer, Where, is_inside
from policyc.ir.policy import Action, Direction, Limit, Rule
from policyc.ir.selectors import (
    ALWAYS,
    NEVER,
    AllOf,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
    as_condition,
)

_SIDES = {Direction.INGRESS: "from", Direction.EGRESS: "to"}
ANY = "any"
_WIDTH = 96
_INDENT = 4
_LONGEST_NAME = 100
_HIGHEST_RATE = 1_000_000_000
_FIRST_MAPPED_LENGTH = 96
_LESS_ANOTHER = re.compile(r"[0-9a-f:.]+/[0-9]+ except ")
_EVERYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))
PodsText = Callable[[Condition], str]
"""The writer of a simple condition on pods."""


def rule_text(rule: Rule, direction: Direction, home: str) -> str | None:
    """The rule, over several lines if it is long; None if no flow can match it."""
    if rule.source_ports is not None:
        raise UnsayableError("it matches source ports")
    peers, own = _peers(rule.peers, home), _own(rule.own, home)
    services = service_texts(rule)
    if not peers or not own or services is None:
        return None
    sides = _sides(peers, own, direction)
    if sides and not services:
        services = [ANY]
    if rule.action is Action.DENY_OWN_NODE:
        raise UnsayableError("it also denies traffic of the pod's own node")
    units = [*(_listed(rule.action.value, services) if services else [rule.action.value]), *sides]
    if rule.log and rule.action is not Action.LOG:
        units[-1] += " log"
    if rule.limit is not None:
        units.append(_limit(rule.limit, rule.action))
    name = _name(rule.name)
    if name:
        units.append(f"as {quoted(name)}")
    return _wrapped(units)


def _sides(peers: list[str], own: list[str], direction: Direction) -> list[str]:
    """The peers, unless they are `any`, before or after the requirements on the own side."""
    if own == [ANY]:
        return [] if peers == [ANY] else _listed(_SIDES[direction], peers)
    src, dst = (peers, own) if direction is Direction.INGRESS else (own, peers)
    return [*_listed("from", src), *_listed("to", dst)]


def _listed(word: str, items: list[str]) -> list[str]:
    """A word and a list, in pieces after which a line may end."""
    commas = [f"{item}," for item in items[:-1]] + items[-1:]
    return [f"{word} {commas[0]}", *commas[1:]]


def _wrapped(units: list[str]) -> str:
    lines = [""]
    for unit in units:
        if lines[-1] and len(lines[-1]) + len(unit) + _INDENT > _WIDTH:
            lines.append("")
        lines[-1] += f" {unit}" if lines[-1] else unit
    return "\n".join(lines)


def _name(name: str) -> str:
    """A rule's name as far as the language accepts it; it does not affect verdicts."""
    return "".join(c for c in name if c.isprintable())[:_LONGEST_NAME].strip()


def _limit(limit: Limit, action: Action) -> str:
    if action is not Action.ALLOW:
        raise UnsayableError(f"it limits a {action.value}, but only an allow can have a limit")
    for number in (limit.per_second, limit.burst):
        if not 1 <= number <= _HIGHEST_RATE:
            raise UnsayableError("its limit is not from 1 to 1000000000 a second")
    burst = "" if limit.burst == limit.per_second else f" burst {limit.burst}"
    return f"limit {limit.per_second}/s{burst}"


def _peers(peers: tuple[Peer, ...], home: str) -> list[str]:
    """Each peer that a rule names; ["any"] for every peer, an empty list for no peer."""
    pods = partial(pods_text, home=home)
    found = [text for way in peer_ways(peers) for text in _way_texts(way, pods)]
    return _shortened(list(dict.fromkeys(found)), home)


def _own(own: Peer, home: str) -> list[str]:
    """As `_peers`, for the requirements of a rule on its own side, which is a pod."""
    everyone = EndpointPeer(EndpointSelector(home or None))
    pods = partial(subject_text, home=home)
    found: dict[str, None] = {}
    for way in peer_ways((AllOf((everyone, own)),)):
        if way.selector is not None and pods(simplified(way.selector)) == written(ALWAYS):
            way = replace(way, selector=None)
        found |= dict.fromkeys(_way_texts(way, pods))
    return _shortened(list(found), home)


def _way_texts(way: PeerWay, pods: PodsText) -> Iterator[str]:
    for each in _plain_outsides(way):
        if each == PeerWay(None):
            yield ANY
            continue
        blocks = _blocks(each)
        if blocks is None:
            yield from _holders(each, pods)
            continue
        for text in _holders(each, partial(_as_one, pods)):
            yield from (f"{text} in {block}" if text else block for block in blocks)


def _as_one(pods: PodsText, condition: Condition) -> str:
    """The text, in parentheses if what follows could seem to belong to its last part only."""
    text = pods(condition)
    return f"({text})" if " && " in text or " || " in text else text


def _plain_outsides(way: PeerWay) -> list[PeerWay]:
    """The alternative without excluded blocks that have excepts: outside, or in an except."""
    choices: list[list[AddressPeer]] = []
    for block in way.outside:
        holes = [AddressPeer(hole) for hole in block.excepts]
        choices.append([AddressPeer(block.network), *holes])
    found = []
    for chosen in product(*choices):
        pairs = list(zip(way.outside, chosen, strict=True))
        outside = tuple(peer for block, peer in pairs if peer.network == block.network)
        inside = tuple(peer for block, peer in pairs if peer.network != block.network)
        found.append(replace(way, inside=(*way.inside, *inside), outside=outside))
        if len(found) > MOST_ALTERNATIVES:
            raise UnsayableError(f"its expansion has more than {MOST_ALTERNATIVES} alternatives")
    return found


def _holders(way: PeerWay, pods: PodsText) -> Iterator[str]:
    """The possible holders of the address: pods, nodes, the world; "" if all are possible."""
    if way.selector is not None:
        yield from _pods(way.selector, pods)
        return
    if way.node:
        yield from _nodes(way)
        return
    if not way.not_selected and not way.not_nodes:
        yield ""
        return
    yield "entity world"
    yield from _nodes(way)
    refused = tuple(as_condition(selector) for selector in way.not_selected)
    yield from _pods(Not(OneOf(refused)), pods)


def _pods(condition: Condition, pods: PodsText) -> Iterator[str]:
    found = simplified(condition)
    if found != NEVER:
        yield pods(found)


def _nodes(way: PeerWay) -> Iterator[str]:
    """Nodes by name and labels, and by their location relative to the subject."""
    condition: Condition = AllOf(tuple(of_nodes(peer.condition) for peer in way.node))
    places = {peer.where for peer in way.node} - {Where.ANYWHERE}
    found: list[tuple[Condition, frozenset[Where]]] = [(condition, frozenset(places))]
    for peer in way.not_nodes:
        refused = of_nodes(peer.condition)
        other = [(_both(held, Not(refused)), where) for held, where in found]
        if peer.where is not Where.ANYWHERE:
            elsewhere = Where.REMOTE if peer.where is Where.LOCAL else Where.LOCAL
            other += [(held, where | {elsewhere}) for held, where in found]
        found = other
        if len(found) > MOST_ALTERNATIVES:
            raise UnsayableError(f"its expansion has more than {MOST_ALTERNATIVES} alternatives")
    for held, where in found:
        held = simplified(held)
        if held != NEVER and len(where) < 2:
            yield _node(held, next(iter(where), Where.ANYWHERE))


def _both(one: Condition, other: Condition) -> Condition:
    return AllOf((one, other))


def _node(condition: Condition, where: Where) -> str:
    if where is Where.ANYWHERE:
        return f"node {written(condition)}"
    entity = "entity host" if where is Where.LOCAL else "entity remote-node"
    return entity if condition == ALWAYS else f"{entity} with {written(condition)}"


def _blocks(way: PeerWay) -> list[str] | None:
    """The addresses of an alternative as blocks with their excepts; None if any address matches."""
    if not way.inside and not way.outside:
        return None
    networks: list[Network] = list(_EVERYWHERE)
    if way.inside:
        nested = sorted((peer.network for peer in way.inside), key=lambda n: n.prefixlen)
        if any(not is_inside(nested[-1], outer) for outer in nested):
            return []
        networks = nested[-1:]
    holes = [hole for peer in way.inside for hole in peer.excepts]
    holes += [peer.network for peer in way.outside]
    return [text for network in networks for text in _block(network, holes)]


def _block(network: Network, holes: list[Network]) -> Iterator[str]:
    """The block, unless the result is empty."""
    if any(is_inside(network, hole) for hole in holes):
        return
    inner = {hole for hole in holes if is_inside(hole, network)}
    widest = [h for h in inner if not any(h != other and is_inside(h, other) for other in inner)]
    texts = [_cidr(h) for h in sorted(widest, key=lambda h: (int(h.network_address), h.prefixlen))]
    if not texts:
        yield _cidr(network)
    elif len(texts) == 1:
        yield f"{_cidr(network)} except {texts[0]}"
    else:
        yield f"{_cidr(network)} except {{{', '.join(texts)}}}"


def _cidr(network: Network) -> str:
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _FIRST_MAPPED_LENGTH:
        raise UnsayableError("it has IPv4-mapped IPv6 addresses")
    return str(network.network_address if network.num_addresses == 1 else network)


def _shortened(texts: list[str], home: str) -> list[str]:
    """Pods, nodes and the world together become `any`; blocks with excepts come after the others.

    Before a block without excepts, the except list of a block would seem to continue.
    """
    pods = pods_text(ALWAYS, home)
    if ANY in texts or {pods, "node all", "entity world"} <= set(texts):
        return [ANY]
    if {pods, "node all"} <= set(texts):
        texts[texts.index(pods)] = "entity cluster"
        texts.remove("node all")
    return sorted(texts, key=lambda text: _LESS_ANOTHER.match(text) is not None)
