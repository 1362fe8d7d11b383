# SPDX-License-Identifier: Apache-2.0
"""Diagrams as changes of a base say what they say as trees of their own, from far fewer nodes."""

import random
from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.diagrams import changes_of, trees_of
from policyc.ir.decision import Diagram
from policyc.ir.plan import MOST_ROUNDS, DiagramLayout, LongLayout
from policyc.ir.trees import (
    LEAF,
    NO_KEY,
    RANGES,
    WIDTH,
    Nodes,
    depth_of,
    is_fan,
    is_range,
    search_service,
    verdict_word,
)
from policyc.ir.viewed import Verdicts
from tests.property.length import examples

TOP = 0x3FFFF


def diagram(steps: dict[int, int]) -> Diagram:
    """The diagram of these steps, without steps that repeat the leaf before."""
    out: list[tuple[int, int]] = []
    for lo, rule in sorted(steps.items()):
        if not out or out[-1][1] != rule:
            out.append((lo, rule))
    return tuple(out)


def like(base: Diagram, rng: random.Random, n_changes: int) -> Diagram:
    """A diagram in which some ranges, new or along the base's own, are decided by other rules."""
    steps = dict(base)
    for _ in range(n_changes):
        borders = [*steps, TOP]
        first = rng.choice((rng.randrange(TOP), rng.choice(borders)))
        last = rng.choice(
            (first, first + rng.randrange(9), rng.choice(borders), rng.randrange(TOP))
        )
        first, last = min(first, last), max(first, last)
        lowest = sorted(steps)
        after = steps[lowest[bisect_right(lowest, last + 1) - 1]]
        for lo in [lo for lo in steps if first <= lo <= last]:
            del steps[lo]
        steps[first] = rng.randrange(40)
        steps.setdefault(last + 1, after)
        steps.setdefault(0, after)
    return diagram(steps)


def families(seed: int) -> tuple[Diagram, ...]:
    """Bases of very different lengths, with diagrams like them, in any order, none twice."""
    rng = random.Random(seed)
    found: dict[Diagram, None] = {((0, 0),): None}
    for _ in range(rng.randrange(1, 4)):
        n_steps = rng.choice((2, 9, 30, 200, 600))
        base = diagram({0: 0} | {rng.randrange(TOP): rng.randrange(40) for _ in range(n_steps)})
        found[base] = None
        for _ in range(rng.randrange(60)):
            found[like(base, rng, rng.choice((1, 1, 1, 2, 3, 8, 30)))] = None
    out = list(found)
    rng.shuffle(out)
    return tuple(out)


def laid_out(diagrams: tuple[Diagram, ...]) -> tuple[Nodes, Verdicts]:
    """Nodes to lay the diagrams out in; the verdicts allow every other rule."""
    return Nodes(), Verdicts((), [rule % 2 == 0 for rule in range(40)], diagrams, {})


def check(
    diagrams: tuple[Diagram, ...],
    rng: random.Random,
    asked: DiagramLayout | None = None,
    asked_of_long: LongLayout | None = None,
) -> list[str]:
    """Look up all diagrams around all their steps; the chosen layouts."""
    nodes, verdicts = laid_out(diagrams)
    trees = trees_of(verdicts, nodes, asked, asked_of_long)
    assert len(trees.words) == len(diagrams)
    for word, steps in zip(trees.words, diagrams, strict=True):
        depth = trees.depths.get(word, 0)
        assert depth < MOST_ROUNDS
        assert bool(word & LEAF) == (len(steps) == 1) == (word not in trees.depths)
        assert depth or word & LEAF or is_range(word) or is_fan(word)
        assert trees.has_fans or not is_fan(word)
        for key in {0, TOP, NO_KEY, rng.randrange(TOP)}.union(
            *({lo, max(0, lo - 1), lo + 1} for lo, _ in steps)
        ):
            rule = steps[bisect_right(steps, key, key=lambda step: step[0]) - 1][1]
            assert search_service(nodes.nodes, word, key, depth) == verdict_word(
                rule % 2 == 0, rule
            )
    return [choice.chosen for choice in trees.choices]


