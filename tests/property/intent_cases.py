# SPDX-License-Identifier: Apache-2.0
"""Random intents over the labels, addresses and ports that random policies use."""

import random

from policyc.ir.intents import Intent, IntentKind, Scope
from policyc.ir.policy import ANY_PEER, AnyService, NodePeer, Peer, Ports, Where
from policyc.ir.spans import Origin, Span
from tests.property import cases
from tests.property.tiered_cases import _odd_service, _peer


def random_intent(rng: random.Random, number: int) -> Intent:
    """An intent of any kind and scope."""
    kind = rng.choice(tuple(IntentKind))
    services: tuple[Ports, ...] = (AnyService(),)
    if rng.random() < 0.7:
        makers = (cases._port, cases._port, _odd_service)
        services = tuple(rng.choice(makers)(rng) for _ in range(rng.randint(1, 2)))
    return Intent(
        kind,
        services,
        _side(rng),
        _side(rng),
        Origin(Span("random.intent", number + 1, 1), f"intents[{number}]"),
        rng.choice(tuple(Scope)),
        rng.random() < 0.3,
        f"intent-{number}",
    )


def _side(rng: random.Random) -> tuple[Peer, ...]:
    chance = rng.random()
    if chance < 0.15:
        return (ANY_PEER,)
    if chance < 0.25:
        return (NodePeer(where=rng.choice(tuple(Where))),)
    namespace = rng.choice(cases.NAMESPACES)
    return tuple(_peer(rng, namespace) for _ in range(rng.randint(1, 2)))
