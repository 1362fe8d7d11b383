# SPDX-License-Identifier: Apache-2.0
"""Every stage compared with the reference semantics: the first different answer, or failing stage."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from policyc.compiler.fuzz.stages.answers import Question
from policyc.compiler.fuzz.stages.scenario import (
    Scenario,
    record_of,
)
from policyc.compiler.fuzz.stages.stage import Stage
from policyc.compiler.fuzz.stages.table import REFERENCE


@dataclass(frozen=True)
class Disagreement:
    """A stage's answer that differs from the reference; `question` None: it failed before any answer."""

    scenario: Scenario
    stage: str
    question: Question | None
    reference: str
    answer: str

    def describe(self) -> str:
        """The disagreement in one line."""
        if self.question is None:
            return f"{self.stage} failed: {self.answer}"
        end = f"{self.question.flow}, {self.question.direction.value}"
        return f"{end}: {self.stage} says {self.answer!r}, {REFERENCE} {self.reference!r}"

    @property
    def records(self) -> tuple[dict[str, str | int], ...]:
        """The flow at fault, as a file has it; none if there is no such flow."""
        return () if self.question is None else (record_of(self.question.flow),)


@dataclass
class Tally:
    """The amount of comparisons."""

    flows: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)


def compare(
    scenario: Scenario, stages: Sequence[Stage], tally: Tally | None = None
) -> Disagreement | None:
    """Run the stages in order; the first disagreement, None if all agree."""
    reference = scenario.reference
    for stage in stages:
        try:
            answers = stage.answers(scenario)
        except Exception as failure:  # any failure of a stage on compiled input is a finding
            what = f"{type(failure).__name__}: {failure}"
            return Disagreement(scenario, stage.name, None, "", what.splitlines()[0])
        for question, wanted, answer in zip(scenario.questions, reference, answers, strict=True):
            if answer is not None and not answer.agrees_with(wanted):
                return Disagreement(scenario, stage.name, question, str(wanted), str(answer))
        if tally is not None:
            tally.answers[stage.name] += sum(answer is not None for answer in answers)
    if tally is not None:
        tally.flows += len(scenario.flows)
        tally.verdicts.update(answer.action.value for answer in reference)
    return None
