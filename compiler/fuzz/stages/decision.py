# SPDX-License-Identifier: Apache-2.0
"""The Decision IR, looked up by the compiler's own classifier."""

from collections.abc import Sequence

from policyc.compiler.fuzz.stages.answers import (
    Answer,
    Question,
    of_entry,
)
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.decision import DecisionIR
from policyc.ir.lookup import end_decision
from policyc.ir.policy import Direction


class DecisionStage:
    """Tables, diagrams and rule entries."""

    name = "decision"

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """The entry of each end that policies decide."""
        decision = scenario.decided.decision
        return [_answer(decision, each) if each.is_decided else None for each in scenario.questions]


def _answer(decision: DecisionIR, question: Question) -> Answer:
    flow = question.flow
    is_out = question.direction is Direction.EGRESS
    subject, peer = (flow.src, flow.dst) if is_out else (flow.dst, flow.src)
    return of_entry(end_decision(decision, question.direction, subject, peer, flow))
