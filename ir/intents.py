# SPDX-License-Identifier: Apache-2.0
"""Intents: statements about traffic that a policy set must keep. Data; the verifier decides them.

An intent is about new connections end to end (egress at the source and ingress at the destination),
unless its scope is one of the two. Flows that no policy can decide (a node to its own pod, a pod to
itself, replies) are outside, unless `includes_builtin` is set. `any` is every pod, node and external
address of both families.
"""

from dataclasses import field
from enum import Enum

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.peers import ANY_PEER, Peer
from policyc.ir.policy import AnyService, Ports
from policyc.ir.spans import Origin


class IntentKind(Enum):
    """The kind of promise that an intent makes about its connections."""

    NEVER = "never"
    """No connection from `src` to `dst` for `services` is allowed."""
    ALWAYS = "always"
    """Every connection from `src` to `dst` for `services` is allowed."""
    ONLY = "only"
    """Only `src` may connect to `dst` for `services`.

    Connections from `src` may be allowed or denied.
    """
    ISOLATED = "isolated"
    """No connection from `src` to `dst` is allowed; an endpoint on both sides is its own finding."""


class Scope(Enum):
    """The end whose policies an intent is about."""

    END_TO_END = "end to end"
    """A connection is allowed if egress at its source and ingress at its destination are."""
    INGRESS = "ingress"
    """Only the destination's ingress counts."""
    EGRESS = "egress"
    """Only the source's egress counts."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One promise. Each of `services`, `src` and `dst` is a union; none of them is empty.

    `name` and `reason` are for people, and empty if none were given. `origin` is the intent's first
    word.
    """

    kind: IntentKind
    services: tuple[Ports, ...]
    src: tuple[Peer, ...]
    dst: tuple[Peer, ...]
    origin: Origin = field(compare=False)
    scope: Scope = Scope.END_TO_END
    includes_builtin: bool = False
    name: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """The intent's name in messages: its name, or its place."""
        return self.name or f"{self.kind.value} at {self.origin.span}"


ANY_SIDE: tuple[Peer, ...] = (ANY_PEER,)
ANY_SERVICES: tuple[Ports, ...] = (AnyService(),)
