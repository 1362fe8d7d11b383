# SPDX-License-Identifier: Apache-2.0
"""The interface of every stage: it answers the questions of a scenario, or leaves them open."""

from collections.abc import Sequence
from typing import Protocol

from policyc.compiler.fuzz.stages.answers import Answer
from policyc.compiler.fuzz.stages.scenario import Scenario


class Stage(Protocol):
    """A stage that is ready to answer."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """For each question of the scenario; None if this stage has no answer."""
        ...
