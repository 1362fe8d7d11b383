# SPDX-License-Identifier: Apache-2.0
"""Target networking.k8s.io/v1 NetworkPolicy: one tier that only allows, and denies what it isolates."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from policyc.backends.policies.normal_form import (
    NAMESPACE_NAME_LABEL,
    Conjunction,
    PeerWay,
    UnsayableError,
    conjunctions,
    peer_ways,
    selector_to_api,
)
from policyc.backends.policies.target import (
    Inexpressible,
    InexpressibleError,
    Names,
    Object,
    of_policy,
    of_rule,
)
from policyc.ir.peers import AddressPeer, AnyPeer, Network, is_inside
from policyc.ir.policy import (
    NEVER,
    Action,
    AnyService,
    Direction,
    EveryPort,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Rule,
    Tier,
)
from policyc.ir.selectors import Requirement, as_condition

_EVERYTHING4, _EVERYTHING6 = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")
_TYPES = {Direction.INGRESS: "Ingress", Direction.EGRESS: "Egress"}
_PEERS = {Direction.INGRESS: "from", Direction.EGRESS: "to"}


def to_network_policies(policies: PolicySet) -> list[Object]:
    """NetworkPolicies with the same meaning; raises InexpressibleError."""
    tiers = [tier for tier in policies.tiers if tier.policies]
    found = [
        of_policy(policy, f"it is in tier {tier.name}, but NetworkPolicies have only one tier")
        for tier in tiers[1:]
        for policy in tier.policies
    ]
    writer = NetworkPolicyWriter()
    objects = [each for tier in tiers[:1] for each in writer.tier(tier)]
    if found or writer.found:
        raise InexpressibleError([*writer.found, *found])
    return objects


class NetworkPolicyWriter:
    """Writes tiers; inexpressible rules are collected in `found`."""

    def __init__(self, names: Names | None = None) -> None:
        self.found: list[Inexpressible] = []
        self._names = names or Names()

    def tier(self, tier: Tier) -> list[Object]:
        """The policies of one tier, in its order."""
        if tier.unmatched is not Action.DENY:
            self.found += [
                of_policy(policy, "unmatched traffic passes on to another tier")
                for policy in tier.policies
            ]
            return []
        return [each for policy in tier.policies for each in self._policy(policy)]

    def _policy(self, policy: Policy) -> list[Object]:
        if policy.hosts != NEVER:
            self.found.append(of_policy(policy, "it selects host interfaces"))
        rules = {d: self._rules(policy, d) for d in Direction}
        if not policy.isolates:  # an empty policyTypes would be read as Ingress (A6)
            return []
        try:
            subjects = conjunctions(as_condition(policy.subject))
            places = [(name, each) for each in subjects for name in _namespaces(each)]
        except UnsayableError as failure:
            self.found.append(of_policy(policy, f"in its subject, {failure}"))
            return []
        return [self._object(policy, name, subject, rules) for name, subject in places]

    def _object(
        self,
        policy: Policy,
        namespace: str,
        subject: Conjunction,
        rules: dict[Direction, list[Object]],
    ) -> Object:
        spec: Object = {"podSelector": selector_to_api(subject.labels)}
        spec["policyTypes"] = [_TYPES[d] for d in Direction if d in policy.isolates]
        spec |= {d.value: _local(rules[d], d, namespace) for d in Direction if rules[d]}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": self._names.name(policy.name, namespace),
                "namespace": namespace,
            },
            "spec": spec,
        }

    def _rules(self, policy: Policy, direction: Direction) -> list[Object]:
        out: list[Object] = []
        for rule in policy.rules(direction):
            try:
                out += _rule(policy, rule, direction)
            except UnsayableError as failure:
                self.found.append(of_rule(policy, rule, str(failure)))
        return out


def _local(rules: list[Object], direction: Direction, namespace: str) -> list[Object]:
    """The rules with peers of the policy's own namespace in their usual form (A10)."""
    own = {"matchLabels": {NAMESPACE_NAME_LABEL: namespace}}
    field = _PEERS[direction]

    def local(peer: Object) -> Object:
        if peer.get("namespaceSelector") != own:
            return peer
        return {"podSelector": peer.get("podSelector", {})}

    return [
        {**rule, field: [local(peer) for peer in rule[field]]} if field in rule else rule
        for rule in rules
    ]


def _namespaces(subject: Conjunction) -> list[str]:
    """The namespaces that need a copy of the policy."""
    others = [r for r in subject.namespace_labels if r.key != NAMESPACE_NAME_LABEL]
    if subject.namespaces is None or others:
        raise UnsayableError(
            "it selects pods in several namespaces, but a NetworkPolicy belongs to one"
        )
    return sorted(name for name in subject.namespaces if _may_be(name, subject.namespace_labels))


