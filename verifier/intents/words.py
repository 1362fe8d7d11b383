# SPDX-License-Identifier: Apache-2.0
"""Intents in words, for reports."""

from policyc.ir.describe import describe_peer, describe_ports
from policyc.ir.intents import ANY_SERVICES, Intent, IntentKind, Scope
from policyc.ir.peers import Peer


def describe_intent(intent: Intent) -> str:
    """What an intent promises: `never TCP 5432 from [*: env=dev] to [*: app=db], ingress only`."""
    services = ", ".join(map(describe_ports, intent.services))
    src, dst = _side(intent.src), _side(intent.dst)
    if intent.kind is IntentKind.ISOLATED:
        on = "" if intent.services == ANY_SERVICES else f" for {services}"
        shown = f"isolated {dst} from {src}{on}"
    else:
        shown = f"{intent.kind.value} {services} from {src} to {dst}"
    if intent.scope is not Scope.END_TO_END:
        shown += f", {intent.scope.value} only"
    return f"{shown}, including builtin" if intent.includes_builtin else shown


def _side(peers: tuple[Peer, ...]) -> str:
    return " or ".join(map(describe_peer, peers))
