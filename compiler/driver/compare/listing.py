# SPDX-License-Identifier: Apache-2.0
"""List: the allowed connections of a cluster, grouped by equal behaviour, and the answer certified."""

from dataclasses import dataclass, replace
from itertools import islice

from policyc.compiler.driver.compare.diff import (
    FEW_ENDS,
    FEW_POLICIES,
    WHOLE,
    universe_of,
)
from policyc.compiler.driver.compare.focus import focus_of
from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
)
from policyc.compiler.driver.eval.native_flows import why_not_native
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.ir.bounds import is_understood, lower_bound, opaque_rules, upper_bound
from policyc.ir.errors import InternalError
from policyc.ir.peers import Network
from policyc.ir.policy import PolicySet
from policyc.ir.results.common import Evidence
from policyc.ir.results.diff import DiffOutcome
from policyc.ir.results.listing import EndGroup, Exposure, ListedConnection, ListResult
from policyc.ir.results.opaque import part_of, words_of
from policyc.ir.universe import Universe
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.cluster.exposure import Exposures
from policyc.verifier.cluster.listing import Listing
from policyc.verifier.cluster.listing_query import ListingQuery
from policyc.verifier.cluster.partition import prove_partition
from policyc.verifier.cluster.recheck import MOST_FLOWS, recheck
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
    versions_of,
)

