# SPDX-License-Identifier: Apache-2.0
"""The effect of a change on every connection that could exist: regions, each with a witness.

First, common parts of both sides are cancelled (`cancel`). Then each end is compared alone
(`end_changes`), in groups of policies that can meet. Last, each region is checked as a connection,
because a change at one end shows only where the other end allows the connection.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import z3

from policyc.ir.passes.cancel import (
    Subjects,
    changed_policies,
    restricted,
)
from policyc.ir.peers import EndpointPeer, Network, NodePeer, Peer, leaves
from policyc.ir.policy import NEVER, Direction, NamedPort, Policy, PolicySet
from policyc.ir.results.diff import (
    NONE_FOUND,
    Counts,
    Difference,
    DifferenceKind,
    DiffOutcome,
    counts_of,
)
from policyc.ir.results.turns import first_in_turns
from policyc.ir.selectors import (
    Attribute,
    AttributeTest,
    EndpointSelector,
    Operator,
    Requirement,
)
from policyc.ir.universe import Flow
from policyc.verifier.diff.difference_terms import is_kind
from policyc.verifier.diff.end_changes import (
    EndChange,
    EndQuery,
    EndRegion,
    GaveUpError,
)
from policyc.verifier.diff.found_region import FoundRegion
from policyc.verifier.smt.contexts import (
    forget_terms,
    terms_kept,
)
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
)
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.differences import outcome_of
from policyc.verifier.symbolic.literals import (
    Other,
    Own,
    term_of,
)
from policyc.verifier.symbolic.readable_model import pleasant_model
from policyc.verifier.symbolic.viewpoints import ConnectionView

_FEW_POLICIES = 250
"""The number of policies in one query; more policies are split by namespace."""


@dataclass(frozen=True, slots=True)
class Group:
    """The subjects of changed policies, and all the policies that can select these subjects, too.

    `base` says which of the subjects the group covers; other groups cover the others.
    """

    before: PolicySet
    after: PolicySet
    subjects: tuple[Peer, ...]
    focus: frozenset[Peer]
    label: str
    base: tuple[Own, ...] = ()
    ports: frozenset[NamedPort] = frozenset()


@dataclass(frozen=True, slots=True)
class SymbolicDiff:
    """The result: the outcome, the regions shown, and the counts of all regions.

    The outcome follows from the counts: each kind of difference that it names has been counted.
    """

    outcome: DiffOutcome
    differences: tuple[Difference, ...] = ()
    counts: Counts = NONE_FOUND
    queries: int = 0
    replayed: int = 0
    cancelled: int = 0
    undecided: str = ""


def groups_of(before: PolicySet, after: PolicySet) -> Iterator[Group]:
    """The comparisons that together cover every end at which the two can differ."""
    changed = changed_policies(before, after)
    if not changed:
        return
    focus = frozenset(_peers_of(changed))
    ports = frozenset(_named_in(changed))
    subjects = Subjects.of(changed)
    old, new = (restricted(p, subjects.may_share) for p in (before, after))
    if _size(old) + _size(new) <= _FEW_POLICIES or any(p.hosts != NEVER for p in changed):
        yield Group(old, new, tuple(_subject_peers(changed)), focus, "all", (), ports)
        return
    names = sorted(_namespaces(old, new))
    for name in names:
        mine = [p for p in changed if p.subject.namespace in (name, None)]
        if mine:
            parts = [restricted(each, _selects_in({name})) for each in (old, new)]
            base = Own(EndpointPeer(EndpointSelector(name)), True)
            peers = tuple(_subject_peers(mine))
            yield Group(parts[0], parts[1], peers, focus, f"namespace {name}", (base,), ports)
    anywhere = [p for p in changed if p.subject.namespace is None]
    if anywhere:
        parts = [restricted(each, _selects_in(())) for each in (old, new)]
        elsewhere = Requirement("", Operator.NOT_IN, tuple(names))
        condition = AttributeTest(Attribute.NAMESPACE, elsewhere)
        base = Own(EndpointPeer(EndpointSelector(condition=condition)), True)
        peers = tuple(_subject_peers(anywhere))
        yield Group(parts[0], parts[1], peers, focus, "other namespaces", (base,), ports)


def _selects_in(namespaces: Collection[str]) -> Callable[[Policy], bool]:
    """Policies that can select pods of some namespaces, or of those that no policy names."""

    def selects(policy: Policy) -> bool:
        return policy.subject.namespace is None or policy.subject.namespace in namespaces

    return selects


def _size(policies: PolicySet) -> int:
    return sum(len(tier.policies) for tier in policies.tiers)


def _subject_peers(policies: Iterable[Policy]) -> Iterator[Peer]:
    found: dict[Peer, None] = {}
    for policy in policies:
        found[EndpointPeer(policy.subject)] = None
        if policy.hosts != NEVER:
            found[NodePeer(policy.hosts)] = None
    return iter(found)


def _peers_of(policies: Iterable[Policy]) -> Iterator[Peer]:
    """The peers of all changed policies."""
    for policy in policies:
        yield from _subject_peers([policy])
        for direction in Direction:
            for rule in policy.rules(direction):
                for peer in (rule.own, *rule.peers):
                    yield from leaves(peer)


def _named_in(policies: Iterable[Policy]) -> Iterator[NamedPort]:
    """The named ports of changed rules."""
    for policy in policies:
        for rule in (rule for direction in Direction for rule in policy.rules(direction)):
            for port in (*rule.ports, *rule.except_ports):
                if isinstance(port, NamedPort):
                    yield port


def end_queries(
    before: PolicySet, after: PolicySet, ignore_effects: bool, networks: tuple[Network, ...]
) -> Iterator[tuple[Group, EndQuery]]:
    """The queries whose unsatisfiability means that two policy sets are equal."""
    for _, group, query in numbered_queries(before, after, ignore_effects, networks):
        yield group, query


def numbered_queries(
    before: PolicySet,
    after: PolicySet,
    ignore_effects: bool,
    networks: tuple[Network, ...],
    wanted: Callable[[int], bool] = lambda _: True,
) -> Iterator[tuple[int, Group, EndQuery]]:
    """The queries of `end_queries` with the wanted numbers; the others are not even made.

    Each is made in a context of its own: its result does not depend on the queries before.
    """
    with terms_kept():
        yield from _made(before, after, ignore_effects, networks, wanted)


def _made(
    before: PolicySet,
    after: PolicySet,
    ignore_effects: bool,
    networks: tuple[Network, ...],
    wanted: Callable[[int], bool],
) -> Iterator[tuple[int, Group, EndQuery]]:
    number = 0
    for group in groups_of(before, after):
        for direction in (Direction.INGRESS, Direction.EGRESS):
            for is_host in (False, True):
                if is_host and not _has_hosts(group):
                    continue
                if wanted(number):
                    forget_terms()
                    yield number, group, EndQuery(
                        group.before, group.after, direction, is_host, group.subjects,
                        group.focus, networks, ignore_effects, base=group.base,
                        focus_ports=group.ports)  # fmt: skip
                number += 1


@dataclass(frozen=True, slots=True)
class Task:
    """The inputs of the workers that answer the queries of a comparison."""

    before: PolicySet
    after: PolicySet
    ignore_effects: bool
    networks: tuple[Network, ...]
    choice: Choice
    timeout_ms: int | None


def equal_queries(task: Task, share: tuple[int, int]) -> list[int]:
    """The numbers of the queries of one share, (k, of n), that are unsatisfiable."""
    found = []
    numbered = numbered_queries(
        task.before, task.after, task.ignore_effects, task.networks,
        lambda number: number % share[1] == share[0])  # fmt: skip
    for number, _, query in numbered:
        decision = decide(query.assertions(), task.choice, task.timeout_ms)
        if decision.answer is Answer.UNSAT:
            found.append(number)
    return found


def _has_hosts(group: Group) -> bool:
    sets = (group.before, group.after)
    return any(p.hosts != NEVER for s in sets for t in s.tiers for p in t.policies)


def diff_symbolic(
    before: PolicySet,
    after: PolicySet,
    *,
    ignore_effects: bool = False,
    limit: int | None = 20,
    most: int | None = None,
    networks: tuple[Network, ...] = (),
    timeout_ms: int | None = None,
    choice: Choice = Choice.Z3,
    equal: frozenset[int] = frozenset(),
) -> SymbolicDiff:
    """Compare two policy sets on every connection of every cluster that could exist.

    `limit` is the number of regions that are described. `most` is the number of regions of one EndChange
    after which the search for more of it stops; None: no limit. `equal` are the queries that
    `equal_queries` has already answered in other processes.
    """
    run = _Run(before, after, ignore_effects, limit, most, networks, timeout_ms, choice, equal)
    try:
        return run.run()
    except GaveUpError as failure:
        unknown = counts_of((), incomplete=set(DifferenceKind))
        return SymbolicDiff(DiffOutcome.UNDECIDED, (), unknown, run.queries, undecided=str(failure))


@dataclass
class _Run:
    before: PolicySet
    after: PolicySet
    ignore_effects: bool
    limit: int | None
    most: int | None
    networks: tuple[Network, ...]
    timeout_ms: int | None
    choice: Choice
    equal: frozenset[int]
    queries: int = 0
    found: dict[Hashable, FoundRegion] = field(default_factory=dict)
    kinds: set[DifferenceKind] = field(default_factory=set)
    incomplete: set[DifferenceKind] = field(default_factory=set)
    n_found: Counter[EndChange] = field(default_factory=Counter)

    def run(self) -> SymbolicDiff:
        """All groups, both directions."""
        self.queries = len(self.equal)
        for _, group, query in numbered_queries(
            self.before, self.after, self.ignore_effects, self.networks,
            lambda number: number not in self.equal,
        ):  # fmt: skip
            query.timeout_ms = self.timeout_ms
            self.queries += 1
            decision = decide(query.assertions(), self.choice, self.timeout_ms)
            if decision.answer is Answer.UNKNOWN:
                raise GaveUpError(f"{group.label}, {query.direction.value}: {decision.reason}")
            if decision.answer is Answer.SAT:
                self._explore(group, query)
        return self._answer()

    def _answer(self) -> SymbolicDiff:
        """The result: everything found is counted and confirmed, and some of each kind are described."""
        order = list(DifferenceKind)
        found = sorted(
            self.found.values(), key=lambda each: (order.index(each.kind), each.narrowness)
        )
        counts = counts_of((each.kind for each in found), self.incomplete)
        sets = (self.before, self.after)
        verdicts = {id(each): each.confirmed(*sets, self.ignore_effects) for each in found}
        shown = first_in_turns(found, lambda each: each.subject, self.limit)
        differences = tuple(each.described(*verdicts[id(each)]) for each in shown)
        return SymbolicDiff(outcome_of(self.kinds), differences, counts, self.queries, len(found))

    def _explore(self, group: Group, query: EndQuery) -> None:
        """The regions of one end, as connections, until there are `most` of a change."""
        connections = _Connections(self, group)
        for change in EndChange:
            for region in query.regions(change):
                if self.most is not None and self.n_found[change] >= self.most:
                    self._stop(connections, query, change)
                    break
                for found in connections.found(region):
                    self._add(found)
        self.queries += query.queries

    def _add(self, found: FoundRegion) -> None:
        self.kinds.add(found.kind)
        if found.key in self.found:
            self.found[found.key].regions += found.regions
        else:
            self.found[found.key] = found
            self.n_found[found.regions[0].change] += 1

    def _stop(self, connections: "_Connections", query: EndQuery, change: EndChange) -> None:
        """Mark the rest as incomplete; for a kind without a region, find one, however wide.

        So the outcome names no kind that has not been counted.
        """
        region = EndRegion(change, query.direction, query.is_host, query.base_of_regions, False)
        possible = connections.possible_kinds(region)
        self.incomplete |= {*possible, DifferenceKind.LATENT}
        for kind in possible:
            is_told = kind in self.kinds or (kind is DifferenceKind.CHANGED and self._flows_change)
            flow = None if is_told else connections.example(region, kind)
            if flow is not None:
                self._add(FoundRegion(kind, [region], flow))

    @property
    def _flows_change(self) -> bool:
        """Whether a flow opens or closes: that fixes the outcome, whatever else changed."""
        return bool(self.kinds & {DifferenceKind.WIDENED, DifferenceKind.NARROWED})


@dataclass
class _Connections:
    """Checks regions of one group as connections, with as few policies as can matter."""

    run: _Run
    group: Group
    _made: dict[str | None, Connection] = field(default_factory=dict)

    def possible_kinds(self, region: EndRegion) -> tuple[DifferenceKind, ...]:
        """The kinds that a change at one end can be for a connection, the most informative first.

        A pod that opens closes no connection, because it was denied before. A flow that no policy
        decides at a host is denied if the host has default deny, and allowed otherwise, so a change of
        that flow opens or closes.
        """
        widened, narrowed = DifferenceKind.WIDENED, DifferenceKind.NARROWED
        changed = DifferenceKind.CHANGED
        match region.change:
            case EndChange.OPENS:
                return (widened, narrowed, changed) if region.is_host else (widened, changed)
            case EndChange.CLOSES:
                return (narrowed, widened, changed) if region.is_host else (narrowed, changed)
            case EndChange.OTHER:
                return (widened, narrowed, changed) if region.is_host else (changed,)

    def found(self, region: EndRegion) -> Iterator[FoundRegion]:
        """The kinds of change of a region's connections, each with one of them; at pods one kind."""
        is_many = region.is_host and region.change is EndChange.OTHER
        for kind in (*self.possible_kinds(region), DifferenceKind.LATENT):
            flow = self.example(region, kind)
            if flow is not None:
                is_exact = region.is_exact and not is_many
                yield FoundRegion(kind, [replace(region, is_exact=is_exact)], flow)
                if not is_many:
                    return

    def example(self, region: EndRegion, kind: DifferenceKind) -> Flow | None:
        """A flow of the region whose connection changes in this way."""
        for namespace in self._namespaces(region):
            connection = self._connection(namespace)
            view = ConnectionView(connection, region.direction, region.is_host)
            terms = [term_of(each, view) for each in region.literals]
            changes = is_kind(connection, kind, self.run.ignore_effects, (region.direction,))
            goal = [connection.is_possible(), view.is_subject(), *self._where(view, namespace),
                    *terms, changes, self._changes_so(connection, region)]  # fmt: skip
            self.run.queries += 1
            decision = decide(goal, Choice.Z3, self.run.timeout_ms)
            if decision.answer is Answer.UNKNOWN:
                raise GaveUpError(decision.reason)
            if decision.answer is Answer.SAT:
                return connection.read(pleasant_model(connection, goal, decision.model))
        return None

    def _changes_so(self, c: Connection, region: EndRegion) -> Term:
        """The end changes as in the region: of an inexact region, not all flows do."""
        if not region.literals or not region.is_exact:
            was, now = (c.end_allows(policies, region.direction) for policies in c.sets)
            match region.change:
                case EndChange.OPENS:
                    return z3.And(z3.Not(was), now)
                case EndChange.CLOSES:
                    return z3.And(was, z3.Not(now))
        return z3.BoolVal(True)

    # The policies that can matter at the other end.

    def _namespaces(self, region: EndRegion) -> list[str | None]:
        """The possible namespaces of the other end: first those without other policies, then each."""
        names = _namespaces(self.run.before, self.run.after)
        named = [
            each.peer.selector.namespace
            for each in region.literals
            if isinstance(each, Other) and each.holds and isinstance(each.peer, EndpointPeer)
        ]
        only = [name for name in named if name is not None]
        if only:
            return [only[0]]
        return [None, *sorted(names)]

    def _connection(self, namespace: str | None) -> Connection:
        """The connection whose other end is in one namespace, or in one where no policy selects pods."""
        if namespace not in self._made:
            self._made[namespace] = self._make(namespace)
        return self._made[namespace]

    def _where(self, view: ConnectionView, namespace: str | None) -> Iterator[Term]:
        """The subject is the group's; the other end is where no policy is left out."""
        yield z3.Or(*(view.own(peer) for peer in self.group.subjects))
        yield from (term_of(each, view) for each in self.group.base)
        if namespace is None:
            yield z3.Not(view.other_in(_namespaces(self.run.before, self.run.after)))
        else:
            yield z3.Or(z3.Not(view.other_is_pod()), view.other_in({namespace}))

    def _make(self, namespace: str | None) -> Connection:
        sets = (self.group.before, self.group.after)
        kept = {id(p) for s in sets for t in s.tiers for p in t.policies}

        def matters(policy: Policy) -> bool:
            return id(policy) in kept or policy.subject.namespace in (None, namespace)

        both = tuple(restricted(p, matters) for p in (self.run.before, self.run.after))
        base = (each.peer for each in self.group.base)
        peers = (*self.group.focus, *self.group.subjects, *base)
        return Connection(both, pod_networks=self.run.networks, peers=peers)


def _namespaces(*sets: PolicySet) -> set[str]:
    found = {p.subject.namespace for s in sets for tier in s.tiers for p in tier.policies}
    return {name for name in found if name is not None}
