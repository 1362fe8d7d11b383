# SPDX-License-Identifier: Apache-2.0
"""Indices of uplinks in conntrack entries: a kept uplink keeps its own, a freed one is reused last."""

import random

from policyc.runtime.load.cluster_nodes import places

N = 8


def test_a_new_uplink_takes_an_index_that_no_entry_stores() -> None:
    assert places((5, 0, 0), {6}) == [0, 6, 0]
    assert places((5, 0, 7), {7, 8, 9}) == [9, 8, 7]


def test_indices_of_random_loads() -> None:
    dice = random.Random(1)
    before = [0] * N
    for _ in range(500):
        devices = set(dice.sample(range(1, 20), dice.randrange(N + 1)))
        after = places(before, devices)
        assert sorted(each for each in after if each) == sorted(devices)
        for old, new in zip(before, after, strict=True):
            assert new == old or old not in devices
        reused = [at for at in range(N) if before[at] and after[at] not in (0, before[at])]
        assert not reused or all(after[at] for at in range(N) if not before[at])
        before = after
