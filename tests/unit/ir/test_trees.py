# SPDX-License-Identifier: Apache-2.0
"""Search trees give the leaf of the last step not above the key, and nothing where nothing is."""

import random
from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from policyc.ir.trees import (
    ALLOW,
    EMPTY_NODE,
    FAN,
    ID_MASK,
    KIND_BITS,
    LEAF,
    MOST_LINES,
    NO_KEY,
    NOTHING,
    Nodes,
    column_word,
    depth_of,
    fan_word,
    is_fan,
    is_range,
    parts_of_fan,
    search,
    search128,
    search_service,
    verdict_word,
)

KEYS = st.one_of(st.integers(0, 40), st.integers(0, NO_KEY), st.integers(NO_KEY - 40, NO_KEY))
STEPS = st.lists(
    st.tuples(KEYS, st.integers(1, 5)), min_size=1, max_size=700, unique_by=lambda s: s[0]
)


def wanted(steps: list[tuple[int, int]], key: int) -> int:
    return steps[bisect_right(steps, key, key=lambda step: step[0]) - 1][1]


def from_zero(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps as words, the first at 0."""
    ordered = sorted((at, column_word(leaf)) for at, leaf in steps)
    return [(0, ordered[0][1]), *ordered[1:]]


@given(STEPS, st.lists(KEYS, max_size=20))
def test_a_tree_finds_the_step_of_every_key(steps: list[tuple[int, int]], keys: list[int]) -> None:
    steps = from_zero(steps)
    nodes = Nodes()
    root = nodes.tree(steps)
    around = {0, NO_KEY, *keys, *(at for at, _ in steps), *(max(at - 1, 0) for at, _ in steps)}
    for key in around:
        assert search(nodes.nodes, root, key, depth_of(len(steps))) == wanted(steps, key)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_tree_over_addresses_finds_the_run_of_every_address(seed: int, n: int) -> None:
    rng = random.Random(seed)
    stems = [rng.getrandbits(128) for _ in range(4)]
    starts = {0}
    for _ in range(n):
        bits = rng.choice((0, 16, 32, 33, 48, 64, 96, 100, 127, 128))
        starts.add(rng.choice(stems) >> (128 - bits) << (128 - bits) if bits else 0)
        starts.add(min(2**128 - 1, rng.choice(stems) + rng.choice((0, 1, 2**32, 2**64))))
    runs = [(at, column_word(rng.randrange(1, 6))) for at in sorted(starts)]
    nodes = Nodes()
    root = nodes.tree128(runs)
    rounds = nodes.rounds(root)
    edges = {at + by for at, _ in runs for by in (-1, 0, 1)} | {2**128 - 1}
    for key in (key for key in edges if 0 <= key < 2**128):
        assert search128(nodes.nodes, root, key, rounds) == wanted(runs, key)


@given(STEPS, st.lists(KEYS, max_size=20), st.integers(0, 15), st.integers(1, 6))
def test_a_fan_finds_the_step_of_every_key(
    steps: list[tuple[int, int]], keys: list[int], below: int, kinds: int
) -> None:
    steps = from_zero([(at & 0x7FFFF, leaf) for at, leaf in steps])
    steps = list(dict(steps).items())
    nodes = Nodes()
    nodes.tree([(0, column_word(1)), (7, column_word(2))])  # it does not begin at the first line
    word = nodes.fan(steps, below, kinds)
    assert is_fan(word) and parts_of_fan(word)[1:] == (below, kinds)
    edge = kinds << KIND_BITS
    around = {0, edge - 1, edge, NO_KEY, *keys}.union(
        *({at, max(at - 1, 0), at >> below << below} for at, _ in steps)
    )
    for key in around:
        assert search_service(nodes.nodes, word, key, 8) == wanted(steps, key)


def test_the_words_of_fans_ranges_and_nodes_differ() -> None:
    nodes = Nodes()
    steps = [(at * 10, column_word(at % 3)) for at in range(50)]
    words = (
        nodes.tree(steps),
        nodes.fan(steps, 3, 5),
        nodes.range(4, 9, column_word(1), column_word(2)),
        verdict_word(False, FAN | 5),
    )
    assert [is_fan(word) for word in words] == [False, True, False, False]
    assert [is_range(word) for word in words] == [False, False, True, False]
    assert fan_word(*parts_of_fan(words[1])) == words[1]
    assert parts_of_fan(fan_word(MOST_LINES - 1, 15, 7)) == (MOST_LINES - 1, 15, 7)


def test_a_search_of_unwritten_nodes_finds_no_leaf() -> None:
    nodes = Nodes()
    assert nodes.nodes == [EMPTY_NODE]
    assert search(nodes.nodes, NOTHING, 80, 8) == NOTHING
    root = nodes.tree([(at, column_word(at + 1)) for at in range(100)])
    assert not search(nodes.nodes, root, 50, 2) & LEAF, "the rounds do not reach a leaf"
    assert search(nodes.nodes, root, 50, 3) == column_word(51)


def test_equal_trees_are_one_tree() -> None:
    nodes = Nodes()
    steps = [(at * 10, column_word(at % 3)) for at in range(50)]
    assert nodes.tree(steps) == nodes.tree(list(steps))
    size = len(nodes.nodes)
    nodes.tree([*steps, (1000, steps[-1][1])])  # says the same
    assert len(nodes.nodes) == size


def test_a_verdict_word_holds_action_and_rule() -> None:
    for allows in (False, True):
        word = verdict_word(allows, 12345)
        assert word & LEAF and bool(word & ALLOW) is allows and word & ID_MASK == 12345
