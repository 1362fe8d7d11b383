# SPDX-License-Identifier: Apache-2.0
"""The verdict of an intent on one concrete flow, by the reference semantics: slow, direct, no solver."""

from policyc.ir.intents import Intent, IntentKind, Scope
from policyc.ir.matching import peer_matches, service_matches
from policyc.ir.peers import Peer
from policyc.ir.policy import Action
from policyc.ir.semantics import Verdict, as_seen, is_between_neighbours, is_from_its_node
from policyc.ir.universe import End, Endpoint, Flow, Node

_NOBODY = Node("")
"""The subject of node locations for an external address: all nodes are remote to it."""


def is_builtin(flow: Flow, verdict: Verdict) -> bool:
    """A node to its own pod, a pod to itself, neighbour discovery: no policy decides it.

    A rule may deny exactly the flows that a node generates for its own pods (A22).
    """
    src, dst = as_seen(flow.src), as_seen(flow.dst)
    itself = isinstance(src, Endpoint) and isinstance(dst, Endpoint) and src == dst
    passes = verdict.ingress.action is Action.ALLOW
    from_node = is_from_its_node(flow.src, flow.dst) and passes
    return itself or from_node or is_between_neighbours(flow)


def is_asked(intent: Intent, flow: Flow, verdict: Verdict) -> bool:
    """Whether the intent is about the flow, which has this verdict."""
    src, dst = as_seen(flow.src), as_seen(flow.dst)
    among = _is_one_of(intent.src, src, dst, flow.family)
    if among is (intent.kind is IntentKind.ONLY) or not _is_one_of(
        intent.dst, dst, src, flow.family
    ):
        return False
    if not any(service_matches(entry, dst, flow.service) for entry in intent.services):
        return False
    return intent.includes_builtin or not is_builtin(flow, verdict)


def _is_one_of(peers: tuple[Peer, ...], end: End, other: End, family: int) -> bool:
    seen_by = other if isinstance(other, Endpoint | Node) else _NOBODY
    return any(peer_matches(peer, end, family, seen_by) for peer in peers)


def is_allowed(scope: Scope, verdict: Verdict) -> bool:
    """Whether the ends that a scope names allow it."""
    match scope:
        case Scope.INGRESS:
            return verdict.ingress.action is Action.ALLOW
        case Scope.EGRESS:
            return verdict.egress.action is Action.ALLOW
        case Scope.END_TO_END:
            return verdict.action is Action.ALLOW


def breaks(intent: Intent, flow: Flow, verdict: Verdict) -> bool:
    """Whether a flow with this verdict breaks the intent."""
    wanted = intent.kind is IntentKind.ALWAYS
    return is_asked(intent, flow, verdict) and is_allowed(intent.scope, verdict) is not wanted
