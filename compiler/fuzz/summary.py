# SPDX-License-Identifier: Apache-2.0
"""The result of a search or a replay, as text and as JSON (docs/schemas/fuzz-v1.schema.json)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policyc.compiler.fuzz.comparison import Disagreement, Tally
from policyc.compiler.fuzz.stages.scenario import record_of
from policyc.compiler.fuzz.stages.table import REFERENCE

SCHEMA = "policyc.dev/fuzz/v1"


@dataclass(frozen=True)
class Finding:
    """A disagreement and its file: written by the search, or replayed."""

    disagreement: Disagreement
    file: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        question = self.disagreement.question
        return {
            "stage": self.disagreement.stage,
            "flow": None if question is None else record_of(question.flow),
            "direction": None if question is None else question.direction.value,
            "reference": self.disagreement.reference,
            "answer": self.disagreement.answer,
            "file": self.file,
        }


@dataclass(frozen=True)
class Summary:
    """Everything that a run reports. `seed` and `refused` None: cases were replayed.

    `left_out` are stages that the user did not name and that this machine lacks, with the reason.
    """

    seed: int | None
    examples: int
    refused: int | None
    tally: Tally
    stages: Sequence[str]
    left_out: Mapping[str, str]
    findings: Sequence[Finding] = ()
    is_interrupted: bool = False

    @property
    def result(self) -> str:
        """`disagreement`, `interrupted` or `agreement`."""
        if self.findings:
            return "disagreement"
        return "interrupted" if self.is_interrupted else "agreement"

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: some stage does not; 130: interrupted before either."""
        return {"agreement": 0, "disagreement": 1, "interrupted": 130}[self.result]

    def to_json(self) -> dict[str, Any]:
        """As JSON values; nothing in it depends on the clock."""
        return {
            "schema": SCHEMA,
            "result": self.result,
            "seed": self.seed,
            "examples": self.examples,
            "refused": self.refused,
            "flows": self.tally.flows,
            "verdicts": dict(sorted(self.tally.verdicts.items())),
            "stages": [{"name": name, "answers": self.tally.answers[name]} for name in self.stages],
            "left_out": [{"name": name, "why": why} for name, why in self.left_out.items()],
            "disagreements": [finding.to_json() for finding in self.findings],
        }

    def lines(self) -> Iterator[str]:
        """As text."""
        for finding in self.findings:
            yield f"{finding.file}: {finding.disagreement.describe()}"
        if self.refused is None:
            yield f"replayed {self.examples} cases, {self.tally.flows} flows"
        else:
            yield (
                f"seed {self.seed}: {self.examples} examples ({self.refused} refused), "
                f"{self.tally.flows} flows"
            )
        for name in self.stages:
            yield f"  {name:14}{self.tally.answers[name]:>9} answers"
        for name, why in self.left_out.items():
            yield f"  {name:14}left out: {why}"
        yield {
            "agreement": f"every stage agrees with {REFERENCE}",
            "disagreement": f"not every stage agrees with {REFERENCE}",
            "interrupted": f"interrupted; until then every stage agreed with {REFERENCE}",
        }[self.result]
