# SPDX-License-Identifier: Apache-2.0
"""Native code of this process, run on all flows at once, as `policyc eval` runs it."""

from array import array
from collections.abc import Sequence

from policyc.compiler.driver.eval.native_flows import (
    BY_SEMANTICS,
    evaluate_natively,
    why_not_native,
)
from policyc.compiler.frontend.flows.columns import (
    Asked,
    FlowColumns,
)
from policyc.compiler.fuzz.stages.answers import (
    Answer,
    of_verdict,
)
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.universe import End, Flow


class NativeStage:
    """Gives no answer if rules have requirements that its tables do not hold."""

    name = "native"

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """The verdicts of both ends of every flow, also where no policy applies."""
        if not scenario.flows or why_not_native(scenario.policies):
            return [None] * len(scenario.questions)
        found = evaluate_natively(scenario.policies, columns_of(scenario.flows))
        verdicts = [of_verdict(each) for each in found.verdicts]
        return [
            None if number == BY_SEMANTICS else verdicts[number]
            for pair in zip(found.egress, found.ingress, strict=True)
            for number in pair
        ]


def columns_of(flows: Sequence[Flow]) -> FlowColumns:
    """Flows as columns of numbers."""
    ends: dict[End, int] = {}
    questions: dict[Asked, int] = {}
    columns = [
        (
            ends.setdefault(flow.src, len(ends)),
            ends.setdefault(flow.dst, len(ends)),
            questions.setdefault((flow.family, flow.service, flow.source_port), len(questions)),
        )
        for flow in flows
    ]
    src, dst, asked = (array("I", column) for column in zip(*columns, strict=True))
    return FlowColumns(list(ends), list(questions), src, dst, asked, array("I", range(len(flows))))