@settings(max_examples=examples(20, 3), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, *DiagramLayout]),
    st.sampled_from([None, *LongLayout]),
)
def test_every_diagram_is_found_in_each_layout(
    seed: int, asked: DiagramLayout | None, asked_of_long: LongLayout | None
) -> None:
    check(families(seed), random.Random(seed), asked, asked_of_long)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_change_and_its_base_are_the_diagram(seed: int) -> None:
    diagrams = families(seed)
    long = {cell: steps for cell, steps in enumerate(diagrams) if len(steps) > WIDTH}
    changes = changes_of(long)
    assert {change.base for change in changes.values()} <= long.keys() - changes.keys()
    for cell, change in changes.items():
        both = {lo for lo, _ in (*change.steps, *long[cell], *long[change.base])}
        for key in {*both, *(lo - 1 for lo in both if lo)}:
            at = bisect_right(change.steps, key, key=lambda step: step[0]) - 1
            word = change.steps[at][1]
            wanted = [
                steps[bisect_right(steps, key, key=lambda step: step[0]) - 1][1]
                for steps in (long[cell], long[change.base])
            ]
            assert (wanted[1] if word is None else word) == wanted[0]


def many(n: int, n_steps: int) -> tuple[Diagram, ...]:
    """A base of so many steps, and diagrams that open one more port each."""
    rng = random.Random(n)
    base = {0: 0} | {2 * at: 1 + at % 30 for at in rng.sample(range(1, TOP // 2), n_steps)}
    return (
        *(diagram({**base, 2 * at + 1: 39, 2 * at + 2: 38}) for at in range(n)),
        diagram(base),
    )


def test_many_diagrams_of_one_base_take_a_node_each() -> None:
    diagrams = many(2000, 400)
    assert DiagramLayout.CHANGES.value not in check(diagrams[-40:], random.Random(0))
    nodes, verdicts = laid_out(diagrams)
    trees = trees_of(verdicts, nodes, asked_of_long=LongLayout.TREES)
    assert [choice.chosen for choice in trees.choices] == [
        DiagramLayout.CHANGES.value,
        LongLayout.TREES.value,
    ]
    assert len(nodes.nodes) < 1.1 * len(diagrams)
    assert max(trees.depths.values()) == 1 + depth_of(len(diagrams[-1]))


def test_many_diagrams_of_one_base_and_a_port_take_a_quarter_of_a_node_each() -> None:
    rng = random.Random(3)
    base = {0: 0} | {4 * at: 1 + at % 30 for at in rng.sample(range(1, TOP // 8), 400)}
    last = max(base)
    diagrams = (
        *(
            diagram({**base, last + 4 * at: 39, last + 4 * at + 1: base[last]})
            for at in range(1, 2000)
        ),
        diagram(base),
    )
    nodes, verdicts = laid_out(diagrams)
    trees = trees_of(verdicts, nodes, asked_of_long=LongLayout.TREES)
    assert sum(map(is_range, trees.words)) == len(diagrams) - 1
    assert len(nodes.nodes) < 1.2 * len(diagrams) / RANGES
    assert max(trees.depths.values()) == depth_of(len(diagrams[-1]))
    check(diagrams[::50] + diagrams[-1:], random.Random(0), DiagramLayout.CHANGES)


def test_a_diagram_with_one_range_is_a_range() -> None:
    top = (1 << 18) - 1
    diagrams: tuple[Diagram, ...] = (
        ((0, 1), (80, 2), (81, 1)),
        ((0, 2), (80, 1)),
        ((0, 1), (80, 2), (81, 3)),
        ((0, 1), (top, 2)),
        ((0, 3),),
    )
    nodes, verdicts = laid_out(diagrams)
    words = trees_of(verdicts, nodes).words
    assert [is_range(word) for word in words] == [True, True, False, True, False]
    check(diagrams, random.Random(0))
    check(diagrams[::50] + diagrams[-1:], random.Random(0))


def test_few_long_diagrams_stay_trees() -> None:
    diagrams = many(50, 400)
    nodes, verdicts = laid_out(diagrams)
    trees = trees_of(verdicts, nodes, asked_of_long=LongLayout.TREES)
    assert [choice.chosen for choice in trees.choices] == [LongLayout.TREES.value]
    assert max(trees.depths.values()) == depth_of(max(map(len, diagrams)))


def test_diagrams_like_no_other_stay_trees() -> None:
    rng = random.Random(1)
    diagrams = tuple(
        diagram({0: 0} | {rng.randrange(TOP): rng.randrange(40) for _ in range(400)})
        for _ in range(100)
    )
    assert changes_of(dict(enumerate(diagrams))) == {}
    assert check(diagrams, rng)[0] == DiagramLayout.TREES.value
