# SPDX-License-Identifier: Apache-2.0
"""Rules as bit sets: for each class of ends the rules that select it, tier by tier, in evaluation order.

Classes that the same rules select, with the same own side, are one *row* and are decided once. Rules are
interned by content, so two versions of a policy set share the rules that did not change.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from policyc.ir.bits import members
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    NEVER,
    Action,
    AnyPeer,
    AnyService,
    Direction,
    EveryPort,
    IcmpType,
    Limit,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
    TierMode,
)
from policyc.ir.semantics import FAILSAFE_PORTS
from policyc.ir.services import (
    ALL_SERVICES,
    ICMP_NUMBER,
    ICMPV6_NUMBER,
    Kind,
    kind_of_number,
    kind_span,
)
from policyc.ir.universe import FAMILIES, ContainerPort, Endpoint, HostInterface, Node
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.space import Space, View

LOG, AUDIT = 1, 2
NOTHING = IntervalSet()
Numbers = Callable[[NamedPort], Iterable[int]]
"""The numbers that the destination declares under a name and protocol (A19)."""
_FIRST_LIMIT = 4


@dataclass(frozen=True, slots=True)
class RuleId:
    """The position of a rule in a policy set."""

    tier: int
    policy: Policy
    direction: Direction
    index: int

    @property
    def rule(self) -> Rule:
        """The rule itself."""
        return self.policy.rules(self.direction)[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """A rule for one row: the peers and services it matches, and its action and effects.

    `effects` is a mask: LOG, AUDIT, and a bit for each limit. `rule` and `part` are for identity: a rule
    whose services differ between peers (named ports on egress) has several parts.
    """

    action: Action
    services: IntervalSet
    columns: int
    effects: int
    sources: IntervalSet | None
    content: object


@dataclass(frozen=True, slots=True)
class RowTier:
    """The matchings of a tier in evaluation order, with their rules; `unmatched` None: pass on."""

    matchings: tuple[Matching, ...]
    rules: tuple[RuleId, ...]
    unmatched: Action | None
    isolating: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """The rules that decide the flows of some classes of ends in one direction.

    `fallback` is the verdict if no tier decides. `failsafes`: services to which policy does not apply
    (D43). `evaluated` False: the end has no policy at all, as a node without a host interface (A3).
    """

    direction: Direction
    tiers: tuple[RowTier, ...]
    fallback: Action = Action.ALLOW
    failsafes: IntervalSet = NOTHING
    evaluated: bool = True

    @property
    def content(self) -> object:
        """Rows with equal content have equal verdicts; the deciding rules may differ."""
        tiers = []
        for tier in self.tiers:
            parts: object = tuple(id(m) for m in tier.matchings)
            if all(m.action is Action.ALLOW and not m.effects for m in tier.matchings):
                parts = frozenset(id(m) for m in tier.matchings)  # then order does not matter
            if parts or tier.unmatched is not None:
                tiers.append((parts, tier.unmatched))
        return self.evaluated, self.fallback, self.failsafes, tuple(tiers)


OUTSIDE_ROW = Row(Direction.INGRESS, (), evaluated=False)


@dataclass
class Rules:
    """Compiles the rules of policy sets over one view; equal parts are one object.

    Flows that nodes generate for their own pods are not covered here (`own_node.py`).
    """

    space: Space
    view: View
    interned: dict[object, Matching]
    _facts: dict[tuple[int, Direction], tuple[bool, bool]] = field(default_factory=dict)
    _of_policies: dict[object, list[tuple[Matching, RuleId]]] = field(default_factory=dict)
    _services: dict[object, IntervalSet] = field(default_factory=dict)
    _parts: dict[object, tuple[Matching, ...]] = field(default_factory=dict)

    def rows(self, policies: PolicySet, direction: Direction) -> list[Row]:
        """The row of every class."""
        selecting: list[list[tuple[int, Policy]]] = [[] for _ in self.space.classes]
        for tier_index, tier in enumerate(policies.tiers):
            for policy in tier.policies:
                if not policy.rules(direction) and direction not in policy.isolates:
                    continue
                for at in members(self._subjects(policy)):
                    selecting[at].append((tier_index, policy))
        made: dict[object, Row] = {}
        out = []
        for at, mine in enumerate(selecting):
            key = (self._own_key(at, mine, direction), tuple((t, id(p)) for t, p in mine))
            if key not in made:
                made[key] = self._row(at, mine, policies, direction)
            out.append(made[key])
        return out

    def _subjects(self, policy: Policy) -> int:
        found = self.view.pods.selected(policy.subject)
        if policy.hosts != NEVER:
            found |= self.view.nodes.condition(policy.hosts)
        return found

    def _own_key(self, at: int, mine: Iterable[tuple[int, Policy]], direction: Direction) -> object:
        """The attributes of the end itself that its rules read, beside selecting it."""
        end = self.view.ends[at]
        if isinstance(end, Node):
            host = end.host
            return (end.name, host and (host.name, host.denies_unmatched, host.has_failsafes),
                    at if self._reads_own(mine, direction) else -1)  # fmt: skip
        named = end.ports if direction is Direction.INGRESS and self.space.reads.names else ()
        node = end.node if self.space.reads.locality else ""
        return named, node, at if self._reads_own(mine, direction) else -1

    def _reads_own(self, mine: Iterable[tuple[int, Policy]], direction: Direction) -> bool:
        return any(self._has_own(policy, direction) for _, policy in mine)

    def _has_own(self, policy: Policy, direction: Direction) -> bool:
        return self._facts_of(policy, direction)[0]

    def _facts_of(self, policy: Policy, direction: Direction) -> tuple[bool, bool]:
        """Whether some rule tests its own side, and whether one names a port."""
        key = (id(policy), direction)
        if key not in self._facts:
            rules = policy.rules(direction)
            self._facts[key] = (
                any(not isinstance(rule.own, AnyPeer) for rule in rules),
                any(map(_reads_name, rules)),
            )
        return self._facts[key]

    def _row(
        self, at: int, mine: list[tuple[int, Policy]], policies: PolicySet, direction: Direction
    ) -> Row:
        end = self.view.ends[at]
        host = end.host if isinstance(end, Node) else None
        if isinstance(end, Node) and host is None:
            return OUTSIDE_ROW
        tiers = []
        for index, tier in enumerate(policies.tiers):
            selecting = [policy for t, policy in mine if t == index]
            if selecting:
                isolating = tuple(p for p in selecting if direction in p.isolates)
                denies = isolating and tier.unmatched is not Action.PASS
                found = list(self._matchings(index, selecting, direction, at))
                if tier.mode is TierMode.DENY_WINS:
                    found.sort(key=lambda item: item[1].rule.action.place)
                tiers.append(RowTier(
                    tuple(m for m, _ in found), tuple(rule for _, rule in found),
                    tier.unmatched if denies else None, isolating))  # fmt: skip
        fallback = Action.DENY if host is not None and host.denies_unmatched else Action.ALLOW
        return Row(direction, tuple(tiers), fallback, failsafes_of(host, direction))

    def _matchings(
        self, tier: int, selecting: list[Policy], direction: Direction, at: int
    ) -> Iterator[tuple[Matching, RuleId]]:
        for policy in selecting:
            yield from self._of_policy(tier, policy, direction, at)

    def _of_policy(
        self, tier: int, policy: Policy, direction: Direction, at: int
    ) -> list[tuple[Matching, RuleId]]:
        """The policy's matchings: the same for every class but for the attributes its rules read."""
        end = self.view.ends[at]
        has_own, has_names = self._facts_of(policy, direction)
        named = has_names and direction is Direction.INGRESS and isinstance(end, Endpoint)
        ports = end.ports if named and isinstance(end, Endpoint) else ()
        node = _node_of(end) if self.space.reads.locality else ""
        key = (id(policy), direction, tier, at if has_own else -1, ports, node)
        if key not in self._of_policies:
            self._of_policies[key] = [
                (matching, RuleId(tier, policy, direction, index))
                for index, rule in enumerate(policy.rules(direction))
                for matching in self.matching(rule, direction, at)
            ]
        return self._of_policies[key]

    def matching(self, rule: Rule, direction: Direction, at: int) -> tuple[Matching, ...]:
        """The rule for the class at `at`; nothing if it can match none of its flows."""
        end = self.view.ends[at]
        reads_name = _reads_name(rule)
        ingress = direction is Direction.INGRESS
        own = at if not isinstance(rule.own, AnyPeer) else -1
        ports = end.ports if reads_name and ingress and isinstance(end, Endpoint) else ()
        node = _node_of(end) if self.space.reads.locality else ""
        key = (id(rule), direction, own, ports, node)
        if key not in self._parts:
            columns = self._columns(rule, at, node)
            if reads_name and not ingress:
                parts = self._by_declared(rule, columns)
            else:
                parts = [(self._services_of(rule, ports), columns)]
            self._parts[key] = tuple(
                self._intern(rule, services, mask) for services, mask in parts if services and mask
            )
        return self._parts[key]

    def _intern(self, rule: Rule, services: IntervalSet, columns: int) -> Matching:
        effects = self._effects(rule)
        action = rule.action.outcome
        content = (action, services, columns, effects, rule.source_ports)
        if content not in self.interned:
            self.interned[content] = Matching(
                action, services, columns, effects, rule.source_ports, content
            )
        return self.interned[content]

    def _effects(self, rule: Rule) -> int:
        found = LOG if rule.log or rule.action is Action.LOG else 0
        if rule.action is Action.AUDIT:
            found |= AUDIT
        if rule.limit is not None:
            found |= limit_bit(self.space.reads, rule.limit)
        return found

    def _columns(self, rule: Rule, at: int, node: str) -> int:
        found = 0
        for peer in rule.peers:
            found |= self.view.peer(peer, node)
        if isinstance(rule.own, AnyPeer) or not found:
            return found
        holds = 0
        mine = 0
        for column in self.space.columns_of[at]:
            mine |= 1 << column
        matched = self.view.peer(rule.own, node) & mine
        for family in FAMILIES:
            if matched & self.space.of_family[family]:
                holds |= self.space.of_family[family]
        return found & holds

    def _by_declared(self, rule: Rule, columns: int) -> list[tuple[IntervalSet, int]]:
        """(services, columns): a named port on egress resolves to what each peer declares."""
        names = [p for p in (*rule.ports, *rule.except_ports) if isinstance(p, NamedPort)]
        groups: dict[tuple[tuple[NamedPort, int], ...], int] = {(): columns}
        for name in dict.fromkeys(names):
            for number, declaring in self.view.declaring(name).items():
                split: dict[tuple[tuple[NamedPort, int], ...], int] = {}
                for declared, mask in groups.items():
                    if mask & ~declaring:
                        split[declared] = split.get(declared, 0) | mask & ~declaring
                    if mask & declaring:
                        more = (*declared, (name, number))
                        split[more] = split.get(more, 0) | mask & declaring
                groups = split
        return [(self._declared_services(rule, d), mask) for d, mask in groups.items()]

    def _declared_services(
        self, rule: Rule, declared: tuple[tuple[NamedPort, int], ...]
    ) -> IntervalSet:
        def numbers(port: NamedPort) -> Iterable[int]:
            return (number for name, number in declared if name == port)

        return services_of(rule, numbers)

    def _services_of(self, rule: Rule, ports: tuple[ContainerPort, ...]) -> IntervalSet:
        key = (rule.ports, rule.except_ports, ports)
        if key not in self._services:
            declaring = Endpoint("", "", ports=ports)

            def numbers(port: NamedPort) -> Iterable[int]:
                return declaring.named_ports(port.name, port.protocol)

            self._services[key] = services_of(rule, numbers)
        return self._services[key]


