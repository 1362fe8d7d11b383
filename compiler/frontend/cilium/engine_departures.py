# SPDX-License-Identifier: Apache-2.0
"""Where Cilium departs from the text of an API (semantics H) and may allow more.

policyc enforces the text. But an answer does not rely on the text alone: the rule becomes opaque,
between the text and Cilium's behaviour. Each such place is a warning with its reference.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_network

from policyc.compiler.frontend import codes_several_apis as codes
from policyc.compiler.frontend.lowered import (
    CLUSTER_NETWORK_POLICY,
    BaselineSlot,
    CiliumSlot,
    Lowered,
    NetworkPolicySlot,
    Profile,
)
from policyc.ir.diagnostics import Report
from policyc.ir.peers import is_inside
from policyc.ir.policy import (
    ANY_PEER,
    EVERY_ENDPOINT,
    NETWORK_POLICY,
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Direction,
    EndpointPeer,
    IcmpType,
    Network,
    NodePeer,
    Not,
    Opaque,
    Operator,
    Peer,
    Policy,
    PolicySet,
    Rule,
)
from policyc.ir.spans import Origin

_OUTSIDE: tuple[Peer, ...] = (Not(EndpointPeer(EVERY_ENDPOINT)), Not(NodePeer()))
_OF_PODS: tuple[Network, ...] = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)
"""Private addresses (RFC 1918, RFC 6598, RFC 4193), which pods usually have."""
_NEGATIVE = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
Change = Callable[[Rule], Rule]


@dataclass(frozen=True, slots=True)
class Departure:
    """The text of the API, what Cilium does instead, and the source of that knowledge."""

    clause: str
    text: str
    engine: str
    reference: str

    @property
    def asks(self) -> str:
        """The undecidable requirement of a rule, in words."""
        return f"{self.text} (Cilium {self.engine}: {self.clause}, {self.reference})"


NO_RULES = Departure(
    "H2",
    "default deny of a direction without rules",
    "does not isolate",
    "Cilium 1.20.2, pkg/policy",
)
TYPE_ZERO = Departure("H3", "ICMP type 0", "matches every type", "cilium#41304")
LEFT_OUT = Departure(
    "H4", "an egress rule that policyTypes leaves out", "enforces it", "cilium#48703"
)
BLOCKS = Departure("H5", "an address block that may have pods", "matches no pod", "cilium#19601")
NAMESPACES = Departure(
    "H6",
    "namespaces by labels that they lack",
    "also matches external addresses",
    "Cilium 1.20.2, pkg/policy",
)
BASELINE = Departure(
    "H7",
    "what an isolating policy does not allow, and the Baseline tier accepts",
    "allows it",
    "Cilium 1.20.2, pkg/policy",
)
GROUPS = Departure(
    "H8",
    "CiliumCIDRGroups by an empty or negative selector",
    "matches every peer, or the whole world",
    "Cilium 1.20.2, pkg/policy",
)

WORLD_LABEL = Departure(
    "H9",
    "external addresses by the label reserved:world",
    "gives them other labels in dual-stack clusters; `fromEntities: [world]` means both families",
    "Cilium 1.20.2, pkg/labels/cidr.go",
)
NODE_LABELS = Departure(
    "H9",
    "nodes by their labels",
    "supports them only with --enable-node-selector-labels",
    "Cilium 1.20.2, pkg/option/config.go",
)


def profile_among(policies: PolicySet) -> Profile | None:
    """Cilium's profile if some policy is of a kind of Cilium's; else None."""
    kinds = (policy.kind for tier in policies.tiers for policy in tier.policies)
    return Profile.CILIUM if any(kind.startswith("Cilium") for kind in kinds) else None


def with_departures(
    lowered: Sequence[Lowered], profile: Profile, report: Report
) -> Iterator[Lowered]:
    """The policies, with rules that Cilium reads differently made opaque; each has a warning."""
    if profile is not Profile.CILIUM:
        yield from lowered
        return
    overriding = list(_overriding(lowered))
    warned = Report()
    for item in lowered:
        policy = _departed(item.policy, report)
        more = tuple(_left_out(rule, report) for rule in item.left_out)
        policy = replace(policy, egress=(*policy.egress, *more))
        if isinstance(item.slot, NetworkPolicySlot | CiliumSlot):
            policy = _overridden(policy, overriding, warned)
        yield replace(item, policy=policy)
    for finding in dict.fromkeys(warned.findings):  # one warning for many policies that isolate
        report.add(finding)


def _overriding(lowered: Sequence[Lowered]) -> Iterator[tuple[Direction, Policy, Rule]]:
    """The rules of the Baseline tier that allow."""
    for item in lowered:
        if isinstance(item.slot, BaselineSlot) and not item.is_staged:
            for direction in Direction:
                for rule in item.policy.rules(direction):
                    if rule.action is Action.ALLOW:
                        yield direction, item.policy, rule


def _overridden(
    policy: Policy, overriding: Sequence[tuple[Direction, Policy, Rule]], report: Report
) -> Policy:
    """The policy, whose isolation the Baseline tier may override: any of its allows may apply here."""
    found = {direction: list(policy.rules(direction)) for direction in Direction}
    for direction, baseline, rule in overriding:
        if direction in policy.isolates:
            path = f"{baseline.title} {rule.origin.path}"
            origin = Origin(rule.origin.span, path)
            own = EndpointPeer(baseline.subject)
            widest = replace(rule, own=own, opaque=None, origin=origin)
            never = replace(widest, peers=(), own=ANY_PEER)
            made = departed(never, BASELINE, report, widest=partial(_instead, widest))
            found[direction].append(made)
    return replace(
        policy, ingress=tuple(found[Direction.INGRESS]), egress=tuple(found[Direction.EGRESS])
    )


def _left_out(rule: Rule, report: Report) -> Rule:
    """An egress rule of a policy for ingress: the text ignores it, and Cilium enforces it."""
    never = replace(rule, peers=())
    return departed(never, LEFT_OUT, report, widest=partial(_instead, rule))


def _instead(rule: Rule, _: Rule) -> Rule:
    return rule


def _departed(policy: Policy, report: Report) -> Policy:
    found = {
        direction: tuple(_rule(policy, rule, report) for rule in policy.rules(direction))
        for direction in Direction
    }
    if policy.kind.startswith("Cilium"):
        for direction in Direction:
            if direction in policy.isolates and not policy.rules(direction):
                found[direction] = (_not_isolating(policy, direction, report),)
    return replace(policy, ingress=found[Direction.INGRESS], egress=found[Direction.EGRESS])


def _not_isolating(policy: Policy, direction: Direction, report: Report) -> Rule:
    """Allows nothing for certain, and at most every peer: then the policy does not isolate."""
    path = f"spec.enableDefaultDeny.{direction.value}"
    never = Rule(Action.ALLOW, (), (AnyService(),), Origin(policy.origin.span, path))
    widest = replace(never, peers=(ANY_PEER,))
    return departed(never, NO_RULES, report, widest=partial(_instead, widest))


def _rule(policy: Policy, rule: Rule, report: Report) -> Rule:
    if policy.kind.startswith("Cilium") and any(map(_is_type_zero, rule.ports)):
        rule = departed(rule, TYPE_ZERO, report, widest=_of_every_type)
    if policy.kind == CLUSTER_NETWORK_POLICY:
        if any(map(_may_have_pods, rule.peers)):
            is_open = rule.action is not Action.ALLOW
            certain = _outside_of_cluster if is_open else None
            rule = departed(rule, BLOCKS, report, certain=certain)
        if any(map(_is_negative, rule.peers)):
            rule = departed(rule, NAMESPACES, report, widest=_and_outside)
    elif policy.kind == NETWORK_POLICY and any(map(_may_have_pods, rule.peers)):
        rule = departed(rule, BLOCKS, report)
    return rule


def departed(
    rule: Rule,
    departure: Departure,
    report: Report,
    *,
    certain: Change | None = None,
    widest: Change | None = None,
) -> Rule:
    """The rule with a warning, opaque if Cilium may allow more; it is enforced as written.

    `certain` and `widest` are its certain and its possible matches, None: as written.
    """
    span, path = rule.origin.span, rule.origin.path
    report.add(
        codes.ENGINE_DEPARTS.at(
            span,
            path,
            where=path,
            text=departure.text,
            engine=departure.engine,
            reference=f"{departure.clause}, {departure.reference}",
        )
    )
    if certain is None and widest is None:
        return rule
    known = rule.opaque or Opaque(rule, rule, (), "")
    opaque = Opaque(
        certain(known.certain) if certain else known.certain,
        widest(known.widest) if widest else known.widest,
        (*known.asks, departure.asks),
        known.text,
    )
    return replace(rule, opaque=opaque)


def _may_have_pods(peer: Peer) -> bool:
    """A block that has addresses which pods usually have."""
    if not isinstance(peer, AddressPeer):
        return False
    holes = peer.excepts
    return any(
        peer.network.overlaps(each) and not any(is_inside(each, hole) for hole in holes)
        for each in _OF_PODS
        if each.version == peer.network.version
    )


def _is_type_zero(port: object) -> bool:
    return isinstance(port, IcmpType) and port.type == 0 and port.code is None


def _of_every_type(rule: Rule) -> Rule:
    return replace(
        rule,
        ports=tuple(
            IcmpType(port.kind) if isinstance(port, IcmpType) and _is_type_zero(port) else port
            for port in rule.ports
        ),
    )


def _outside_of_cluster(rule: Rule) -> Rule:
    """Blocks without the pods and nodes that have addresses in them."""
    return replace(
        rule,
        peers=tuple(
            AllOf((peer, *_OUTSIDE)) if isinstance(peer, AddressPeer) else peer
            for peer in rule.peers
        ),
    )


def _is_negative(peer: Peer) -> bool:
    if not isinstance(peer, EndpointPeer):
        return False
    found = peer.selector.namespace_labels.requirements
    return bool(found) and all(each.operator in _NEGATIVE for each in found)


def _and_outside(rule: Rule) -> Rule:
    return replace(rule, peers=(*rule.peers, AllOf(_OUTSIDE)))
