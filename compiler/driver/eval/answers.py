# SPDX-License-Identifier: Apache-2.0
"""Verdicts on flows whose ends may not be fully known, and their output.

Only `ir/semantics.py` decides what a policy means. This module evaluates it once for every possible
value of the unknown parts of a flow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policyc.backends.report.verdicts import (
    decider_json,
    decider_words,
    effect_json,
    effect_words,
)
from policyc.compiler.driver.eval.cases import (
    ADDRESS,
    NODE,
    NODE_LABELS,
    SOURCE_PORT,
    Unknown,
    cases_of,
)
from policyc.compiler.frontend import codes
from policyc.ir.bounds import OpaqueRule, is_understood, lower_bound, upper_bound
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.printable import printable_line
from policyc.ir.results.opaque import blamed_for, part_of, words_of
from policyc.ir.semantics import (
    DecidedByRule,
    Decider,
    DeniedByDefault,
    Effect,
    EndVerdict,
    verdict,
)
from policyc.ir.spans import Span
from policyc.ir.universe import Endpoint, Flow, Node

ALLOW, DENY, UNKNOWN = "allow", "deny", "unknown"


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """The verdict of one end: allow, deny or unknown; `decider` None if there are several.

    `effects` are those that the flow has whatever its unknown parts are.
    """

    verdict: str
    decider: Decider | None
    effects: tuple[Effect, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The answer as `--format json` shows it."""
        shown: dict[str, object] = {
            "verdict": self.verdict,
            "rule": None if self.decider is None else decider_json(self.decider),
        }
        if self.effects:
            shown["effects"] = [effect_json(effect) for effect in self.effects]
        return shown


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one flow. It depends on what is `unknown`, and on rules that are `opaque`."""

    flow: Flow
    egress: EndAnswer
    ingress: EndAnswer
    verdict: str
    unknown: tuple[Unknown, ...] = ()
    opaque: tuple[OpaqueRule, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The answer as `--format json` shows it."""
        shown: dict[str, object] = {
            "egress": self.egress.to_json(),
            "ingress": self.ingress.to_json(),
            "verdict": self.verdict,
        }
        if self.opaque:
            shown["depends_on"] = [words_of(part_of(rule)) for rule in self.opaque]
        return shown

    def findings(self, name: str, span: Span) -> list[Diagnostic]:
        """Why the verdict is unknown, if it is."""
        found = [
            codes.DEPENDS_ON_UNKNOWN.at(
                span, flow=name, what=unknown.what, name=_whose(unknown)
            ).help(_HINTS[unknown.what])
            for unknown in self.unknown
        ]
        for rule in self.opaque:
            found.append(codes.DEPENDS_ON_OPAQUE.at(span, flow=name, rule=words_of(part_of(rule))))
        return found


_HINTS = {
    ADDRESS: "give a live Pod with status.podIP, or ask about one address",
    NODE: "give a live Pod with spec.nodeName, and its Node",
    NODE_LABELS: "give the Node that it runs on with --cluster",
    SOURCE_PORT: "give it with --source-port, or as `source_port` of a flow",
}


def _whose(unknown: Unknown) -> str:
    return "the connection" if unknown.end is None else unknown.end.qualified_name


def answer(policies: PolicySet, flow: Flow, nodes: Sequence[Node] = ()) -> Answer:
    """The verdict; unknown if it depends on unknown parts of the flow (A25).

    `nodes` are those of the cluster that pods of templates may run on.
    """
    flow = between_replicas(flow)
    sets = bounds_of(policies)
    egress, out_unknown = _ends(sets, flow, Direction.EGRESS, nodes)
    ingress, in_unknown = _ends(sets, flow, Direction.INGRESS, nodes)
    outcomes = {
        _word(e) if e.action.is_deny else _word(i) for e in set(egress) for i in set(ingress)
    }
    out, into = _end_answer(egress), _end_answer(ingress)
    if len(outcomes) == 1:
        return Answer(flow, out, into, outcomes.pop())
    reasons = [*(out_unknown if out.verdict == UNKNOWN else [])]
    reasons += in_unknown if into.verdict == UNKNOWN else []
    opaque = tuple(blamed_for(policies, flow)) if len(sets) > 1 else ()
    return Answer(flow, out, into, UNKNOWN, tuple(dict.fromkeys(reasons)), opaque)


def bounds_of(policies: PolicySet) -> tuple[PolicySet, ...]:
    """The lower and the upper bound of the policies; one set if no rule is opaque."""
    if is_understood(policies):
        return (policies,)
    return lower_bound(policies), upper_bound(policies)


def _ends(
    sets: Sequence[PolicySet], flow: Flow, direction: Direction, nodes: Sequence[Node]
) -> tuple[list[EndVerdict], list[Unknown]]:
    """The possible verdicts of one end, and the unknown parts they depend on beside opaque rules."""
    found: list[EndVerdict] = []
    reasons: list[Unknown] = []
    for policies in sets:
        cases, unknown = cases_of(policies, flow, direction, nodes)
        reasons += unknown
        for case in cases:
            both = verdict(policies, case)
            found.append(both.egress if direction is Direction.EGRESS else both.ingress)
    return found, reasons


def between_replicas(flow: Flow) -> Flow:
    """A flow from a template to itself runs between two replicas: the same pod would be trivial."""
    if isinstance(flow.dst, Endpoint) and flow.dst.is_template and flow.src == flow.dst:
        return replace(flow, dst=replace(flow.dst, name=f"{flow.dst.name} (another replica)"))
    return flow


def _word(end: EndVerdict) -> str:
    return DENY if end.action.is_deny else ALLOW


def _end_answer(cases: list[EndVerdict]) -> EndAnswer:
    words = {_word(case) for case in cases}
    first = cases[0].decider
    same = all(named(case.decider) == named(first) for case in cases)
    effects = tuple(
        effect for effect in cases[0].effects if all(effect in case.effects for case in cases)
    )
    return EndAnswer(words.pop() if len(words) == 1 else UNKNOWN, first if same else None, effects)


def named(decider: Decider) -> object:
    """The deciding policy's name: at the two bounds one policy has two forms."""
    match decider:
        case DecidedByRule(tier, policy, direction, index):
            return tier, policy.kind, policy.qualified_name, direction, index
        case DeniedByDefault(tier, direction, policies):
            return tier, direction, tuple((p.kind, p.qualified_name) for p in policies)
        case _:
            return decider


def to_text(shown: Answer) -> str:
    """The answer for people: the verdict, then the decider at each end."""
    lines = [printable_line(f"{shown.flow}: {shown.verdict}")]
    for name, end in (("egress", shown.egress), ("ingress", shown.ingress)):
        lines += end_lines(name, end)
    return "\n".join(lines)


def end_lines(name: str, end: EndAnswer) -> list[str]:
    """The verdict of one end, in lines below that of the flow."""
    said = f"  {name:<7}  {end.verdict:<7}  {_by_words(end.decider)}"
    effects = (f"  {'':<7}  {effect_words(effect)}" for effect in end.effects)
    return [printable_line(line) for line in (said, *effects)]


def _by_words(decider: Decider | None) -> str:
    return (
        "by different rules, depending on unknown parts"
        if decider is None
        else decider_words(decider)
    )