def limit_bit(reads: Reads, limit: Limit) -> int:
    """The bit of a limit in a mask of effects."""
    return _FIRST_LIMIT << reads.limits[limit]


def _reads_name(rule: Rule) -> bool:
    return any(isinstance(port, NamedPort) for port in (*rule.ports, *rule.except_ports))


def _node_of(end: object) -> str:
    if isinstance(end, Endpoint):
        return end.node
    return end.name if isinstance(end, Node) else ""


def services_of(rule: Rule, numbers: Numbers) -> IntervalSet:
    """The service keys of a rule; `numbers(named port)` are those that the destination declares."""
    among = services_of_ports(rule.ports, numbers)
    return among - services_of_ports(rule.except_ports, numbers) if rule.except_ports else among


def services_of_ports(ports: Iterable[Ports], numbers: Numbers) -> IntervalSet:
    """The service keys of some port entries together."""
    found: list[tuple[int, int]] = []
    for entry in ports:
        found += _spans_of(entry, numbers)
    return IntervalSet.of(found)


def _spans_of(entry: Ports, numbers: Numbers) -> Iterable[tuple[int, int]]:
    match entry:
        case AnyService():
            return ALL_SERVICES.spans
        case EveryPort(protocol):
            return kind_span(protocol.kind).spans
        case PortRange(protocol, lo, hi):
            return [(protocol.kind << 16 | lo, protocol.kind << 16 | hi)]
        case NamedPort(protocol):
            base = protocol.kind << 16
            return [(base | n, base | n) for n in numbers(entry)]
        case IcmpType(kind, icmp_type, code):
            return _icmp(kind, icmp_type, code)
        case ProtocolNumber(number):
            if number in (ICMP_NUMBER, ICMPV6_NUMBER) or kind_of_number(number) is not Kind.OTHER:
                return kind_span(kind_of_number(number)).spans
            return [(Kind.OTHER << 16 | number, Kind.OTHER << 16 | number)]


def _icmp(kind: Kind, icmp_type: int | None, code: int | None) -> Iterable[tuple[int, int]]:
    base = kind << 16
    if icmp_type is None:
        if code is None:
            return kind_span(kind).spans
        return [(base | t << 8 | code, base | t << 8 | code) for t in range(256)]
    if code is None:
        return [(base | icmp_type << 8, base | icmp_type << 8 | 0xFF)]
    return [(base | icmp_type << 8 | code, base | icmp_type << 8 | code)]


def failsafes_of(host: HostInterface | None, direction: Direction) -> IntervalSet:
    """The services to which policy does not apply at a host interface (D43)."""
    if host is None or not host.has_failsafes:
        return IntervalSet()
    keys = [kind_of_number(number) << 16 | port for number, port in FAILSAFE_PORTS[direction]]
    return IntervalSet.of((key, key) for key in keys)
