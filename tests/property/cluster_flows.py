# SPDX-License-Identifier: Apache-2.0
"""Flows of a cluster, and what is known of their ends."""

import random
from dataclasses import replace

from policyc.ir.results.diff import DifferenceKind
from policyc.ir.semantics import is_between_neighbours, is_from_its_node, verdict
from policyc.ir.universe import End, Endpoint, Flow, Node, Universe
from policyc.verifier.cluster.connections import Comparison
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.cluster.own_node import OwnNodeChange, OwnNodeComparison
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.regions import Region, regions
from policyc.verifier.cluster.sites import run_of, sites_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.symbolic.differences import kind_between
from tests.property.cases import Case
from tests.property.policy_mutations import (
    mutated,
    with_notes,
)
from tests.property.tiered_cases import tiered_case


def known(universe: Universe) -> Universe:
    """The universe with a Node object for every node that a pod names."""
    nodes = {node.name: node for node in universe.nodes}
    endpoints = tuple(
        replace(e, its_node=nodes.get(e.node) or Node(e.node))
        if e.node
        else replace(e, node="n9", its_node=Node("n9"))
        for e in universe.endpoints
    )
    return Universe(endpoints, universe.nodes)


def name_of(end: Endpoint | Node) -> tuple[str, str]:
    """The namespace, of a pod alone, and the name: unique among the ends of a cluster."""
    return (end.namespace if isinstance(end, Endpoint) else "", end.name)


def column_of(space: Space, end: End, family: int) -> int:
    """Where an end stands among the columns."""
    if isinstance(end, Endpoint | Node):
        for at, each in enumerate(space.classes):
            for member in each.members:
                site = space.sites[member].before
                if name_of(site) == name_of(end):
                    columns = [c for c in space.columns_of[at] if space.columns[c].family == family]
                    if columns:
                        return columns[0]
        raise AssertionError(f"{end} is nowhere")
    run = run_of(space.runs[family], end)
    return next(
        at for at, c in enumerate(space.columns) if (c.family, c.run, c.owner) == (family, run, -1)
    )


def kinds_at(space: Space, found: list[Region], flow: Flow) -> set[DifferenceKind]:
    src, dst = (column_of(space, end, flow.family) for end in (flow.src, flow.dst))
    return {
        region.kind
        for region in found
        if region.src >> src & 1
        and region.dst >> dst & 1
        and flow.service.key in region.services
        and (
            region.sources is None
            or (
                flow.source_port is not None
                and region.sources[0] <= flow.source_port <= region.sources[1]
            )
        )
    }


def kinds_of_own_node(space: Space, found: list[OwnNodeChange], flow: Flow) -> set[DifferenceKind]:
    pod = column_of(space, flow.dst, flow.family)
    return {
        change.kind
        for change in found
        if space.columns[pod].owner in change.classes
        and flow.service.key in change.families.get(flow.family, ())
    }


def flows_of(
    case: Case, rng: random.Random, count: int, *, with_own_nodes: bool = False
) -> list[Flow]:
    """Flows that some policy may decide; `with_own_nodes`: also what nodes generate for their pods."""
    flows = []
    for flow in case.flows(rng, count):
        if (
            flow.src == flow.dst
            or is_between_neighbours(flow)
            or (is_from_its_node(flow.src, flow.dst) and not with_own_nodes)
        ):
            continue
        has_port = flow.service.number in (6, 17, 132)
        flows.append(
            replace(flow, source_port=rng.choice((1, 53, 1023, 40000)) if has_port else None)
        )
    return flows


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    case = replace(case, universe=known(case.universe))
    before = with_notes(rng, case.policies)
    after = before if not before.tiers else mutated(rng, before)
    for _ in range(rng.randrange(3) if before.tiers else 0):
        after = mutated(rng, after)
    ignore = rng.random() < 0.3
    reads = Reads.of((before, after))
    space = Space(sites_of(case.universe, case.universe, reads), reads)
    found = regions(Comparison(space, before, after, ignore).cells(), space)
    of_own = OwnNodeComparison(space, before, after, ignore).changes()
    for flow in flows_of(case, rng, 60, with_own_nodes=True):
        wanted = kind_between(verdict(before, flow), verdict(after, flow), ignore)
        if is_from_its_node(flow.src, flow.dst):
            kinds = kinds_of_own_node(space, of_own, flow)
        else:
            kinds = kinds_at(space, found, flow)
        assert kinds == ({wanted} if wanted else set()), f"{flow}: {wanted}"
    change = Change(before, case.universe), Change(after, case.universe)
    diff_cluster(*change, ignore_effects=ignore, limit=None)  # confirms every witness
