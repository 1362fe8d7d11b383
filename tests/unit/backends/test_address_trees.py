# SPDX-License-Identifier: Apache-2.0
"""Trees over addresses: the column of each address, and the predicted cost of a tree."""

import random
from bisect import bisect_right

import pytest

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.address_trees import (
    AddressTree,
    Runs,
    best_tree,
    tree_of_fans,
    tree_plan,
)
from policyc.ir.plan import AddressLayout, AddressPlan
from policyc.ir.trees import (
    LEAF,
    NODE_BYTES,
    Nodes,
    is_fan,
    search,
    search_fan,
)

LAST = (1 << 32) - 1


def runs_at(starts: set[int]) -> Runs:
    """Runs that begin there, each with a column of its own."""
    return tuple((start, 1 + at) for at, start in enumerate(sorted({0, *starts})))


def blocks(n: int, length: int, first: int = 100 << 24) -> Runs:
    """So many blocks, and as many gaps between them."""
    size = 1 << 32 - length
    return runs_at({first + at * size for at in range(2 * n)})


def found(plan: AddressPlan, nodes: Nodes, address: int) -> int:
    """The column of an address."""
    if plan.layout is AddressLayout.FANS:
        word = plan.roots[address >> 16]
        return search_fan(nodes.nodes, word, address & 0xFFFF, plan.rounds[0]) & ~LEAF
    word = plan.roots[address >> 32 - plan.root_bits] if plan.roots else plan.root
    return search(nodes.nodes, word, address, plan.rounds[0]) & ~LEAF


def made(tree: AddressTree, runs: Runs) -> tuple[AddressPlan, Nodes]:
    nodes = Nodes()
    return tree_plan(4, runs, tree, nodes), nodes


@pytest.mark.parametrize("seed", range(60))
def test_every_address_has_the_column_of_its_run(seed: int) -> None:
    rng = random.Random(seed)
    n, bits = rng.choice((3, 30, 300, 2000)), rng.choice((10, 16, 20, 32))
    first = rng.choice((0, 10 << 24, LAST + 1 - (1 << bits)))
    shift = rng.choice((0, 4, 8))
    starts = {first + (rng.randrange(1 << bits) >> shift << shift) & LAST for _ in range(n)}
    runs = runs_at(starts | ({LAST} if rng.random() < 0.3 else set()))
    lowest = [start for start, _ in runs]
    asked = [rng.randrange(LAST + 1) for _ in range(100)]
    asked += [rng.choice(lowest) + apart & LAST for apart in (-1, 0, 1) for _ in range(100)]
    for tree in (best_tree(runs, 4), tree_of_fans(runs)):
        plan, nodes = made(tree, runs)
        for address in asked:
            assert found(plan, nodes, address) == runs[bisect_right(lowest, address) - 1][1]


@pytest.mark.parametrize("n", [5, 100, 4000])
def test_a_tree_of_fans_has_the_predicted_shape(n: int) -> None:
    runs = blocks(n, 24)
    tree = tree_of_fans(runs)
    plan, nodes = made(tree, runs)
    assert tree.fans is not None and len(plan.roots) == 1 << 16
    assert {at for at, word in enumerate(plan.roots) if is_fan(word)} == set(tree.fans)
    assert len(nodes.nodes) - 1 <= tree.lines
    assert tree.table_bytes == tree.lines * NODE_BYTES + (4 << 16)


def test_the_blocks_of_a_half_are_two_words_away() -> None:
    runs = blocks(4000, 24)
    tree = tree_of_fans(runs)
    assert tree.fans is not None and {shape.below for shape in tree.fans.values()} == {8}
    plan, _ = made(tree, runs)
    assert plan.rounds == (0, 0, 0, 0)
    assert tree.ns < best_tree(runs, 4).ns


def test_a_fan_has_no_word_for_impossible_keys() -> None:
    """256 words are 16 lines; one more would leave room for half as many, in the same memory."""
    tree = tree_of_fans(blocks(128, 24))
    assert tree.fans is not None and [shape.lines for shape in tree.fans.values()] == [16]


def test_halves_of_few_runs_have_no_fan() -> None:
    starts = {half << 16 | at << 8 for half in range(500) for at in range(6)}
    assert tree_of_fans(runs_at(starts)).fans == {}


def test_fans_share_the_room() -> None:
    starts = {half << 16 | at << 12 for half in range(8000) for at in range(16)}
    tree = tree_of_fans(runs_at(starts))
    assert tree.fans is not None and len(tree.fans) == 8000
    assert tree.lines * NODE_BYTES <= 2 * costs.MAX_FAN_BYTES


def test_addresses_of_ipv6_have_no_fans() -> None:
    runs = runs_at({0x20010DB8 << 96 | at << 80 for at in range(200)})
    assert best_tree(runs, 6).fans is None
