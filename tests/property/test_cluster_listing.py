# SPDX-License-Identifier: Apache-2.0
"""The listing of a cluster agrees with the reference semantics on every flow."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.semantics import as_seen, verdict
from policyc.ir.universe import End, Endpoint, Flow, Node, end_name
from policyc.verifier.cluster.areas import has
from policyc.verifier.cluster.groups import OUTSIDE
from policyc.verifier.cluster.listing import Focus, Listing
from tests.property.cases import Case
from tests.property.cluster_flows import (
    column_of,
    flows_of,
    known,
)
from tests.property.length import examples
from tests.property.policy_mutations import (
    with_notes,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def random_listing(rng: random.Random) -> tuple[Case, Listing]:
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    case = replace(case, universe=known(case.universe))
    policies = with_notes(rng, case.policies)
    return replace(case, policies=policies), Listing(policies, case.universe)


def group_of(listing: Listing, end: End, family: int) -> int:
    """The only group that the end is in, in this family."""
    column = column_of(listing.space, end, family)
    name = None if not isinstance(end, Endpoint | Node) else end_name(replace_speaks(end))
    found = [
        at
        for at, group in enumerate(listing.groups.all)
        if group.columns >> column & 1 and (name is None or name in group.names)
    ]
    assert len(found) == 1, f"{end} is in the groups {found}"
    return found[0]


def replace_speaks(end: Endpoint | Node) -> Endpoint | Node:
    return replace(end, speaks=False) if isinstance(end, Node) else end


def is_listed(listing: Listing, flow: Flow) -> bool:
    src, dst = (group_of(listing, end, flow.family) for end in (flow.src, flow.dst))
    talks = listing.groups.talks(src).get(dst, [])
    if listing.groups.all[src].is_alone and src == dst:
        raise AssertionError(f"{flow} is from an end to itself")
    return any(
        flow.family in families
        and has(listing.behaviour.areas.known[area], flow.service.key, flow.source_port)
        for families, area in talks
    )


def is_asked(listing: Listing, flow: Flow) -> bool:
    """Whether policies decide at an end of the flow."""
    ends = (group_of(listing, end, flow.family) for end in (flow.src, flow.dst))
    return any(listing.groups.all[at].is_decided for at in ends)


def check(seed: int) -> None:
    rng = random.Random(seed)
    case, listing = random_listing(rng)
    for flow in flows_of(case, rng, 60):
        if isinstance(flow.src, Endpoint | Node) or isinstance(flow.dst, Endpoint | Node):
            allowed = not verdict(case.policies, flow).action.is_deny
            assert not is_asked(listing, flow) or is_listed(listing, flow) == allowed, str(flow)
    connections = list(listing.connections(None))
    assert listing.n_connected() == len({(each.src, each.dst) for each in connections})
    assert listing.n_connected() <= listing.n_pairs()
    listing.replay(connections)
    check_blocks(listing)


def check_blocks(listing: Listing) -> None:
    """The merged lines equal the pairs, each pair once for each family."""
    said: dict[tuple[int, int, int], int] = {}
    for block in listing.blocks():
        families, area = block.talk
        for src, one in enumerate(listing.groups.all):
            for dst, other in enumerate(listing.groups.all):
                if block.src >> src & 1 and block.dst >> dst & 1:
                    for family in set(families) & set(one.families) & set(other.families):
                        assert (src, dst, family) not in said
                        said[src, dst, family] = area
    expected = {}
    for src, one in enumerate(listing.groups.all):
        for dst, talks in listing.groups.talks(src).items():
            for families, area in talks:
                expected.update({(src, dst, family): area for family in families})
        said = {
            key: area for key, area in said.items() if not (one.is_alone and key[:2] == (src, src))
        }
    assert said.keys() == expected.keys()
    for key, area in said.items():
        family = key[2]
        assert listing.behaviour._strip(area, family) == listing.behaviour._strip(
            expected[key], family
        )


@settings(max_examples=examples(150, 2), deadline=None)
@given(SEEDS)
def test_a_flow_is_listed_where_it_is_allowed_and_nowhere_else(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(SEEDS)
def test_a_flow_is_listed_where_it_is_allowed_at_length(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(100, 2), deadline=None)
@given(SEEDS)
def test_members_of_a_group_have_the_same_verdicts(seed: int) -> None:
    rng = random.Random(seed)
    case, listing = random_listing(rng)
    ends = {
        end_name(replace_speaks(e)): e
        for e in (*case.universe.endpoints, *case.universe.nodes)
        if not isinstance(e, Endpoint) or not e.host_network
    }
    for flow in flows_of(case, rng, 40):
        for swapped in swaps(listing, flow, ends):
            if is_asked(listing, flow):
                before, after = (verdict(case.policies, f).action.is_deny for f in (flow, swapped))
                assert before == after, f"{flow} and {swapped}"


def swaps(listing: Listing, flow: Flow, ends: dict[str, Endpoint | Node]) -> list[Flow]:
    """The flow with its source, or its destination, as each other member of its group."""
    found = []
    for side, other in (("src", flow.dst), ("dst", flow.src)):
        mine = getattr(flow, side)
        if not isinstance(mine, Endpoint | Node):
            continue
        for name in listing.groups.all[group_of(listing, mine, flow.family)].names:
            end = ends[name]
            if end_name(end) not in (end_name(mine), end_name(as_seen(other))):
                swapped = replace(flow, **{side: end})
                if end.address(flow.family) is not None and not _is_own(swapped):
                    found.append(swapped)
    return found


def _is_own(flow: Flow) -> bool:
    src, dst = flow.src, flow.dst
    return isinstance(src, Node) and isinstance(dst, Endpoint) and src.name == dst.node


@settings(max_examples=examples(100, 2), deadline=None)
@given(SEEDS)
def test_groups_partition_the_ends(seed: int) -> None:
    _, listing = random_listing(random.Random(seed))
    for family, columns in listing.space.of_family.items():
        for column in range(len(listing.space.columns)):
            if columns >> column & 1 and columns & listing.behaviour.decided:
                owner = listing.space.columns[column].owner
                names = {name for _, name in listing.groups._names(owner)} if owner >= 0 else set()
                mine = [g for g in listing.groups.all if g.columns >> column & 1]
                assert mine, f"{column} is in no group"
                if owner < 0:
                    assert len(mine) == 1
                    assert mine[0].kind == OUTSIDE
                for name in names:
                    assert sum(name in g.names and family in g.families for g in mine) == 1


@settings(max_examples=examples(60, 2), deadline=None)
@given(SEEDS)
def test_a_focus_shows_its_own_rows_and_columns_unchanged(seed: int) -> None:
    rng = random.Random(seed)
    case, whole = random_listing(rng)
    pod = rng.choice(case.universe.endpoints)
    if not pod.addresses or pod.host_network:
        return
    focused = Listing(case.policies, case.universe, (), Focus(frozenset({pod.qualified_name})))
    for each in focused.connections(None):
        names = [focused.groups.all[at].names for at in (each.src, each.dst)]
        assert any(pod.qualified_name in some for some in names)
    for flow in flows_of(case, rng, 40):
        about = any(
            isinstance(e, Endpoint) and e.qualified_name == pod.qualified_name
            for e in (flow.src, flow.dst)
        )
        if about:
            assert is_listed(focused, flow) == is_listed(whole, flow)
            src, dst = (group_of(focused, end, flow.family) for end in (flow.src, flow.dst))
            seen = any((c.src, c.dst) == (src, dst) for c in focused.connections(None))
            assert seen == (dst in focused.groups.talks(src))
