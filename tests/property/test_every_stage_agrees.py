# SPDX-License-Identifier: Apache-2.0
"""A slice of `policyc fuzz`: every stage agrees on random policies of every API."""

import pytest

from policyc.compiler.frontend import ReadOptions
from policyc.compiler.fuzz.hunt import Hunt, Limits, Outcome
from policyc.compiler.fuzz.stages.table import STAGES, ready
from policyc.compiler.fuzz.strategies.examples import APIS, examples
from tests.property.length import examples as examples_of

IN_PROCESS = tuple(name for name in STAGES if not name.startswith("kernel"))


def searched(stages: tuple[str, ...], seed: int, examples_tried: int) -> Outcome:
    with ready(stages) as asked:
        hunt = Hunt(asked, ReadOptions(), examples(), seed, Limits(None, examples_tried))
        outcome = hunt.run()
    assert outcome.found is None, outcome.found.describe()
    assert outcome.examples == examples_tried
    assert outcome.refused < examples_tried / 4
    assert outcome.tally.verdicts["deny"] > outcome.tally.flows / 20
    for name in stages:
        assert outcome.tally.answers[name] > outcome.tally.flows / 2, name
    return outcome


@pytest.mark.slow  # test_every_stage_agrees asks them too
def test_stages_in_this_process_agree() -> None:
    searched(IN_PROCESS, 1, len(APIS))


@pytest.mark.kernel
def test_every_stage_agrees() -> None:
    searched(STAGES, 2, examples_of(len(APIS), 4))


@pytest.mark.kernel
@pytest.mark.slow
def test_every_stage_agrees_at_length() -> None:
    searched(STAGES, 3, 1000)
