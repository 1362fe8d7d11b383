# SPDX-License-Identifier: Apache-2.0
"""Replay of regression files: check that every stage agrees now."""

from collections.abc import Sequence
from dataclasses import replace

from policyc.compiler.fuzz.comparison import Disagreement, Tally, compare
from policyc.compiler.fuzz.flows import flows_of
from policyc.compiler.fuzz.regression import Regression, scenario_of
from policyc.compiler.fuzz.stages.stage import Stage

FLOWS = 60
"""The number of flows of a case that does not give one."""


def replayed(
    regression: Regression, stages: Sequence[Stage], tally: Tally | None = None
) -> Disagreement | None:
    """The remaining disagreement of a case; None if all stages agree."""
    scenario = scenario_of(regression)
    if not regression.records:
        scenario = replace(scenario, flows=flows_of(scenario, FLOWS))
    return compare(scenario, stages, tally)
