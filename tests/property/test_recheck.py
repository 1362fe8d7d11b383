# SPDX-License-Identifier: Apache-2.0
"""Compiled code confirms every listing, and none of which a connection was taken away or added."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.eval.native_flows import why_not_native
from policyc.compiler.driver.eval.native_pairs import NativePairs
from policyc.ir.errors import InternalError
from policyc.ir.services import Kind, kind_span
from policyc.verifier.cluster.listing import Listing
from policyc.verifier.cluster.recheck import Recheck, recheck
from tests.property.cases import Case
from tests.property.cluster_flows import (
    known,
)
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def listing_of(seed: int) -> Listing:
    case: Case = tiered_case(random.Random(seed), max_tiers=3, max_policies=3)
    universe = known(case.universe)
    assert not why_not_native(case.policies)
    return Listing(case.policies, universe)


def rechecked(listing: Listing, most: int | None = None) -> Recheck:
    return recheck(listing, lambda ends: NativePairs(listing.policies, ends), most)


@settings(max_examples=examples(25, 2), deadline=None)
@given(SEEDS)
def test_every_listing_is_confirmed(seed: int) -> None:
    found = rechecked(listing_of(seed))
    assert found.all * 0.7 <= found.compared <= found.all


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_every_listing_is_confirmed_at_length(seed: int) -> None:
    rechecked(listing_of(seed))


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_recheck_detects_a_removed_column(seed: int) -> None:
    """One column of one reach is removed, so that its allowed flows are listed as denied."""
    rng = random.Random(seed)
    listing = listing_of(rng.randrange(1 << 30))
    behaviour = listing.behaviour
    assert behaviour._out is not None
    discovery = kind_span(Kind.ICMPV6)  # on the link only: policies do not apply (A26)
    slips = [
        (label, at, columns & -columns)
        for label, reach in enumerate(behaviour._out)
        for at, (area, columns) in enumerate(reach)
        if any(keys - discovery for _, _, keys in behaviour.areas.known[area])
        and listing.space.columns[behaviour.first[label]].owner < 0
    ]
    if not slips:
        return
    label, at, column = rng.choice(slips)
    reach = list(behaviour._out[label])
    area, columns = reach[at]
    reach[at] = (area, columns & ~column)
    behaviour._out[label] = tuple(reach)
    with pytest.raises(InternalError, match="does not confirm"):
        rechecked(listing)


def test_a_limited_recheck_compares_evenly_spread_sources() -> None:
    listing = listing_of(11)
    whole = rechecked(listing)
    part = rechecked(listing, whole.all // 4)
    assert 0 < part.compared <= whole.compared // 3
    assert part.all == whole.all


def test_other_policies_are_not_confirmed() -> None:
    noticed = 0
    for seed in range(24):
        listing = listing_of(seed)
        others = replace(listing.policies, tiers=listing.policies.tiers[1:])
        try:
            recheck(listing, lambda ends, others=others: NativePairs(others, ends))
        except InternalError:
            noticed += 1
    assert noticed >= 4
