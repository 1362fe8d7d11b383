# SPDX-License-Identifier: Apache-2.0
"""The Policy IR: one form for every kind of policy. Data only; `ir/semantics.py` gives its meaning.

A `PolicySet` is a list of tiers, a tier a list of policies, a policy a subject and two rule lists.
Isolation is a field apart from the rules: a NetworkPolicy is a policy whose rules only allow and
whose subjects are default-denied, per direction, once it selects them.
"""

from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network, IPv6Network

from policyc.ir.services import Protocol
from policyc.ir.spans import Origin

Network = IPv4Network | IPv6Network


class Direction(Enum):
    """The direction of traffic as the subject sees it."""

    INGRESS = "ingress"
    EGRESS = "egress"


class Action(Enum):
    """What a rule does with the flows it matches. PASS sends them on to the next tier."""

    ALLOW = "allow"
    DENY = "deny"
    REJECT = "reject"
    PASS = "pass"

    @property
    def is_deny(self) -> bool:
        """Whether a flow that this action decides does not get through."""
        return self in (Action.DENY, Action.REJECT)


class Operator(Enum):
    """metav1.LabelSelectorOperator."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label key; `values` is sorted, and empty for the Exists operators."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements, sorted; the empty one selects everything."""

    requirements: tuple[Requirement, ...] = ()


EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class EndpointSelector:
    """Selects endpoints: by the name of their namespace (None: any), its labels, and their own."""

    namespace: str | None = None
    namespace_labels: LabelSelector = EVERYTHING
    labels: LabelSelector = EVERYTHING


def _is_strictly_inside(inner: Network, outer: Network) -> bool:
    return (
        inner.version == outer.version
        and inner.prefixlen > outer.prefixlen
        and inner.network_address in outer
    )


@dataclass(frozen=True, slots=True)
class AnyPeer:
    """Every other side: endpoints, nodes, and addresses outside."""


@dataclass(frozen=True, slots=True)
class EndpointPeer:
    """The endpoints that a selector selects, and never an address that is no endpoint's."""

    selector: EndpointSelector


@dataclass(frozen=True, slots=True)
class AddressPeer:
    """Addresses inside `network` and in none of `excepts`, whoever holds them (ipBlock)."""

    network: Network
    excepts: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        if any(not _is_strictly_inside(hole, self.network) for hole in self.excepts):
            raise ValueError(f"an except is not a strict part of {self.network} (A14)")


Peer = AnyPeer | EndpointPeer | AddressPeer


@dataclass(frozen=True, slots=True)
class AnyService:
    """Every protocol and port: a rule without `ports`."""


@dataclass(frozen=True, slots=True)
class EveryPort:
    """All of one protocol: a port entry that names no port."""

    protocol: Protocol


@dataclass(frozen=True, slots=True)
class PortRange:
    """Destination ports lo..hi, both included; the API's `port` and `endPort`."""

    protocol: Protocol
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class NamedPort:
    """The port or ports that the *destination* endpoint declares under `name` for `protocol`."""

    protocol: Protocol
    name: str


Ports = AnyService | EveryPort | PortRange | NamedPort


@dataclass(frozen=True, slots=True)
class Rule:
    """Flows whose peer is one of `peers` and whose service is one of `ports` meet `action`."""

    action: Action
    peers: tuple[Peer, ...]
    ports: tuple[Ports, ...]
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """A subject and its rules. `isolates` are the directions in which selection alone denies."""

    kind: str
    namespace: str
    name: str
    subject: EndpointSelector
    isolates: frozenset[Direction]
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]
    origin: Origin = field(compare=False)

    def rules(self, direction: Direction) -> tuple[Rule, ...]:
        """The rules of one direction, in the order they were written."""
        return self.ingress if direction is Direction.INGRESS else self.egress

    @property
    def qualified_name(self) -> str:
        """`namespace/name`, as messages and rule ids show it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class TierMode(Enum):
    """How the rules of a tier compete: the first that matches, or deny before allow."""

    FIRST_MATCH = "first-match"
    DENY_WINS = "deny-wins"


@dataclass(frozen=True, slots=True)
class Tier:
    """Policies that are evaluated together.

    `unmatched` is what meets a flow that no rule decides, at an endpoint that a policy of this tier
    isolates in that direction: DENY or PASS. Policies stand in canonical order (ordered tiers:
    their order; else namespace, then name), which also picks the decider among several allows.
    """

    name: str
    mode: TierMode
    unmatched: Action
    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        if self.unmatched is Action.ALLOW:
            raise ValueError("unmatched traffic of an isolated endpoint is denied or passed on")


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Tiers in the order of evaluation; a flow that none of them decides is allowed."""

    tiers: tuple[Tier, ...]


NETWORK_POLICY_TIER = "networkpolicy"
