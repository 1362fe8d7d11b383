# SPDX-License-Identifier: Apache-2.0
"""The data lemma holds of every layout's seeds, and of no seeds in which one thing is wrong."""

from dataclasses import replace

import pytest

from policyc.backends.ebpf_c.seeds import Seed
from tests.unit.verifier.translation.generations import made
from tests.unit.verifier.translation.wrong_seeds import (
    FAULTS,
    LAYOUTS,
    Damage,
)

pytestmark = pytest.mark.thorough


LATE_LAYOUTS = ("too-many-pairs",)
SLOW = ("cidrs-10000", "mixed-10000", "ports-10000", "selectors-10000", "many-policies")


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(n, marks=pytest.mark.slow if n in LATE_LAYOUTS else ()) for n in LAYOUTS),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_the_seeds_are_the_decisions(name: str) -> None:
    assert list(made(name).lemma().faults()) == []


def test_the_layouts_are_all_there() -> None:
    plans = [plan for name in LAYOUTS for plan in made(name).plan.used_directions]
    assert {plan.cells.value for plan in plans} == {"dense", "hash"}
    layouts = {each.layout.value for plan in plans for each in plan.addresses.values()}
    assert layouts >= {"constant", "code", "tree", "fans"}
    assert {made(name).plan.has_fans for name in LAYOUTS} == {True, False}


LATE = ("a bucket has another word", "a row's usual word")
"""Found after most of the lemma has been shown."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=pytest.mark.slow if each in LATE else ()) for each in FAULTS],
)
def test_one_wrong_thing_is_found(fault: str) -> None:
    case, map_name, damage = FAULTS[fault]
    seeds = []
    for seed in made(case).emitted.seeds:
        data = bytearray(seed.data)
        if seed.map_name == map_name:
            damage(data)
            assert data != seed.data
        seeds.append(replace(seed, data=bytes(data)))
    found = list(made(case).lemma(seeds).faults())
    assert found and all(each.lemma == "data" for each in found)


def test_a_fault_names_the_service_and_the_place() -> None:
    case, map_name, damage = FAULTS["a port too high"]
    seeds = [_damaged(seed, map_name, damage) for seed in made(case).emitted.seeds]
    found, *_ = made(case).lemma(seeds).faults()
    assert found.direction is not None and found.key is not None and found.columns
    assert "the seeds give" in found.what


def _damaged(seed: Seed, map_name: str, damage: Damage) -> Seed:
    data = bytearray(seed.data)
    if seed.map_name == map_name:
        damage(data)
    return replace(seed, data=bytes(data))
