# SPDX-License-Identifier: Apache-2.0
"""Whether policies allow each of many flows: by native code where it can answer, else the semantics."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policyc.compiler.driver.eval.answers import ALLOW, DENY, answer, bounds_of
from policyc.compiler.driver.eval.native_flows import (
    is_worth_compiling,
    missing_for_native,
    why_not_native,
)
from policyc.compiler.frontend.flows.columns import FlowColumns
from policyc.ir.diagnostics import Report
from policyc.ir.passes.without_effects import WithoutEffects
from policyc.ir.policy import PolicySet
from policyc.ir.universe import Node

ALLOWED, DENIED, UNDECIDED = 0, 1, 2
_UNANSWERED = 3
_STATE_OF = {ALLOW: ALLOWED, DENY: DENIED}
Column = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FlowStates:
    """ALLOWED, DENIED or UNDECIDED for each flow; `n_native` were decided by native code."""

    states: Column
    n_native: int


def states_of(policies: PolicySet, flows: FlowColumns, nodes: Sequence[Node]) -> FlowStates:
    """The state of each flow; opaque rules are read in both ways."""
    plain = WithoutEffects().run(policies, Report())
    sets = bounds_of(plain)
    columns = [_natively(each, flows) for each in sets]
    states = columns[0].copy()
    for other in columns[1:]:
        states[states != other] = _UNANSWERED
    left = np.flatnonzero(states == _UNANSWERED)
    for at in left.tolist():
        found = answer(policies, flows.flow(at), nodes).verdict
        states[at] = _STATE_OF.get(found, UNDECIDED)
    return FlowStates(states, len(flows) - len(left))


def _natively(policies: PolicySet, flows: FlowColumns) -> Column:
    """The states by native code, _UNANSWERED where it has no answer."""
    unanswered = np.full(len(flows), _UNANSWERED, dtype=np.uint8)
    if not is_worth_compiling(policies, len(flows)) or missing_for_native():
        return unanswered
    if why_not_native(policies):
        return unanswered
    from policyc.compiler.driver.eval.native_ends import FlowEnds
    from policyc.compiler.driver.eval.native_places import WordsOfFlows

    found = WordsOfFlows(FlowEnds(policies, flows.ends), flows)
    denied = (found.egress & found.ingress & 1) ^ 1  # the lowest bit of a word: allowed
    states: Column = np.where(found.is_answered, denied, _UNANSWERED).astype(np.uint8)
    return states
