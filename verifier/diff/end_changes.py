# SPDX-License-Identifier: Apache-2.0
"""Differences of two policy sets at one end, in the symbolic universe, as few and large regions.

Z3 finds a flow that differs. Its description is weakened, literal by literal, as long as Z3 can show
that all flows of the remaining description differ in the same way. That region is excluded, and the
search repeats until no flow is left. So the regions together are exactly the difference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import z3

from policyc.ir.errors import InternalError
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, Network, NodePeer, Peer, leaves
from policyc.ir.policy import NEVER, Action, Direction, NamedPort, PolicySet, Rule
from policyc.ir.selectors import EVERY_ENDPOINT
from policyc.ir.services import ALL_SERVICES, Kind, kind_span
from policyc.verifier.cluster.rows import services_of_ports
from policyc.verifier.diff.intended_region import spoken
from policyc.verifier.smt.terms import (
    Term,
    in_network,
)
from policyc.verifier.symbolic.attributes import Domains
from policyc.verifier.symbolic.connection_ends import HostRules
from policyc.verifier.symbolic.connection_terms import tests_of_peers
from policyc.verifier.symbolic.differences import plain_services
from policyc.verifier.symbolic.literals import (
    Declares,
    Family,
    Generated,
    Literal,
    Other,
    Own,
    Services,
    SourcePorts,
    term_of,
)
from policyc.verifier.symbolic.verdict_terms import (
    ACTIONS,
    UNDECIDED,
    Situation,
    free_sides,
    rules_of,
    tests_of_all,
)
from policyc.verifier.symbolic.viewpoints import EndView

_LAST_PORT = 65535
_WITHOUT_PORTS = Kind.ICMP << 16
"""The first service key of services without a source port."""


class EndChange(Enum):
    """The change of a flow at one end."""

    OPENS = "opens"
    CLOSES = "closes"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class EndRegion:
    """Flows of which all literals are true. `is_exact`: all of them change in this way.

    If not exact, other, unchanged rules decide some of them alike before and after. Every flow that
    changes in this way is in some region of the change.
    """

    change: EndChange
    direction: Direction
    is_host: bool
    literals: tuple[Literal, ...]
    is_exact: bool = True


class GaveUpError(Exception):
    """A solver gave up, and why: there is no answer."""


@dataclass
class EndQuery:
    """Two policy sets at one end; `focus` are the rules whose words regions should keep."""

    before: PolicySet
    after: PolicySet
    direction: Direction
    is_host: bool
    among: Sequence[Peer] = ()
    """The subject is one of these; any subject if there are none."""
    focus: frozenset[Peer] = frozenset()
    focus_ports: frozenset[NamedPort] = field(default=frozenset(), kw_only=True)
    pod_networks: tuple[Network, ...] = ()
    ignore_effects: bool = False
    timeout_ms: int | None = None
    base: tuple[Own, ...] = ()
    """The condition of all regions: only under it the given policies are complete."""
    queries: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        sets = (self.before, self.after)
        asked = (*self.among, *(each.peer for each in self.base))
        domains = Domains((*tests_of_all(sets), *tests_of_peers(asked)))
        self.situation = Situation(sets, self.direction, self.is_host, free_sides(domains))
        self.view = EndView(self.situation)
        was, now = (self._verdict(policies) for policies in sets)
        self._was, self._now = was, now
        self._differs = [was[0] != now[0], *(() if self.ignore_effects else (was[1] != now[1],))]

    def _verdict(self, policies: PolicySet) -> tuple[Term, Term]:
        """Hosts without default deny are open where no policy decides (E45)."""
        action, effects = self.situation.verdict(policies)
        if self.is_host and not HostRules.of((self.before, self.after)).may_deny_unmatched:
            open_ = z3.BitVecVal(ACTIONS.index(Action.ALLOW), action.size())
            action = z3.If(action == UNDECIDED, open_, action)
        return action, effects

    def assertions(self) -> list[Term]:
        """The assertions of a flow that differs: unsatisfiable means equal at this end."""
        return [*self.possible(), *self._among(), z3.Or(*self._differs)]

    def _among(self) -> list[Term]:
        """The ends that can differ at all: a hint to the solver, which need not derive it."""
        if not self.among:
            return []
        return [z3.Or(*(self.view.own(peer) for peer in self.among))]

    def possible(self) -> list[Term]:
        """The constraints on every flow of this end."""
        s = self.situation
        has_ports = z3.ULT(s.key, _WITHOUT_PORTS)
        terms = [s.is_possible(), s.has_source_port == has_ports, *self._in_networks()]
        if not self.is_host:
            terms += [term_of(each, self.view) for each in self.base]
        return terms

    def _in_networks(self) -> Iterator[Term]:
        s = self.situation
        for version in sorted({network.version for network in self.pod_networks}):
            mine = [n for n in self.pod_networks if n.version == version]
            is_family = s.is_ipv6 if version == 6 else z3.Not(s.is_ipv6)
            own, other = (
                z3.Or(*(in_network(addresses[version], n) for n in mine))
                for addresses in (s.own, s.other)
            )
            outside = z3.Not(z3.Or(s.is_pod, s.is_node))
            if not self.is_host:
                yield z3.Implies(is_family, own)
            yield z3.Implies(z3.And(is_family, s.is_pod), other)
            yield z3.Implies(z3.And(is_family, outside), z3.Not(other))

    def target(self, change: EndChange) -> Term:
        """The flow changes in this way."""
        allow = ACTIONS.index(Action.ALLOW)
        opens = z3.And(self._was[0] != allow, self._now[0] == allow)
        closes = z3.And(self._was[0] == allow, self._now[0] != allow)
        match change:
            case EndChange.OPENS:
                return opens
            case EndChange.CLOSES:
                return closes
            case EndChange.OTHER:
                return z3.And(z3.Or(*self._differs), z3.Not(opens), z3.Not(closes))

    @property
    def base_of_regions(self) -> tuple[Own, ...]:
        """The literals of every region about its own end; a host is in no namespace."""
        return () if self.is_host else self.base

    def regions(self, change: EndChange) -> Iterator[EndRegion]:
        """Regions until none is left; raises GaveUpError if the solver gives up."""
        target = self.target(change)
        finder, checker = self._solver(), self._solver()
        finder.add(*self.possible(), *self._among(), target)
        checker.add(*self.possible(), z3.Not(target))
        weakening = _Weakening(self, checker)
        seen: set[tuple[Literal, ...]] = set()
        while self._is_sat(finder):
            model = finder.model()
            true = self._true_in(model)
            said: Sequence[Literal] = weakening.weakest(true)
            about, is_exact = said, weakening.is_spoken(said)
            if not is_exact:
                said, about = self._spoken(said, true, finder)
                is_exact = weakening.implied(said)
            if tuple(about) in seen:
                raise InternalError("a region that was taken out came back")
            seen.add(tuple(about))
            whole = (*said, *self.base_of_regions)
            yield EndRegion(
                change, self.direction, self.is_host, tuple(dict.fromkeys(whole)), is_exact
            )
            finder.add(z3.Not(z3.And(*(term_of(each, self.view) for each in about))))

    def _spoken(
        self, literals: Sequence[Literal], true: Sequence[Literal], finder: Term
    ) -> tuple[list[Literal], list[Literal]]:
        """The region in the words of the change, and the region without its services and family."""

        def exists(asked: Sequence[Literal]) -> bool:
            return self._is_sat(finder, *(term_of(each, self.view) for each in asked))

        subjects = [
            each
            for each in true
            if isinstance(each, Own) and each.holds and each.peer in self.among
        ]
        return spoken(
            literals, subjects, self.focus, self.focus_ports, self.service_parts(), exists
        )

    def _solver(self) -> Term:
        texts = self.situation.domains.texts
        solver = z3.SimpleSolver() if texts else z3.SolverFor("QF_BV")
        if self.timeout_ms is not None:
            solver.set("timeout", self.timeout_ms)
        return solver

    def _is_sat(self, solver: Term, *assumptions: Term) -> bool:
        self.queries += 1
        result = solver.check(*assumptions)
        if result == z3.unknown:
            raise GaveUpError(solver.reason_unknown())
        return bool(result == z3.sat)

    def is_refuted(self, checker: Term, assumptions: Sequence[Term]) -> bool:
        """No flow that satisfies the assumptions is outside the target."""
        return not self._is_sat(checker, *assumptions)

    # The literals of a flow.

    def _true_in(self, model: Term) -> list[Literal]:
        """Every literal that is true of the flow of a model: together they decide both verdicts."""
        found: list[Literal] = []
        for peer in self._own_peers():
            found.append(Own(peer, self._holds(model, self.view.own(peer))))
        for peer in self._other_peers():
            found.append(Other(peer, self._holds(model, self.view.other(peer))))
        key = model.eval(self.situation.key, model_completion=True).as_long()
        found.append(Services(next(s for s in self.service_parts() if key in s)))
        for port in self._names():
            found.append(Declares(port, self._holds(model, self.view.declares(port))))
        if self._holds(model, self.situation.has_source_port):
            port_number = model.eval(self.situation.source_port, model_completion=True).as_long()
            found.append(SourcePorts(next(s for s in self._source_parts() if port_number in s)))
        found.append(Family(self._holds(model, self.situation.is_ipv6)))
        if self.situation.binds_own_node:
            found.append(Generated(self._holds(model, self.situation.generates)))
        return found

    def _holds(self, model: Term, term: Term) -> bool:
        return bool(z3.is_true(model.eval(term, model_completion=True)))

    def _rules(self) -> Iterator[Rule]:
        for _, direction, rule in rules_of((self.before, self.after)):
            if rule is not None and direction is self.direction:
                yield rule

    def _own_peers(self) -> list[Peer]:
        found: dict[Peer, None] = {}
        for policies in (self.before, self.after):
            for policy in (p for tier in policies.tiers for p in tier.policies):
                if self.is_host and policy.hosts != NEVER:
                    found[NodePeer(policy.hosts)] = None
                elif not self.is_host:
                    found[EndpointPeer(policy.subject)] = None
        for rule in self._rules():
            found |= dict.fromkeys(p for p in leaves(rule.own) if not isinstance(p, AnyPeer))
        return list(found)

    def _other_peers(self) -> list[Peer]:
        found: dict[Peer, None] = {EndpointPeer(EVERY_ENDPOINT): None, NodePeer(): None}
        for rule in self._rules():
            for peer in rule.peers:
                found |= dict.fromkeys(p for p in leaves(peer) if not isinstance(p, AnyPeer))
        return list(found)

    def _names(self) -> list[NamedPort]:
        entries = (p for rule in self._rules() for p in (*rule.ports, *rule.except_ports))
        return list(dict.fromkeys(p for p in entries if isinstance(p, NamedPort)))

    def service_parts(self) -> list[IntervalSet]:
        """The services, cut where a rule of either side may distinguish two of them."""
        cuts = {0}
        for rule in self._rules():
            if rule.source_ports is not None:
                cuts.add(_WITHOUT_PORTS)
            asked = (services_of_ports(p, lambda _: ()) for p in (rule.ports, rule.except_ports))
            spans = [span for services in asked for span in services]
            for name in (p for p in (*rule.ports, *rule.except_ports) if isinstance(p, NamedPort)):
                spans += kind_span(name.protocol.kind)
            cuts |= {cut for lo, hi in spans for cut in (lo, hi + 1)}
        return _parts(cuts, ALL_SERVICES.spans[-1][1])

    def _source_parts(self) -> list[IntervalSet]:
        cuts = {0}
        for rule in self._rules():
            cuts |= {cut for lo, hi in rule.source_ports or () for cut in (lo, hi + 1)}
        return _parts(cuts, _LAST_PORT)


def _parts(cuts: set[int], last: int) -> list[IntervalSet]:
    starts = sorted(cut for cut in cuts if cut <= last)
    ends = [*(start - 1 for start in starts[1:]), last]
    return [IntervalSet.of([pair]) for pair in zip(starts, ends, strict=True)]


@dataclass
class _Weakening:
    """Removes literals while the rest still implies the target."""

    query: EndQuery
    checker: Term

    def weakest(self, literals: list[Literal]) -> tuple[Literal, ...]:
        """A minimal set of literals that implies the target, with its services as wide as possible."""
        kept = self._core(literals)
        for literal in sorted(kept, key=self._reluctance):
            rest = [each for each in kept if each is not literal]
            if self.implied(rest):
                kept = rest
        return tuple(self._widened(kept))

    def is_spoken(self, literals: Sequence[Literal]) -> bool:
        """Whether all literals are those of the change itself."""
        return all(self._is_spoken(each) for each in literals)

    def _is_spoken(self, literal: Literal) -> bool:
        match literal:
            case Own(peer) | Other(peer):
                return peer in self.query.focus
            case Declares(port):
                return port in self.query.focus_ports
            case _:
                return True

    def _core(self, literals: list[Literal]) -> list[Literal]:
        terms = [term_of(each, self.query.view) for each in literals]
        names = [z3.Bool(f"literal {at}") for at in range(len(literals))]
        self.checker.push()
        self.checker.add(*(z3.Implies(n, t) for n, t in zip(names, terms, strict=True)))
        refuted = self.query.is_refuted(self.checker, names)
        core = {str(name) for name in self.checker.unsat_core()} if refuted else set()
        self.checker.pop()
        if not refuted:
            raise InternalError("the literals of a flow do not decide its verdicts")
        return [each for n, each in zip(names, literals, strict=True) if str(n) in core]

    def implied(self, literals: Sequence[Literal]) -> bool:
        """Every flow with these literals changes in this way."""
        self.checker.push()
        self.checker.add(*(term_of(each, self.query.view) for each in literals))
        refuted = self.query.is_refuted(self.checker, ())
        self.checker.pop()
        return refuted

    def _reluctance(self, literal: Literal) -> tuple[int, int]:
        """The order of removal: literals of other rules before those of the change."""
        match literal:
            case Own(peer, holds) | Other(peer, holds):
                return (2 if peer in self.query.focus else 0) + holds, 0
            case Declares(_, holds):
                return int(holds), 1
            case Services():
                return 2, 1
            case _:
                return 1, 1

    def _widened(self, literals: list[Literal]) -> Iterator[Literal]:
        """Services and source ports as wide as the other literals allow."""
        for at, literal in enumerate(literals):
            rest = [*literals[:at], *literals[at + 1 :]]
            if isinstance(literal, Services):
                parts = self.query.service_parts()
                wide = [p for p in parts if p == literal.keys or self.implied([*rest, Services(p)])]
                keys = IntervalSet.of(s for p in wide for s in p)
                literals[at] = Services(plain_services(keys, _families(rest)))
        yield from literals


def _families(literals: Sequence[Literal]) -> set[int]:
    """The possible families of flows with these literals: of the other, everything is implied."""
    for literal in literals:
        match literal:
            case Family(is_ipv6):
                return {6 if is_ipv6 else 4}
            case Own(AddressPeer(network), True) | Other(AddressPeer(network), True):
                return {network.version}
    return {4, 6}