def _may_be(name: str, requirements: tuple[Requirement, ...]) -> bool:
    """Whether a namespace of this name meets the conditions on its name."""
    for requirement in requirements:
        is_listed = name in requirement.values
        match requirement.operator.value:
            case "In" if not is_listed:
                return False
            case "NotIn" if is_listed:
                return False
            case "DoesNotExist":
                return False
    return True


def _rule(policy: Policy, rule: Rule, direction: Direction) -> Iterator[Object]:
    """The rule; nothing if it matches no flow."""
    check_plain(rule)
    if rule.action is not Action.ALLOW:
        raise UnsayableError(
            f"NetworkPolicies only allow, but the rule is a {rule.action.outcome.value}"
        )
    if direction not in policy.isolates:
        raise UnsayableError(f"its policy has rules for {direction.value} without isolating it")
    ways = peer_ways(rule.peers)
    ports = _ports(rule)
    if not ways or ports is None:
        return
    out: Object = {}
    peers = [peer for way in ways for peer in _peers(way)]
    if PeerWay(None) not in ways:
        if not peers:
            return
        out[_PEERS[direction]] = peers
    if ports:
        out["ports"] = ports
    yield out


def check_plain(rule: Rule) -> None:
    """Raises for what no Kubernetes API can express: own side, source ports, notes and limits."""
    for is_there, what in (
        (not isinstance(rule.own, AnyPeer), "it matches the subject's own address or labels"),
        (rule.source_ports is not None, "it matches source ports"),
        (rule.log or rule.action.goes_on, "it logs or audits"),
        (rule.limit is not None, "it limits new connections"),
    ):
        if is_there:
            raise UnsayableError(what)


def _peers(way: PeerWay) -> Iterator[Object]:
    """A NetworkPolicyPeer for each alternative of the selector, or the ipBlock."""
    if way.node or way.not_nodes:
        raise UnsayableError("it distinguishes nodes from other addresses")
    if way.selector is not None:
        if way.inside or way.outside:
            raise UnsayableError("it matches pods inside (or outside) an address block")
        for each in conjunctions(way.selector):
            peer: Object = {"namespaceSelector": selector_to_api(each.namespace_labels)}
            yield peer | ({"podSelector": selector_to_api(each.labels)} if each.labels else {})
        return
    if way.not_selected:
        raise UnsayableError("it matches every peer except some pods")
    if way == PeerWay(None):
        return
    yield from (_ip_block(network, holes) for network, holes in blocks_of(way))


def blocks_of(way: PeerWay) -> list[tuple[Network, tuple[Network, ...]]]:
    """The addresses of an alternative, as CIDRs and their excepts; one per family if it has none."""
    if len(way.inside) > 1:
        nested = sorted(way.inside, key=lambda block: block.network.prefixlen)
        inner = nested[-1]
        if any(not _contains(outer, inner) for outer in nested[:-1]):
            raise UnsayableError("it matches the intersection of several address blocks")
        inside: tuple[AddressPeer, ...] = (inner,)
    else:
        inside = way.inside or (AddressPeer(_EVERYTHING4), AddressPeer(_EVERYTHING6))
    return [found for block in inside if (found := _minus(block, way.outside)) is not None]


def _contains(outer: AddressPeer, inner: AddressPeer) -> bool:
    return not outer.excepts and is_inside(inner.network, outer.network)


def _minus(
    block: AddressPeer, outside: tuple[AddressPeer, ...]
) -> tuple[Network, tuple[Network, ...]] | None:
    """The block without others; None if the result is empty."""
    holes = list(block.excepts)
    for other in outside:
        if not other.network.overlaps(block.network):
            continue
        if other.excepts:
            raise UnsayableError("it excludes a block that has its own excepts")
        if is_inside(block.network, other.network):
            return None
        holes.append(other.network)
    return block.network, tuple(sorted(set(holes), key=str))


def _ip_block(network: Network, holes: tuple[Network, ...]) -> Object:
    block: Object = {"cidr": str(network)}
    if holes:
        block["except"] = [str(hole) for hole in holes]
    return {"ipBlock": block}


def _ports(rule: Rule) -> list[Object] | None:
    """The port entries: an empty list is every port, None is no port at all."""
    if rule.except_ports:
        raise UnsayableError("it excludes ports from a wider set")
    if any(isinstance(ports, AnyService) for ports in rule.ports):
        return []
    return [_port(ports) for ports in rule.ports] or None


def _port(ports: Ports) -> Object:
    match ports:
        case EveryPort(protocol):
            return {"protocol": protocol.name}
        case PortRange(protocol, lo, hi) if lo > 0:
            port: Object = {"protocol": protocol.name, "port": lo}
            return port | {"endPort": hi} if hi != lo else port
        case NamedPort(protocol, name):
            return {"protocol": protocol.name, "port": name}
        case _:
            raise UnsayableError("it matches another protocol than TCP, UDP and SCTP, or port 0")
