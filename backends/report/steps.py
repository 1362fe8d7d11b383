# SPDX-License-Identifier: Apache-2.0
"""A witness as the steps that lead to its verdict, each with the place in the source that causes it."""

from policyc.backends.report.flows import flow_words
from policyc.backends.report.verdicts import PAST, decider_words, deciding_ends
from policyc.ir.results.common import Step, Witness
from policyc.ir.results.places import places_of
from policyc.ir.semantics import EndVerdict


def steps_of(witness: Witness) -> tuple[Step, ...]:
    """Its own steps; if it has none, the flow, then the verdict of each end under each label."""
    if witness.steps:
        return witness.steps
    steps = [Step(None, flow_words(witness.flow))]
    for label, verdict in witness.verdicts:
        head = f"{label}: " if label else ""
        for name, end in deciding_ends(verdict):
            steps += _end_steps(f"{head}{name}", end)
        steps.append(Step(None, f"{head}the connection is {PAST[verdict.action]}"))
    return tuple(steps)


def _end_steps(head: str, end: EndVerdict) -> list[Step]:
    """One step; several policies that isolate are a step each."""
    text = f"{head} is {PAST[end.action]}: {decider_words(end.decider)}"
    places = places_of(end.decider)
    if not places:
        return [Step(None, text)]
    first, *others = places
    return [Step(first, text)] + [Step(place, f"{head}: {place.words}") for place in others]
