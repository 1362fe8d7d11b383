# SPDX-License-Identifier: Apache-2.0
"""Diff: two sides compared, in the symbolic universe or over a cluster, and the answer certified."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import z3

from policyc.compiler.driver.compare.diff_opaque import diff_opaque
from policyc.compiler.driver.compare.objects import object_changes
from policyc.compiler.driver.compare.sides import staged_changes
from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
)
from policyc.compiler.driver.node_bundles.shards import map_shards
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.ir.bounds import is_understood
from policyc.ir.counts import cluster_words
from policyc.ir.errors import InternalError
from policyc.ir.peers import Network
from policyc.ir.results.common import Evidence, UniverseUsed
from policyc.ir.results.diff import DifferenceKind, DiffOutcome, DiffResult
from policyc.ir.universe import Universe
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.cluster.diff import Change, ClusterDiff, diff_cluster
from policyc.verifier.cluster.partition import prove_partition
from policyc.verifier.cluster.words import members_of_classes
from policyc.verifier.diff.difference_terms import is_kind
from policyc.verifier.diff.symbolic import (
    SymbolicDiff,
    Task,
    diff_symbolic,
    equal_queries,
)
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
    versions_of,
)
from policyc.verifier.symbolic.differences import outcome_of

FEW_ENDS, FEW_POLICIES = 60, 120
"""The size up to which Z3 checks the whole formula of a cluster; --audit checks at any size."""
WHOLE = "one query over the whole formula"
GROUPED = "one query for each end that the change can touch, without the unchanged rules"
SAME = "no policy differs: no solver query"
SHOWN = 20
"""The default number of regions in text."""
MOST_COUNTED = 100
"""The limit for counting symbolic regions that are not shown: with 250 rules one takes 0.4 s."""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The options of a comparison. `audit`: Z3 checks the whole formula at any size.

    `limit` is the number of regions shown, None: all. With a limit the symbolic search stops at
    MOST_COUNTED regions of one change, or at `limit` if that is more.
    """

    is_symbolic: bool
    ignore_effects: bool = False
    limit: int | None = SHOWN
    pod_networks: tuple[Network, ...] = ()
    timeout_ms: int | None = None
    solver: Choice = Choice.Z3
    audit: bool = False
    jobs: int = 1
    executor: str = ""

    @property
    def shares(self) -> list[tuple[int, int]]:
        """The number of shares of the work: several a worker, none if this process does it all."""
        if self.jobs == 1 and not self.executor:
            return []
        n = self.jobs * 4 if not self.executor else 16
        return [(k, n) for k in range(n)]


@collector_relaxed()
def diff_sides(
    old: Read,
    new: Read,
    options: DiffOptions,
    progress: Progress,
    names: tuple[str, str] = ("OLD", "NEW"),
) -> DiffResult:
    """The effect of the change. The result names the universe and the evidence."""
    progress("comparing")
    if all(is_understood(side.policies.policies) for side in (old, new)):
        found = _compared(old, new, options, progress)
    else:
        most = None if options.limit is None else max(options.limit, MOST_COUNTED)
        compare = partial(_compared, options=replace(options, limit=most), progress=progress)
        found = diff_opaque(old, new, compare, options.ignore_effects, options.limit)
    return replace(
        found,
        before=names[0],
        after=names[1],
        notes=(*found.notes, *_notes(old, new, options)),
        objects=object_changes(old.policies.policies, new.policies.policies),
    )


def _compared(old: Read, new: Read, options: DiffOptions, progress: Progress) -> DiffResult:
    """The answer if no rule is opaque."""
    if options.is_symbolic:
        return _symbolic(old, new, options)
    return _over_cluster(old, new, options, progress)


def _symbolic(old: Read, new: Read, options: DiffOptions) -> DiffResult:
    sets = (old.policies.policies, new.policies.policies)
    task = Task(
        *sets, options.ignore_effects, options.pod_networks, options.solver, options.timeout_ms
    )
    shares = map_shards(equal_queries, task, options.shares, options.jobs, options.executor)
    found = diff_symbolic(
        old.policies.policies,
        new.policies.policies,
        ignore_effects=options.ignore_effects,
        limit=options.limit,
        most=None if options.limit is None else max(options.limit, MOST_COUNTED),
        networks=options.pod_networks,
        timeout_ms=options.timeout_ms,
        choice=options.solver,
        equal=frozenset(number for share in shares for number in share),
    )
    among = ", ".join(map(str, options.pod_networks))
    where = f", with pod addresses in {among}" if among else ""
    words = f"every pod, node and address that could exist{where}"
    return DiffResult(
        found.outcome,
        UniverseUsed("symbolic", words),
        _evidence(found, options),
        found.differences,
        found.counts,
        undecided=found.undecided,
    )


def _evidence(found: SymbolicDiff, options: DiffOptions) -> Evidence:
    if not found.queries:
        return Evidence(SAME)
    return Evidence(GROUPED, versions_of(options.solver), found.queries, found.replayed)


def _over_cluster(old: Read, new: Read, options: DiffOptions, progress: Progress) -> DiffResult:
    before, after = (change_of(read, options) for read in (old, new))
    found = diff_cluster(before, after, ignore_effects=options.ignore_effects, limit=options.limit)
    progress("certifying")
    evidence, undecided = _certified(before, after, found, options)
    result = DiffResult(
        found.outcome,
        universe_of(before.universe, after.universe),
        evidence,
        found.differences,
        found.counts,
        undecided=undecided,
        groups=members_of_classes(found.space) if found.differences else (),
    )
    return replace(result, outcome=DiffOutcome.UNDECIDED) if undecided else result


