# SPDX-License-Identifier: Apache-2.0
"""Many flows at once for `policyc eval`: native code where it can answer, else the semantics.

The output equals that of `driver/eval/answers.py`, byte by byte. It is assembled from parts that are
made once for each verdict, not for every flow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.eval.answers import (
    ALLOW,
    DENY,
    Answer,
    EndAnswer,
    answer,
    end_lines,
    to_text,
)
from policyc.compiler.driver.eval.native_flows import (
    BY_SEMANTICS,
    NativeAnswers,
    evaluate_natively,
    is_worth_compiling,
    missing_for_native,
    why_not_native,
)
from policyc.compiler.frontend.flows.columns import (
    FlowColumns,
    columns_of_text,
)
from policyc.compiler.frontend.flows.reading import UniverseIndex
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.ir.bounds import opaque_rules
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.policy import PolicySet
from policyc.ir.printable import json_text, printable_line
from policyc.ir.semantics import EndVerdict
from policyc.ir.spans import Span
from policyc.ir.universe import Node, end_name

AUTO, SEMANTICS, NATIVE = "auto", "semantics", "native"
ENGINES = (AUTO, SEMANTICS, NATIVE)
_CHUNK = 1 << 15


@dataclass(frozen=True, slots=True)
class FlowFile:
    """The text of a file of flows, and its name in messages."""

    text: str
    shown: str


@collector_relaxed()
def batch_of(
    policies: PolicySet, index: UniverseIndex, file: FlowFile, engine: str, report: Report
) -> "Batch | None":
    """The flows, evaluated; None if they must be read and answered one by one.

    If the user asked for `engine` NATIVE, the number of flows left to the semantics is printed on
    standard error.
    """
    if engine == SEMANTICS:
        return None
    if engine == AUTO:
        n_flows = file.text.count("\n")
        if not is_worth_compiling(policies, n_flows) or missing_for_native():
            return None
    opaque = next(opaque_rules(policies), None)
    reason = why_not_native(policies)
    if opaque is not None:
        reason = f"policyc does not fully support {opaque.title}"
    if reason:
        _say(engine, f"the reference semantics evaluates every flow: {reason}")
        return None
    flows = columns_of_text(file.text, file.shown, index, report)
    if flows is None:
        return None
    batch = Batch(policies, index.nodes, flows, evaluate_natively(policies, flows), file.shown)
    if batch.n_by_semantics:
        said = f"{batch.n_by_semantics} of {len(flows)} flows are evaluated"
        _say(engine, f"{said} by the reference semantics, because parts of their ends are unknown")
    return batch


def _say(engine: str, words: str) -> None:
    if engine == NATIVE:
        say(words)


@dataclass
class Batch:
    """Flows, and native code's verdicts on them. `shown` is the name of their file."""

    policies: PolicySet
    nodes: tuple[Node, ...]
    flows: FlowColumns
    native: NativeAnswers
    shown: str
    _answers: dict[tuple[int, int, int], Answer] = field(default_factory=dict)

    def print(self, is_json: bool) -> list[Diagnostic]:
        """Print every answer in order; returns the findings about unknown ones."""
        lines = self._json_lines() if is_json else self._texts()
        chunk: list[str] = []
        for line in lines:
            chunk.append(line)
            if len(chunk) == _CHUNK:
                print("\n".join(chunk))
                chunk.clear()
        if chunk:
            print("\n".join(chunk))
        return [*self._findings()]

    @property
    def n_by_semantics(self) -> int:
        """The number of flows left to the semantics."""
        return self.native.egress.count(BY_SEMANTICS)

    def _json_lines(self) -> Iterator[str]:
        """As `Answer.to_json` writes it, from the parts that many answers share."""
        ends = [json_text(end.to_json()) for end in self._ends()]
        said = list(map(_word, self.native.verdicts))
        for at, (out, into) in enumerate(zip(self.native.egress, self.native.ingress, strict=True)):
            if out == BY_SEMANTICS:
                yield json_text(self._by_semantics(at).to_json())
            else:
                whole = said[into] if said[out] == ALLOW else said[out]
                yield f'{{"egress": {ends[out]}, "ingress": {ends[into]}, "verdict": "{whole}"}}'

    def _texts(self) -> Iterator[str]:
        """As `to_text` writes it: the head names the flow, flows of one decision share the rest."""
        flows, native = self.flows, self.native
        ends = list(self._ends())
        words = list(map(_word, native.verdicts))
        out_lines = ["\n".join(end_lines("egress", end)) for end in ends]
        in_lines = ["\n".join(end_lines("ingress", end)) for end in ends]
        names = [end_name(end) for end in flows.ends]
        asked = [f"{service} (IPv{family})" for family, service, _ in flows.questions]
        columns = zip(flows.src, flows.dst, flows.asked, native.egress, native.ingress, strict=True)
        for at, (src, dst, question, out, into) in enumerate(columns):
            if out == BY_SEMANTICS:
                yield to_text(self._by_semantics(at))
                continue
            whole = words[into] if words[out] == ALLOW else words[out]
            head = printable_line(f"{names[src]} -> {names[dst]} {asked[question]}: {whole}")
            yield f"{head}\n{out_lines[out]}\n{in_lines[into]}"

    def _ends(self) -> Iterator[EndAnswer]:
        return (EndAnswer(_word(end), end.decider) for end in self.native.verdicts)

    def _by_semantics(self, at: int) -> Answer:
        """The answer of the semantics, which evaluate a repeated flow once."""
        key = (self.flows.src[at], self.flows.dst[at], self.flows.asked[at])
        if key not in self._answers:
            self._answers[key] = answer(self.policies, self.flows.flow(at), self.nodes)
        return self._answers[key]

    def _findings(self) -> Iterator[Diagnostic]:
        for at, number in enumerate(self.native.egress):
            if number == BY_SEMANTICS:
                line = self.flows.lines[at]
                yield from self._by_semantics(at).findings(
                    f"line {line}", Span(self.shown, line, 1)
                )


def _word(end: EndVerdict) -> str:
    return DENY if end.action.is_deny else ALLOW
