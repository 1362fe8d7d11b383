# SPDX-License-Identifier: Apache-2.0
"""Fans: how many bits index them, how large they get, and when trees replace them."""

import random

import pytest

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.fans import FanShape, fans_of, shape_of
from policyc.ir.plan import LongLayout
from policyc.ir.trees import (
    KIND_BITS,
    NODE_BYTES,
    Nodes,
    column_word,
    depth_of,
)

UDP, ICMP = 1 << KIND_BITS, 3 << KIND_BITS


def ports(n: int, apart: int = 2, first: int = 1000) -> list[tuple[int, int]]:
    """Steps of n ports that are so far from each other."""
    out = [(0, column_word(0))]
    for at in range(n):
        out += [(first + at * apart, column_word(1 + at)), (first + at * apart + 1, column_word(0))]
    return out


def made(steps: list[tuple[int, int]], shape: FanShape) -> int:
    """The lines that a fan adds."""
    nodes = Nodes()
    nodes.fan(steps, shape.below, shape.kinds)
    return len(nodes.nodes) - 1


def test_thousands_of_ports_are_one_word_each() -> None:
    shape = shape_of(ports(10000, 6), costs.MAX_FAN_BYTES)
    assert (shape.below, shape.kinds, shape.depth) == (0, 1, 0)


@pytest.mark.parametrize("room", [1 << 10, 1 << 14, 1 << 17, 1 << 19])
@pytest.mark.parametrize("seed", range(6))
def test_a_fan_is_as_its_shape_says_and_its_table_has_room(seed: int, room: int) -> None:
    rng = random.Random(seed)
    n_steps = rng.choice((10, 70, 500, 3000))
    places = rng.sample(range(1, rng.choice((UDP, 6 << KIND_BITS))), n_steps)
    steps = [(lo, column_word(at)) for at, lo in enumerate(sorted({0, *places}))]
    shape = shape_of(steps, room)
    assert made(steps, shape) <= shape.lines
    table = 4 * ((shape.kinds << KIND_BITS - shape.below) + 1)
    assert table <= max(room + 2 * NODE_BYTES, 8 * NODE_BYTES)
    assert shape.depth <= depth_of(len(steps))


def test_a_few_steps_of_other_protocols_do_not_widen_a_fan() -> None:
    steps = ports(1000)
    few = [*steps, (UDP, column_word(7)), (UDP + 53, column_word(8)), (ICMP, column_word(9))]
    assert shape_of(few, costs.MAX_FAN_BYTES).kinds == 1
    assert shape_of([*steps, *((UDP + lo, word) for lo, word in steps)], 1 << 19).kinds == 2


def test_a_table_grows_only_if_that_saves_nodes() -> None:
    steps = ports(40, 1500)
    shape = shape_of(steps, costs.MAX_FAN_BYTES)
    assert shape.depth == 1
    wider = shape_of(steps, 64 * NODE_BYTES)
    assert wider.depth == 1 and wider.lines == shape.lines


def test_fans_are_for_diagrams_that_gain_by_them() -> None:
    few = {0: ports(6)}
    fans, choice = fans_of(few, 10, None)
    assert choice is not None and choice.chosen == LongLayout.TREES.value and not fans
    assert set(fans_of(few, 10, LongLayout.FANS)[0]) == {0}
    many = {at: ports(600, 7, 1000 + at) for at in range(3)}
    fans, choice = fans_of(many, 10, None)
    assert choice is not None and choice.chosen == LongLayout.FANS.value
    assert set(fans) == set(many)
    assert sum(made(many[at], shape) for at, shape in fans.items()) * NODE_BYTES < 2 * (
        costs.MAX_FAN_BYTES
    )
    assert fans_of({}, 10, LongLayout.FANS) == ({}, None)


def test_thousands_of_long_diagrams_share_the_room() -> None:
    many = {at: ports(60, 7, 1000 + at) for at in range(4000)}
    fans, _ = fans_of(many, 10, LongLayout.FANS)
    assert set(fans) == set(many)
    tables = sum(4 << KIND_BITS - shape.below for shape in fans.values())
    assert tables <= costs.MAX_FAN_BYTES * 2
    assert all(shape.depth <= depth_of(121) for shape in fans.values())
