# SPDX-License-Identifier: Apache-2.0
"""The verdict of a policy set on a symbolic flow, as Z3 terms: written from `ir/semantics.py`.

One flow at one end: the subject (a pod, or a node's host interface), the peer (a pod, a node, or
neither), the service, both addresses, the source port. Everything is free, except combinations that no
cluster could have.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from typing import assert_never

import z3

from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where, leaves
from policyc.ir.policy import (
    NEVER,
    Action,
    Direction,
    Limit,
    NamedPort,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.selectors import AllOf, Attribute, Not, OneOf, Requirement
from policyc.ir.services import Kind
from policyc.verifier.smt.terms import (
    Term,
    asked_by,
    in_block,
    in_range,
    is_service,
    port_of,
    service_key,
)
from policyc.verifier.symbolic.attributes import (
    NAMESPACE_KEY,
    NODE_KEY,
    SERVICE_ACCOUNT_KEY,
    Domains,
    Ends,
    Key,
    agree,
    are_known_same,
    tests_in,
    tests_of,
)

ACTIONS = (Action.ALLOW, Action.DENY, Action.REJECT)
UNDECIDED = len(ACTIONS)
"""The default of a host interface if no tier decides: open or closed, the same for both sets."""
_ACTION_BITS = 2


def tests_of_all(sets: Iterable[PolicySet]) -> Iterator[tuple[Key, Requirement]]:
    """Every test of the policies on pods and nodes."""
    for policy, _, rule in rules_of(sets):
        yield from tests_of(policy.subject)
        yield from tests_in(policy.hosts)
        for peer in () if rule is None else (rule.own, *rule.peers):
            for leaf in leaves(peer):
                if isinstance(leaf, EndpointPeer):
                    yield from tests_of(leaf.selector)
                elif isinstance(leaf, NodePeer):
                    yield from tests_in(leaf.condition)


def rules_of(sets: Iterable[PolicySet]) -> Iterator[tuple[Policy, Direction, Rule | None]]:
    """Every rule; a policy without rules once, without a rule."""
    for policies in sets:
        for tier in policies.tiers:
            for policy in tier.policies:
                yield policy, Direction.INGRESS, None
                for direction in Direction:
                    for rule in policy.rules(direction):
                        yield policy, direction, rule


def names_of_ports(sets: Iterable[PolicySet]) -> tuple[NamedPort, ...]:
    """Every port that some rule reads by name, sorted."""
    names = {
        port
        for _, _, rule in rules_of(sets)
        if rule is not None
        for port in (*rule.ports, *rule.except_ports)
        if isinstance(port, NamedPort)
    }
    return sorted_ports(names)


def sorted_ports(ports: Iterable[NamedPort]) -> tuple[NamedPort, ...]:
    """Named ports by name, then protocol."""
    return tuple(sorted(ports, key=lambda p: (p.name, p.protocol.value)))


@dataclass(frozen=True)
class Sides:
    """The terms of both sides of a flow, from its subject's view. `is_local`: the peer is its node.

    `generates`: the peer generates the flow, to a pod of its own (A22).
    """

    subject: Ends
    pod: Ends
    node: Ends
    is_pod: Term
    is_node: Term
    is_local: Term
    generates: Term
    own: Mapping[int, Term]
    other: Mapping[int, Term]


def free_sides(domains: Domains) -> Sides:
    """Sides without constraints."""
    return Sides(
        Ends("subject", domains),
        Ends("other pod", domains),
        Ends("other node", domains),
        z3.Bool("other is a pod"),
        z3.Bool("other is a node"),
        z3.Bool("other is the own node"),
        z3.Bool("the own node generates the flow"),
        {4: z3.BitVec("own4", 32), 6: z3.BitVec("own6", 128)},
        {4: z3.BitVec("other4", 32), 6: z3.BitVec("other6", 128)},
    )


@dataclass
class Situation:
    """A symbolic flow at one end. `is_host`: the subject is a host interface, else a pod.

    `sides` None: free ones. Given sides are parts of a larger term, which has the constraints.
    """

    sets: tuple[PolicySet, ...]
    direction: Direction
    is_host: bool
    sides: InitVar[Sides | None] = None
    domains: Domains = field(init=False)

    def __post_init__(self, sides: Sides | None) -> None:
        if sides is None:
            sides = free_sides(Domains(tests_of_all(self.sets)))
        self.domains = sides.subject.domains
        self.subject, self.pod, self.node = sides.subject, sides.pod, sides.node
        self.is_pod, self.is_node, self.is_local = sides.is_pod, sides.is_node, sides.is_local
        self.generates = sides.generates
        self.own, self.other = sides.own, sides.other
        self.is_ipv6 = z3.Bool("IPv6")
        self.key = service_key()
        self.has_source_port = z3.Bool("source port known")
        self.source_port = z3.BitVec("source port", 16)
        rules = [rule for _, _, rule in rules_of(self.sets) if rule is not None]
        self.binds_own_node = self._is_of_pod and any(
            rule.action is Action.DENY_OWN_NODE for rule in rules
        )
        limits = dict.fromkeys(rule.limit for rule in rules if rule.limit is not None)
        self.effects: dict[Action | Limit, int] = {Action.LOG: 1, Action.AUDIT: 2}
        self.effects |= {limit: 4 << at for at, limit in enumerate(limits)}
        self.effect_bits = 2 + len(limits)
        self._terms: dict[object, Term] = {}

    def is_packet(self) -> Term:
        """The protocol is one of the family, and a source port only where the protocol has ports."""
        kind = z3.Extract(18, 16, self.key)
        return z3.And(
            is_service(self.key),
            z3.Implies(kind == int(Kind.ICMP), z3.Not(self.is_ipv6)),
            z3.Implies(kind == int(Kind.ICMPV6), self.is_ipv6),
            z3.Implies(self.has_source_port, z3.ULE(kind, int(Kind.SCTP))),
        )

    def is_possible(self) -> Term:
        """The constraints on every flow of every cluster."""
        return z3.And(
            self.is_packet(),
            z3.Not(z3.And(self.is_pod, self.is_node)),
            z3.Implies(self.is_local, self.is_node),
            *((z3.Implies(self.generates, self.is_local),) if self.binds_own_node else ()),
            *(self.own[f] != self.other[f] for f in (4, 6)),
            self.subject.is_legal(),
            self.pod.is_legal(),
            self.node.is_legal(),
            self.pod.is_pod(),
            self.node.is_node(),
            *self.shared(),
        )

    def shared(self) -> Iterator[Term]:
        """The shared attributes of two ends in one namespace, of one account or on one node."""
        one, other = self.subject, self.pod
        known = are_known_same(one, self.node, NODE_KEY)
        yield z3.Implies(z3.Or(self.is_local, known), agree(one, self.node, Attribute.NODE_LABEL))
        yield z3.Implies(self.is_local, agree(one, self.node, Attribute.NODE))
        yield z3.Implies(
            self.is_local, z3.And(*(one.has(k) for k in self.domains if k == NODE_KEY))
        )
        yield z3.Implies(z3.And(self.is_node, known), self.is_local)
        if self.is_host:
            yield one.is_node()
            return
        yield one.is_pod()
        together = are_known_same(one, other, NAMESPACE_KEY)
        yield z3.Implies(together, agree(one, other, Attribute.NAMESPACE_LABEL))
        yield z3.Implies(
            z3.And(together, are_known_same(one, other, SERVICE_ACCOUNT_KEY)),
            agree(one, other, Attribute.SERVICE_ACCOUNT_LABEL),
        )
        yield z3.Implies(
            are_known_same(one, other, NODE_KEY), agree(one, other, Attribute.NODE_LABEL)
        )

    def verdict(self, asked: PolicySet) -> tuple[Term, Term]:
        """(action, effects): an index of ACTIONS or UNDECIDED, and a mask."""
        action, effects = self._asked(asked)
        if not self.binds_own_node:
            return action, effects
        denied = self.denies_own_node(asked)
        passes = z3.And(self.generates, z3.Not(denied))
        allow, nothing = self._action(ACTIONS.index(Action.ALLOW)), z3.BitVecVal(0, effects.size())
        return z3.If(passes, allow, action), z3.If(passes, nothing, effects)

    def denies_own_node(self, asked: PolicySet) -> Term:
        """Whether the decision on a flow from the own node also denies flows the node generates."""
        denied = z3.BoolVal(False)
        for tier in reversed(asked.tiers):
            after = denied
            if tier.unmatched is not Action.PASS:
                isolating = [p for p in tier.policies if self.direction in p.isolates]
                denied = z3.And(z3.Not(z3.Or(*map(self._is_subject, isolating))), denied)
            for policy, rule in reversed(_in_order(tier.mode, tier.policies, self.direction)):
                if rule.action.goes_on:
                    continue
                then = z3.BoolVal(rule.action is Action.DENY_OWN_NODE)
                then = after if rule.action is Action.PASS else then
                matches = z3.And(self._is_subject(policy), self._matches(rule))
                denied = z3.If(matches, then, denied)
        return denied

    @property
    def _is_of_pod(self) -> bool:
        return self.direction is Direction.INGRESS and not self.is_host

    def _asked(self, asked: PolicySet) -> tuple[Term, Term]:
        """The tiers' decision, whatever generates the flow."""
        action = self._action(UNDECIDED) if self.is_host else self._action(0)
        effects = z3.BitVecVal(0, self.effect_bits)
        for tier in reversed(asked.tiers):
            after = action, effects
            policies = self._that_may_select(tier)
            isolating = [self._is_subject(p) for p in policies if self.direction in p.isolates]
            if tier.unmatched is not Action.PASS:
                unmatched = self._action(ACTIONS.index(tier.unmatched))
                action = z3.If(z3.Or(*isolating), unmatched, action)
                effects = z3.If(z3.Or(*isolating), z3.BitVecVal(0, self.effect_bits), effects)
            for policy, rule in reversed(_in_order(tier.mode, policies, self.direction)):
                action, effects = self._ruled(policy, rule, (action, effects), after)
        return action, effects

    def _ruled(
        self, policy: Policy, rule: Rule, otherwise: tuple[Term, Term], after: tuple[Term, Term]
    ) -> tuple[Term, Term]:
        """The result of the rule for a flow, if later rules of the tier would give `otherwise`."""
        action, effects = otherwise
        match rule.action:
            case Action.PASS:
                then, notes = after
            case Action.LOG | Action.AUDIT:
                then, notes = otherwise
            case _:
                then = self._action(ACTIONS.index(rule.action.outcome))
                notes = z3.BitVecVal(0, self.effect_bits)
        notes = notes | z3.BitVecVal(self._effects(rule), self.effect_bits)
        matches = z3.And(self._is_subject(policy), self._matches(rule))
        return z3.If(matches, then, action), z3.If(matches, notes, effects)

    def _effects(self, rule: Rule) -> int:
        found = self.effects[rule.action] if rule.action.goes_on else 0
        if rule.limit is not None:
            found |= self.effects[rule.limit]
        return found | self.effects[Action.LOG] if rule.log else found

    def _action(self, index: int) -> Term:
        return z3.BitVecVal(index, _ACTION_BITS)

    def _that_may_select(self, tier: Tier) -> tuple[Policy, ...]:
        """The tier's policies; for a host subject, without those that select no host."""
        return tuple(p for p in tier.policies if not self.is_host or p.hosts != NEVER)

    def _is_subject(self, policy: Policy) -> Term:
        if self.is_host:
            return self.subject.condition(policy.hosts)
        return self.subject.selected(policy.subject)

    def _matches(self, rule: Rule) -> Term:
        terms = [
            self.peer_term(rule.own, True),
            z3.Or(*(self.peer_term(peer, False) for peer in rule.peers)),
            self._asked_by(rule),
        ]
        if rule.source_ports is not None:
            port = self.source_port
            among = z3.Or(*(in_range(port, lo, hi) for lo, hi in rule.source_ports))
            terms.append(z3.And(self.has_source_port, among))
        return z3.And(*terms)

    def _asked_by(self, rule: Rule) -> Term:
        """The service is among the rule's; one term for all rules with the same ports."""
        asked = (rule.ports, rule.except_ports)
        if asked not in self._terms:
            self._terms[asked] = asked_by(self.key, rule, self.declared)
        return self._terms[asked]

    def declared(self, port: NamedPort) -> Term:
        """The destination declares the flow's port number under this name; only pods do (A19)."""
        declared = self.declares(port)
        if self.direction is Direction.EGRESS:
            return z3.And(self.is_pod, declared)
        return z3.BoolVal(False) if self.is_host else declared

    def declares(self, port: NamedPort) -> Term:
        """The destination, if it is a pod, declares the flow's number under a name and protocol."""
        return z3.Bool(f"declares {port.protocol.name} {port.name}")

    def peer_term(self, peer: Peer, is_own: bool) -> Term:
        """The subject, or else the peer, matches this peer."""
        match peer:
            case AnyPeer():
                return z3.BoolVal(True)
            case EndpointPeer(selector):
                if is_own:
                    return z3.BoolVal(False) if self.is_host else self.subject.selected(selector)
                return z3.And(self.is_pod, self.pod.selected(selector))
            case AddressPeer():
                return self._is_in(peer, self.own if is_own else self.other)
            case NodePeer():
                return self._is_node_of(peer, is_own)
            case AllOf(parts):
                return z3.And(*(self.peer_term(part, is_own) for part in parts))
            case OneOf(parts):
                return z3.Or(*(self.peer_term(part, is_own) for part in parts))
            case Not(part):
                return z3.Not(self.peer_term(part, is_own))
            case _:
                assert_never(peer)

    def _is_in(self, block: AddressPeer, addresses: Mapping[int, Term]) -> Term:
        family = block.network.version
        is_family = self.is_ipv6 if family == 6 else z3.Not(self.is_ipv6)
        return z3.And(is_family, in_block(addresses[family], block))

    def _is_node_of(self, peer: NodePeer, is_own: bool) -> Term:
        if is_own:  # a host interface is of its own node, a pod is of none
            is_there = self.is_host and peer.where is not Where.REMOTE
            return self.subject.condition(peer.condition) if is_there else z3.BoolVal(False)
        holds = z3.And(self.is_node, self.node.condition(peer.condition))
        match peer.where:
            case Where.ANYWHERE:
                return holds
            case Where.LOCAL:
                return z3.And(holds, self.is_local)
            case Where.REMOTE:
                return z3.And(holds, z3.Not(self.is_local))
            case _:
                assert_never(peer.where)

    @property
    def port(self) -> Term:
        """The flow's destination port."""
        return port_of(self.key)


def _in_order(
    mode: TierMode, policies: tuple[Policy, ...], direction: Direction
) -> list[tuple[Policy, Rule]]:
    """The rules in evaluation order for first match: under DENY_WINS sorted by action (`place`)."""
    rules = [(policy, rule) for policy in policies for rule in policy.rules(direction)]
    if mode is TierMode.DENY_WINS:
        rules.sort(key=lambda item: item[1].action.place)
    return rules
