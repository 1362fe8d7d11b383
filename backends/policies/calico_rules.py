# SPDX-License-Identifier: Apache-2.0
"""A rule of the Policy IR as consecutive Calico rules with the same action (semantics D43).

A Calico rule is a conjunction over addresses of one family. Alternatives become separate rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policyc.backends.policies.calico_selectors import EVERYTHING
from policyc.backends.policies.calico_services import is_of_both_families, services
from policyc.backends.policies.calico_sides import Side, sides_of, ways_of
from policyc.backends.policies.normal_form import PeerWay, UnsayableError
from policyc.backends.policies.target import Object
from policyc.ir.peers import NodePeer, Peer
from policyc.ir.policy import Action, Direction, Rule
from policyc.ir.selectors import AllOf, Not, OneOf, as_condition

MOST_RULES = 256
"""The maximal number of rules that one rule may become."""
LOG = "Log"
_ACTIONS = {Action.ALLOW: "Allow", Action.DENY: "Deny", Action.PASS: "Pass", Action.LOG: LOG}
_NO_WORDS = {
    Action.REJECT: "it rejects, but Calico only drops",
    Action.DENY_OWN_NODE: "it also denies traffic of the pod's own node, which Calico always allows",
    Action.AUDIT: "it audits, but Calico only logs",
}
_NOBODY: Peer = OneOf(())


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a rule: in a NetworkPolicy of namespace `home`, or in a global one (None).

    `has_hosts`: its subjects may be host interfaces, too.
    """

    direction: Direction
    home: str | None = None
    has_hosts: bool = False


def api_rules(rule: Rule, place: Place) -> list[Object]:
    """The rules; none if it matches no flow. Raises UnsayableError.

    Calico's rules have no names; they have annotations, for people.
    """
    if rule.action in _NO_WORDS:
        raise UnsayableError(_NO_WORDS[rule.action])
    if rule.limit is not None:
        raise UnsayableError("it limits new connections")
    found = list(_matches(rule, place))
    if len(found) > MOST_RULES:
        raise UnsayableError(f"its expansion has more than {MOST_RULES} rules")
    actions = [_ACTIONS[rule.action]]
    if rule.log and rule.action is not Action.LOG:
        actions.insert(0, LOG)
    name: Object = {"metadata": {"annotations": {"name": rule.name}}} if rule.name else {}
    return [{"action": action} | name | match for match in found for action in actions]


def matches_outsiders_but_pods(rule: Rule) -> bool:
    """Whether it excludes pods from all peers, which only rules of global policies can express."""
    try:
        return any(way.not_selected for way in ways_of(rule.peers))
    except UnsayableError:  # which api_rules will report
        return False


def _matches(rule: Rule, place: Place) -> Iterator[Object]:
    own = rule.own if place.has_hosts else _of_pods(rule.own)
    peers = sides_of(ways_of(rule.peers), place.home, EVERYTHING)
    for mine in sides_of(_own_ways(own, place), place.home, ""):
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
    """The requirements of a rule on its own side if that is a pod: no node, and selected or not."""
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
    ways = ways_of((own,))
    if place.has_hosts:
        return ways
    return [_positive(way) if way.not_selected else way for way in ways]


def _positive(way: PeerWay) -> PeerWay:
    """A pod that a selector does not select, as one that another selector selects."""
    refused = tuple(Not(as_condition(selector)) for selector in way.not_selected)
    return replace(way, selector=AllOf(refused), not_selected=())