LINES = 40
"""The default number of lines in text."""
CONNECTIONS = 10_000
"""The default number of pairs of groups in the other formats."""
BUILTIN = (
    "allowed, but not listed: a pod to itself (A23), a node to its own pods unless a rule denies "
    "exactly that (A22), IPv6 neighbour discovery (A26), replies"
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a listing. `lines` and `connections` None: all. `audit`: Z3 at any size.

    `lines` 0: no lines, and no merging for them. `recheck`: native code computes everything again; it
    must be installed (`require_native`).
    """

    focus: tuple[str, ...] = ()
    exposure: bool = False
    lines: int | None = LINES
    connections: int | None = CONNECTIONS
    pod_networks: tuple[Network, ...] = ()
    timeout_ms: int | None = None
    solver: Choice = Choice.Z3
    audit: bool = False
    recheck: bool = False


@collector_relaxed()
def list_cluster(read: Read, options: ListOptions, progress: Progress) -> ListResult:
    """The matrix of the cluster; InputError if the focus is not in it."""
    cluster = read.cluster
    universe = cluster.universe if cluster is not None else Universe()
    nodes = cluster.nodes if cluster is not None else ()
    said = [network for node in nodes for network in node.pod_cidrs]
    networks = tuple(dict.fromkeys([*options.pod_networks, *said]))
    focus = focus_of(options.focus, universe)
    progress("connecting both ends")
    policies = read.policies.policies
    listing = Listing(upper_bound(policies), universe, networks, focus)
    progress("merging equal rows")
    result = _result(listing, options, progress)
    return result if is_understood(policies) else _at_most(result, policies, universe, networks)


def _at_most(
    result: ListResult, policies: PolicySet, universe: Universe, networks: tuple[Network, ...]
) -> ListResult:
    """The listing is the most that opaque rules may allow; undecided if they may allow less."""
    bounds = lower_bound(policies), upper_bound(policies)
    sides = (Change(each, universe, networks) for each in bounds)
    if diff_cluster(*sides, ignore_effects=True, limit=0).outcome is DiffOutcome.EQUAL:
        return result
    parts = tuple(map(part_of, opaque_rules(policies)))
    why = "the list may contain more than is allowed: " + "; ".join(map(words_of, parts))
    return replace(result, undecided=result.undecided or why)


def _result(listing: Listing, options: ListOptions, progress: Progress) -> ListResult:
    blocks = listing.blocks() if options.lines != 0 else []
    lines = tuple(map(listing.line, blocks[: options.lines]))
    connections = tuple(listing.connections(options.connections))
    shown = {(each.src, each.dst) for each in connections}
    n_connected = listing.n_connected()
    exposures, more = _exposures(listing, options)
    progress("certifying")
    evidence, undecided = _certified(listing, connections, options)
    rechecked = ""
    if options.recheck:
        progress("evaluating the list again")
        rechecked = why_not_native(listing.policies, with_effects=False)
        if not rechecked:
            evidence = replace(evidence, method=f"{evidence.method}; {_recheck(listing, options)}")
    return ListResult(
        universe_of(listing.universe, listing.universe),
        evidence,
        _groups(listing, connections, exposures),
        connections,
        lines,
        len(listing.groups.all),
        n_connected,
        listing.n_pairs() - n_connected,
        n_connected - len(shown),
        len(blocks) - len(lines),
        exposures,
        more,
        options.focus,
        tuple(_notes(listing, rechecked)),
        undecided,
    )


def _exposures(listing: Listing, options: ListOptions) -> tuple[tuple[Exposure, ...] | None, int]:
    """The exposures of the first groups, and the number of further groups."""
    if not options.exposure:
        return None, 0
    describing = Exposures(listing)
    wanted = describing.wanted()
    shown = wanted[: options.connections]
    found = tuple(exposure for at in shown for exposure in describing.of(at))
    return found, len(wanted) - len(shown)


def _groups(
    listing: Listing,
    connections: tuple[ListedConnection, ...],
    exposures: tuple[Exposure, ...] | None,
) -> tuple[EndGroup, ...]:
    named = {at for each in connections for at in (each.src, each.dst)}
    named |= {exposure.group for exposure in exposures or ()}
    return tuple(map(listing.group, sorted(named)))


def _recheck(listing: Listing, options: ListOptions) -> str:
    """Compare with native code, pair by pair; the number of pairs, in words."""
    from policyc.compiler.driver.eval.native_pairs import NativePairs

    most = None if options.audit else MOST_FLOWS
    found = recheck(listing, lambda ends: NativePairs(listing.policies, ends), most)
    return f"{found.compared} of {found.all} flows between atoms evaluated again with compiled code"


def _notes(listing: Listing, not_rechecked: str) -> list[str]:
    """Further facts for the reader."""
    notes = [BUILTIN]
    if not_rechecked:
        notes.append(f"not evaluated again with compiled code: {not_rechecked}")
    without = [e for e in listing.universe.endpoints if e.addresses_known and not e.addresses]
    if without:
        names = ", ".join(end.qualified_name for end in islice(without, 5))
        more = f" and {len(without) - 5} more" if len(without) > 5 else ""
        notes.append(f"without an address, and so not listed (A25): {names}{more}")
    if not listing.behaviour.is_coarse:
        notes.append(
            "the cluster is large: groups contain ends that no rule distinguishes; some groups may "
            "behave alike"
        )
    return notes


def _certified(
    listing: Listing, connections: tuple[ListedConnection, ...], options: ListOptions
) -> tuple[Evidence, str]:
    """The certification of the answer, or the reason if a solver gave up."""
    replayed = listing.replay(connections)
    solvers = versions_of(options.solver)
    n_policies = sum(len(tier.policies) for tier in listing.policies.tiers)
    is_small = len(listing.space.sites) <= FEW_ENDS and n_policies <= FEW_POLICIES
    if (is_small or options.audit) and has_known_places(listing):
        goal = ListingQuery(listing).goal()
        decision = decide(goal, options.solver, options.timeout_ms)
        if decision.answer is Answer.SAT:
            raise InternalError("Z3 found a flow that the list gets wrong")
        reason = decision.reason if decision.answer is Answer.UNKNOWN else ""
        return Evidence(WHOLE, solvers, 1, replayed), reason
    sets = (listing.policies,)
    proof = prove_partition(listing.space, sets, options.solver, options.timeout_ms)
    method = proof.method("every pair of atoms evaluated")
    solvers = solvers if proof.queries else ()
    return Evidence(method, solvers, proof.queries, replayed), proof.undecided


def has_known_places(listing: Listing) -> bool:
    """The query and the listing have the same places of pods: no focus distinguishes more."""
    unknown = any(not end.addresses_known for end in listing.universe.endpoints)
    return not unknown or not listing.focus.networks


def exit_code_of(result: ListResult) -> int:
    """3 if a solver gave up, else 0: a listing does not judge."""
    return 3 if result.undecided else 0
