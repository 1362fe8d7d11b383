# SPDX-License-Identifier: Apache-2.0
"""The pods that a selector or a rule is about, in words and as endpoints of the cluster."""

from collections.abc import Iterable, Sequence

from policyc.compiler.editor.cursor import Pointed
from policyc.ir.counts import cluster_words, counted
from policyc.ir.describe import describe_ports
from policyc.ir.matching import peer_matches, selects
from policyc.ir.peers import EndpointPeer, Peer, leaves
from policyc.ir.policy import Direction, Rule
from policyc.ir.universe import FAMILIES, Endpoint, Universe
from policyc.verifier.symbolic.literals import Other, describe_side

_MOST_NAMES = 5
EVERYWHERE = "every pod, node and address that could exist"


def hover_text(at: Pointed, universe: Universe | None) -> str:
    """What the part of a policy means, as Markdown; the last line names the universe."""
    where = EVERYWHERE if universe is None else cluster_words(universe)
    said = _of_subject(at, universe) if not at.rules else _of_rules(at, universe)
    return "\n\n".join((*said, f"Universe: {where}."))


def _of_subject(at: Pointed, universe: Universe | None) -> Iterable[str]:
    yield f"**{at.policy.title}** applies to {_side((EndpointPeer(at.policy.subject),))}."
    if universe is not None:
        yield _counted(pods_of(at, universe), universe)


def _of_rules(at: Pointed, universe: Universe | None) -> Iterable[str]:
    assert at.direction is not None
    side = "from" if at.direction is Direction.INGRESS else "to"
    subject = _side((EndpointPeer(at.policy.subject),))
    for rule in at.rules:
        action = rule.action.outcome.value
        services = ", ".join(map(describe_ports, rule.ports))
        if rule.except_ports:
            services += f" except {', '.join(map(describe_ports, rule.except_ports))}"
        yield f"**{at.policy.title} {rule.origin.path}**: {action} {at.direction.value} of {subject}"
        yield f"{side} {_side(_peers(rule, at.peer))}: {services or 'no service'}"
    if universe is not None:
        yield _counted(pods_of(at, universe), universe)


def _peers(rule: Rule, at: int | None) -> tuple[Peer, ...]:
    return rule.peers if at is None else (rule.peers[at],)


def _side(peers: Sequence[Peer]) -> str:
    shown = (describe_side([Other(each, True)], "every peer") for each in peers)
    return ", ".join(f"`{each}`" for each in shown) or "no peer"


def _counted(found: Sequence[Endpoint], universe: Universe) -> str:
    names = ", ".join(each.qualified_name for each in found[:_MOST_NAMES])
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    pods = counted(len(found), "pod or workload", "pods and workloads")
    return f"{pods} of {len(universe.endpoints)}{': ' if names else ''}{names}{more}"


def pods_of(at: Pointed, universe: Universe) -> list[Endpoint]:
    """The subjects of a policy, or the pods that the peers of a rule match, without the host network."""
    pods = [each for each in universe.endpoints if not each.host_network]
    if not at.rules:
        return [each for each in pods if selects(at.policy.subject, each)]
    subjects = [each for each in pods if selects(at.policy.subject, each)][:1] or pods[:1]
    return [
        pod
        for pod in pods
        if any(
            peer_matches(peer, pod, family, subject)
            for rule in at.rules
            for peer in _peers(rule, at.peer)
            for family in FAMILIES
            for subject in subjects
        )
    ]


def is_about_pods(at: Pointed) -> bool:
    """Whether the part has a selector of pods: a block alone has none."""
    peers = [peer for rule in at.rules for peer in _peers(rule, at.peer)]
    return not at.rules or any(
        isinstance(leaf, EndpointPeer) for peer in peers for leaf in leaves(peer)
    )
