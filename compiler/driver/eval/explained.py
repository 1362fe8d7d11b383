# SPDX-License-Identifier: Apache-2.0
"""The walk of a flow whose ends may not be fully known: one walk for each possible case."""

from collections.abc import Sequence
from dataclasses import replace

from policyc.compiler.driver.eval.answers import (
    between_replicas,
    bounds_of,
    named,
)
from policyc.compiler.driver.eval.cases import (
    ADDRESS,
    NODE,
    SOURCE_PORT,
    Unknown,
    cases_of,
)
from policyc.ir.policy import Action, Direction, PolicySet
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.explain import Choice, EndWalk, ExplainResult
from policyc.ir.results.opaque import blamed_for, clause_of, part_of
from policyc.ir.semantics import verdict
from policyc.ir.universe import Endpoint, Flow, Node, end_name
from policyc.verifier.explain.explanation import explain_end

_UNKNOWN = Choice(
    "A25",
    "an unknown part of a flow (a pod's address or node, the source port) can have any value",
)


def explained(
    policies: PolicySet, flow: Flow, nodes: Sequence[Node], universe: UniverseUsed
) -> ExplainResult:
    """Both ends walked; several times if the verdict depends on unknown parts (A25)."""
    flow = between_replicas(flow)
    egress, out_unknown = _walks(policies, flow, Direction.EGRESS, nodes)
    ingress, in_unknown = _walks(policies, flow, Direction.INGRESS, nodes)
    outcomes = {
        e.verdict.action if e.verdict.action.is_deny else i.verdict.action
        for e in egress
        for i in ingress
    }
    unknown = tuple(dict.fromkeys((*out_unknown, *in_unknown)))
    return ExplainResult(flow, _word(outcomes), egress, ingress, universe, unknown)


def _word(outcomes: set[Action]) -> str:
    """One word if the outcome is the same; a deny that is sometimes a reject is a deny."""
    if len(outcomes) == 1:
        return next(iter(outcomes)).value
    return Action.DENY.value if all(each.is_deny for each in outcomes) else "unknown"


def _walks(
    policies: PolicySet, flow: Flow, direction: Direction, nodes: Sequence[Node]
) -> tuple[tuple[EndWalk, ...], list[str]]:
    """A walk for each possible decider, and the unknown parts that it depends on."""
    found: dict[object, EndWalk] = {}
    depends: dict[str, None] = {}
    for bound, reading in zip(bounds_of(policies), _READINGS, strict=False):
        cases, unknown = cases_of(bound, flow, direction, nodes)
        depends |= dict.fromkeys(map(_what, unknown))
        for case in cases:
            blamed = [clause_of(part_of(rule)) for rule in blamed_for(policies, case, direction)]
            depends |= dict.fromkeys(f"whether {each} matches it" for each in blamed)
            both = verdict(bound, case)
            end = both.egress if direction is Direction.EGRESS else both.ingress
            key = (end.action, named(end.decider))
            if key not in found:
                walk = _noted(explain_end(bound, direction, case), case, flow, unknown)
                assumed = f"{' and '.join(blamed)} is read {reading}" if blamed else ""
                found[key] = _with_reading(walk, assumed)
    return tuple(found.values()), list(depends) if len(found) > 1 else []


_READINGS = ("as strictly as possible", "as permissively as possible")
"""The reading of opaque rules at the lower bound, and at the upper one."""


def _with_reading(walk: EndWalk, assumed: str) -> EndWalk:
    """The walk with its assumption about opaque rules."""
    if not assumed:
        return walk
    return replace(walk, assumed=f"{walk.assumed}, {assumed}" if walk.assumed else assumed)


def _noted(walk: EndWalk, case: Flow, flow: Flow, unknown: Sequence[Unknown]) -> EndWalk:
    """The walk with its assumption about the unknown parts."""
    if not unknown or case == flow:
        return walk
    assumed = ", ".join(f"{_what(each)} is {_value(each, case, flow)}" for each in unknown)
    return replace(walk, assumed=assumed, choices=(*walk.choices, _UNKNOWN))


def _what(unknown: Unknown) -> str:
    return unknown.what if unknown.end is None else f"{unknown.what} of {end_name(unknown.end)}"


def _value(unknown: Unknown, case: Flow, flow: Flow) -> str:
    """The value of the unknown part in this case."""
    if unknown.what == SOURCE_PORT:
        return str(case.source_port)
    end = case.src if unknown.end == flow.src else case.dst
    if not isinstance(end, Endpoint):
        return end_name(end)
    if unknown.what == ADDRESS:
        return str(end.address(case.family))
    if unknown.what == NODE:
        return end.node if end.node and not end.node.startswith("<") else "not among the given ones"
    labels = end.its_node.labels if end.its_node is not None else {}
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"