def change_of(read: Read, options: DiffOptions) -> Change:
    """One side with its cluster and its pods' networks."""
    cluster = read.cluster
    universe = cluster.universe if cluster is not None else Universe()
    nodes = cluster.nodes if cluster is not None else ()
    said = [network for node in nodes for network in node.pod_cidrs]
    networks = tuple(dict.fromkeys([*options.pod_networks, *said]))
    return Change(read.policies.policies, universe, networks)


def _certified(
    before: Change, after: Change, found: ClusterDiff, options: DiffOptions
) -> tuple[Evidence, str]:
    """The certification of the answer, or the reason if a solver gave up."""
    solvers = versions_of(options.solver)
    n_policies = sum(len(t.policies) for c in (before, after) for t in c.policies.tiers)
    is_small = len(found.space.sites) <= FEW_ENDS and n_policies <= FEW_POLICIES
    if before.universe is after.universe and (is_small or options.audit):
        goal = _what_was_not_found(before, after, found, options)
        decision = decide(goal, options.solver, options.timeout_ms)
        if decision.answer is Answer.SAT:
            raise InternalError("Z3 found a difference that the comparison of atoms missed")
        evidence = Evidence(WHOLE, solvers, 1, found.replayed)
        return evidence, decision.reason if decision.answer is Answer.UNKNOWN else ""
    sets = (before.policies, after.policies)
    proof = prove_partition(found.space, sets, options.solver, options.timeout_ms)
    method = proof.method("exhaustive comparison of atoms")
    solvers = solvers if proof.queries else ()
    return Evidence(method, solvers, proof.queries, found.replayed), proof.undecided


def _what_was_not_found(
    before: Change, after: Change, found: ClusterDiff, options: DiffOptions
) -> list[object]:
    """A connection changes in a way that no region describes: Z3 should find this impossible."""
    sets = (before.policies, after.policies)
    connection = ClusterConnection(sets, before.universe, (), before.networks)
    others = [kind for kind in DifferenceKind if kind not in found.kinds]
    changes = [is_kind(connection, kind, options.ignore_effects) for kind in others]
    return [connection.is_possible(), z3.Or(*changes)]


def universe_of(before: Universe, after: Universe) -> UniverseUsed:
    """The universe of a comparison over clusters, in words."""
    if before is after:
        return UniverseUsed("cluster", cluster_words(after, "every external address"))
    sizes = f"{len(before.endpoints)} and {len(after.endpoints)} pods and workloads"
    return UniverseUsed("cluster", f"the common part of both clusters, of {sizes}")


def _notes(old: Read, new: Read, options: DiffOptions) -> list[str]:
    """Further facts about the two sides for the reader."""
    notes = []
    if not options.is_symbolic and old.cluster is not new.cluster:
        notes += _workloads(old, new)
    if not options.is_symbolic and not (_has_pods(old) and _has_pods(new)):
        notes.append(
            "the cluster has no pod or workload on one of the sides: no pods were compared"
        )
    staged = staged_changes(old, new)
    if staged:
        count = len(staged.added) + len(staged.removed) + len(staged.changed)
        notes.append(
            f"{count} staged policies differ: staged policies are not enforced and not compared"
        )
    return notes


def _has_pods(read: Read) -> bool:
    return read.cluster is not None and bool(read.cluster.universe.endpoints)


def _workloads(old: Read, new: Read) -> list[str]:
    before, after = (
        set(_names(read.cluster.universe)) if read.cluster else set() for read in (old, new)
    )
    notes = []
    for what, names in (("only in OLD", before - after), ("only in NEW", after - before)):
        if names:
            shown = ", ".join(sorted(names)[:5])
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            notes.append(f"{what}, and so not compared: {shown}{more}")
    return notes


def _names(universe: Universe) -> Iterator[str]:
    """The identity of an end in two clusters; a pod in its host's network has none of its own (A21)."""
    for pod in universe.endpoints:
        yield f"{pod.qualified_name} (hostNetwork)" if pod.host_network else pod.qualified_name
    yield from (f"node {node.name}" for node in universe.nodes)


def exit_code_of(result: DiffResult, fail_on: str = "any") -> int:
    """1 if a change that `fail_on` names was found; 3 if it may exist, or a solver gave up; else 0."""
    if result.outcome in FAILING[fail_on]:
        return 1
    if result.possible:
        may_be = outcome_of({each.kind for each in result.possible})
        return 3 if may_be in FAILING[fail_on] else 0
    return 3 if result.outcome is DiffOutcome.UNDECIDED else 0


FAILING = {
    "any": {DiffOutcome.WIDENED, DiffOutcome.NARROWED, DiffOutcome.BOTH, DiffOutcome.CHANGED},
    "widened": {DiffOutcome.WIDENED, DiffOutcome.BOTH},
    "narrowed": {DiffOutcome.NARROWED, DiffOutcome.BOTH},
    "none": set[DiffOutcome](),
}
"""The outcomes with exit code 1, by the value of --fail-on."""
