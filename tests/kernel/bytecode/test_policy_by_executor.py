# SPDX-License-Identifier: Apache-2.0
"""The executor and the kernel run the golden bundles' policy programs with equal results."""

import random
from pathlib import Path

import pytest

from policyc.compiler.driver.compile.target import Backend
from policyc.verifier.bytecode.object import read_object
from tests.kernel.support.policy_by_executor import (
    Contents,
    Flows,
    drawn_number,
    executed_policy,
    loaded_policy,
    random_classes,
    to_be_kept,
)
from tests.kernel_corpus.surroundings import own_bpffs
from tests.property.length import examples
from tests.unit.verifier.bytecode.objects import (
    CASES,
    compiled,
    policy_object,
)

pytestmark = pytest.mark.kernel
FLOWS = examples(100, 2)


@pytest.mark.parametrize(
    ("case", "backend"),
    [
        pytest.param(case, backend, marks=pytest.mark.slow if (at + of) % 2 or at % 4 > 1 else ())
        for at, case in enumerate(CASES)
        for of, backend in enumerate(Backend)
    ],
)
def test_executor_and_kernel_give_the_same_verdicts_and_maps(
    case: str, backend: Backend, tmp_path: Path
) -> None:
    emitted = compiled(case).emitted
    data = policy_object(case, backend)
    read = read_object(data)
    rng = random.Random(case)
    flows = Flows(read, rng)
    seeds = (*emitted.seeds, random_classes(rng, read.maps["pc_class"]))
    here = executed_policy(data)
    here.fill(seeds)
    results = set()
    after: Contents = {}
    with own_bpffs(tmp_path / "bpffs") as pins, loaded_policy(data, tmp_path, pins) as kernel:
        kernel.fill(seeds)
        for number in range(FLOWS):
            if number == FLOWS // 2:
                kept = to_be_kept(rng, after)
                kernel.keep(kept)
                here.keep(kept)
            flow = flows.draw()
            before = here.contents()
            result = kernel.run(flow)
            after = kernel.contents()
            assert here.run(flow, drawn_number(read, before, after)) == result
            assert here.contents() == after
            results.add(result)
    assert len(results) > 1, "some pass and some do not"
    assert len(after["pc_counts"]) > 2, "some rule decides, not only those that every bundle has"
