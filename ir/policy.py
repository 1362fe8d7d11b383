# SPDX-License-Identifier: Apache-2.0
"""The Policy IR: one form for every kind of policy. Data only; `ir/semantics.py` gives its meaning.

A `PolicySet` is a list of tiers, a tier is a list of policies, and a policy is a subject and two rule
lists. Isolation is a field separate from the rules. A NetworkPolicy is a policy whose rules only allow,
and whose subjects are default-denied in each direction in which it selects them.
"""

from dataclasses import field
from enum import Enum

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import (
    ANY_PEER,
    AddressPeer,
    AnyPeer,
    EndpointPeer,
    Leaf,
    Network,
    NodePeer,
    Peer,
    Where,
)
from policyc.ir.selectors import (
    ALWAYS,
    EVERY_ENDPOINT,
    EVERYTHING,
    NEVER,
    NO_ENDPOINT,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
)
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin

__all__ = [  # what a policy is made of, in one place
    "ALWAYS",
    "ANY_PEER",
    "EVERYTHING",
    "EVERY_ENDPOINT",
    "NETWORK_POLICY",
    "NETWORK_POLICY_TIER",
    "NEVER",
    "NO_ENDPOINT",
    "Action",
    "AddressPeer",
    "AllOf",
    "AnyPeer",
    "AnyService",
    "Attribute",
    "AttributeTest",
    "Condition",
    "Direction",
    "EndpointPeer",
    "EndpointSelector",
    "EveryPort",
    "IcmpType",
    "LabelSelector",
    "Leaf",
    "Limit",
    "NamedPort",
    "Network",
    "NodePeer",
    "Not",
    "OneOf",
    "Opaque",
    "Operator",
    "Peer",
    "Policy",
    "PolicySet",
    "PortRange",
    "Ports",
    "ProtocolNumber",
    "Requirement",
    "Rule",
    "Tier",
    "TierMode",
    "Where",
]


class Direction(Enum):
    """The direction of traffic as the subject sees it."""

    __hash__ = object.__hash__  # members are single objects; Enum would hash their names

    INGRESS = "ingress"
    EGRESS = "egress"


class Action(Enum):
    """What a rule does with the flows it matches.

    PASS sends them on to the next tier. LOG and AUDIT only make a note, and evaluation continues with
    the next rule. DENY_OWN_NODE is DENY, and the only action that also applies to flows that a pod's own
    node generates for it (Cilium's `ingressDeny` of the entity host; semantics A22).
    """

    __hash__ = object.__hash__  # members are single objects; Enum would hash their names

    ALLOW = "allow"
    DENY = "deny"
    DENY_OWN_NODE = "deny-own-node"
    REJECT = "reject"
    PASS = "pass"
    LOG = "log"
    AUDIT = "audit"

    @property
    def is_deny(self) -> bool:
        """Whether a flow that this action decides is denied or rejected."""
        return self in (Action.DENY, Action.DENY_OWN_NODE, Action.REJECT)

    @property
    def place(self) -> int:
        """The position under DENY_WINS: denies come first, and among them the widest."""
        if self is Action.DENY_OWN_NODE:
            return 0
        return 1 if self.is_deny else 2

    @property
    def outcome(self) -> "Action":
        """The result for a flow that it decides, without the distinction of the subject's own node."""
        return Action.DENY if self is Action.DENY_OWN_NODE else self

    @property
    def goes_on(self) -> bool:
        """Whether evaluation continues with the next rule of the tier."""
        return self in (Action.LOG, Action.AUDIT)


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


@dataclass(frozen=True, slots=True)
class IcmpType:
    """ICMP of one family (`kind` ICMP or ICMPV6) by type and code; None is every one."""

    kind: Kind
    type: int | None = None
    code: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in (Kind.ICMP, Kind.ICMPV6):
            raise ValueError(f"{self.kind.name} has no ICMP types")
        if self.code is not None and self.type is None:
            raise ValueError("an ICMP code needs a type")


@dataclass(frozen=True, slots=True)
class ProtocolNumber:
    """All traffic of one IP protocol, by its number; ICMP is protocol 1, ICMPv6 58."""

    number: int


Ports = AnyService | EveryPort | PortRange | NamedPort | IcmpType | ProtocolNumber


@dataclass(frozen=True, slots=True)
class Limit:
    """New connections per second and source, and the burst."""

    per_second: int
    burst: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bounds of a rule's matches, where a part of the rule is something that policyc cannot decide.

    `certain` has the flows that the rule matches for certain, `widest` all flows that it may match; both
    have the rule's own action. `asks` says in words what policyc cannot decide. Rules with the same
    `text` at the same subject match the same flows.
    """

    certain: "Rule"
    widest: "Rule"
    asks: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Flows that match all parts of the rule meet `action`.

    The peer is one of `peers`, the subject itself matches `own`, the service is one of `ports` and none
    of `except_ports`, and the source port is in `source_ports` (None: any). `log` and `limit` are
    effects on the flows that the rule decides. `name` is the API's name of the rule, for people. A rule
    with `opaque` is stored as it is enforced.
    """

    action: Action
    peers: tuple[Peer, ...]
    ports: tuple[Ports, ...]
    origin: Origin = field(compare=False)
    own: Peer = ANY_PEER
    except_ports: tuple[Ports, ...] = ()
    source_ports: IntervalSet | None = None
    log: bool = False
    limit: Limit | None = None
    name: str = field(default="", compare=False)
    opaque: Opaque | None = None

    @property
    def makes_note(self) -> bool:
        """Whether flows that the rule matches and does not decide are noted."""
        return self.action.goes_on or (self.log and self.action is Action.PASS)


NETWORK_POLICY = "NetworkPolicy"


@dataclass(frozen=True, slots=True)
class Policy:
    """A subject and its rules. `isolates` are the directions in which selection alone denies.

    `kind` is the object's kind; where the group is not Kubernetes' own, as `kind.group`. `hosts`
    says which host interfaces are subjects as well (Calico's HostEndpoint, Cilium's nodeSelector).
    """

    kind: str
    namespace: str
    name: str
    subject: EndpointSelector
    isolates: frozenset[Direction]
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]
    origin: Origin = field(compare=False)
    hosts: Condition = NEVER

    def rules(self, direction: Direction) -> tuple[Rule, ...]:
        """The rules of one direction, in the order they were written."""
        return self.ingress if direction is Direction.INGRESS else self.egress

    @property
    def qualified_name(self) -> str:
        """`namespace/name`, unique among the policies of one kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def title(self) -> str:
        """The name in messages and rule ids: unique; a NetworkPolicy needs no kind in front."""
        if self.kind == NETWORK_POLICY:
            return self.qualified_name
        return f"{self.kind} {self.qualified_name}"


class TierMode(Enum):
    """The precedence of rules in a tier: the first that matches, or deny before allow."""

    FIRST_MATCH = "first-match"
    DENY_WINS = "deny-wins"


@dataclass(frozen=True, slots=True)
class Tier:
    """Policies that are evaluated together.

    `unmatched` is the default for a flow that no rule decides, at an endpoint that a policy of this tier
    isolates in that direction: DENY or PASS. Policies are in canonical order (ordered tiers: their
    order; else namespace, then name), which also picks the decider among several allows.
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
