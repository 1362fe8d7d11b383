# SPDX-License-Identifier: Apache-2.0
"""Replay: observed flows asked of policies, or of a change; each shown flow is evaluated twice.

The native evaluator or the semantics decide every flow. The semantics decide each flow that is shown
again, with the rule; the two must agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.driver.eval.answers import DENY, UNKNOWN, Answer, answer
from policyc.compiler.driver.replay.states import (
    ALLOWED,
    DENIED,
    UNDECIDED,
    Column,
    FlowStates,
    states_of,
)
from policyc.compiler.frontend.codes import NO_OBSERVED_FLOW
from policyc.compiler.frontend.observed.columns import DistinctFlows
from policyc.compiler.frontend.observed.reading import Observed
from policyc.ir.counts import cluster_words
from policyc.ir.errors import InputError, InternalError
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.replay import (
    EndDecided,
    LeftOut,
    ReplayedFlow,
    ReplayKind,
    ReplayResult,
    Tally,
)
from policyc.ir.semantics import AllowedByDefault
from policyc.ir.spans import Span
from policyc.ir.universe import Universe

_STATES = {"allowed": ALLOWED, "denied": DENIED}
_KINDS = (ReplayKind.CLOSED, ReplayKind.OPENED, ReplayKind.DENIED, ReplayKind.UNDECIDED)
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sides:
    """The policies that are asked, with their names; `old` None: no comparison."""

    new: Read
    after: str
    old: Read | None = None
    before: str = ""


def replay(observed: Observed, sides: Sides, limit: int | None) -> ReplayResult:
    """The answer; InputError if no flow could be placed."""
    distinct = distinct_of(observed)
    asked = _Asked(observed, distinct, sides)
    kinds = {kind: asked.of_kind(kind) for kind in _KINDS}
    every = np.concatenate(list(kinds.values()))
    labels = np.repeat(np.arange(len(_KINDS)), [len(each) for each in kinds.values()])
    order = np.lexsort((every, -distinct.counts[every], labels))
    shown = order if limit is None else order[:limit]
    flows = tuple(asked.flow(int(every[at]), _KINDS[labels[at]]) for at in shown)
    return ReplayResult(
        observed.shown,
        observed.form,
        sides.before,
        sides.after,
        UniverseUsed("cluster", cluster_words(asked.universe)),
        asked.method(len(flows)),
        observed.n_records,
        tuple(asked.tallies(kinds)),
        flows,
        len(every) - len(flows),
        asked.n_findings(kinds),
        tuple(LeftOut(why, n) for why, n in sorted(observed.skipped.items())),
        unplaced_of(observed),
        observed.unknown,
    )


def distinct_of(observed: Observed) -> DistinctFlows:
    """The different flows; InputError if there is none."""
    distinct = observed.columns.distinct()
    if not len(distinct.flows):
        reasons = sorted({*observed.columns.unplaced, *observed.skipped})
        why = f": {'; '.join(reasons)}" if reasons else ""
        where = Span(observed.shown, 0, 0)
        raise InputError([NO_OBSERVED_FLOW.at(where, name=observed.shown, why=why)])
    return distinct


def unplaced_of(observed: Observed) -> tuple[LeftOut, ...]:
    """The records whose ends are not known, by reason."""
    columns = observed.columns
    return tuple(
        LeftOut(why, count, columns.unplaced_at[why])
        for why, count in sorted(columns.unplaced.items())
    )


class _Asked:
    """The flows with the states that the policies give them."""

    def __init__(self, observed: Observed, distinct: DistinctFlows, sides: Sides) -> None:
        self._distinct, self._sides, self._file = distinct, sides, observed.shown
        self.universe = _universe(sides.new)
        self._new = self._states(sides.new)
        self._old = None if sides.old is None else self._states(sides.old)

    def _states(self, side: Read) -> FlowStates:
        nodes = _universe(side).nodes
        return states_of(side.policies.policies, self._distinct.flows, nodes)

    def of_kind(self, kind: ReplayKind) -> Numbers:
        """The flows of a kind, by number."""
        return np.flatnonzero(self._is(kind))

    def _is(self, kind: ReplayKind) -> Flags:
        new, old = self._new.states, None if self._old is None else self._old.states
        is_open: Flags = new == UNDECIDED
        if kind is ReplayKind.UNDECIDED:
            return is_open if old is None else is_open | (old == UNDECIDED)
        if old is None:
            denied: Flags = (new == DENIED) & (kind is ReplayKind.DENIED)
            return denied
        return _changed(old, new, kind)

    def tallies(self, kinds: dict[ReplayKind, Numbers]) -> Iterator[tuple[str, Tally]]:
        """The totals, those of each verdict, and those of a change."""
        counts = self._distinct.counts
        yield "total", Tally(len(counts), int(counts.sum()))
        for name, state in _STATES.items():
            at = self._new.states == state
            yield name, Tally(int(at.sum()), int(counts[at].sum()))
        for kind in (ReplayKind.UNDECIDED, ReplayKind.CLOSED, ReplayKind.OPENED):
            yield kind.value, Tally(len(kinds[kind]), int(counts[kinds[kind]].sum()))

    def n_findings(self, kinds: dict[ReplayKind, Numbers]) -> int:
        """The flows that are denied and were not when observed, or that a change affects."""
        denied = kinds[ReplayKind.DENIED]
        now = int((self._distinct.counts[denied] > self._distinct.denied[denied]).sum())
        return now + len(kinds[ReplayKind.CLOSED]) + len(kinds[ReplayKind.OPENED])

    def method(self, n_shown: int) -> str:
        """How the flows were evaluated, in words."""
        n, native = len(self._distinct.flows), self._new.n_native
        by = f"{native} by compiled code, {n - native} by the reference semantics"
        return f"{by}; {n_shown} shown flows evaluated by the reference semantics"

    def flow(self, at: int, kind: ReplayKind) -> ReplayedFlow:
        """One flow with the rules that decide it."""
        sides = [("", self._sides.new, self._new)]
        if self._sides.old is not None and self._old is not None:
            sides = [("before", self._sides.old, self._old), ("after", self._sides.new, self._new)]
        flow = self._distinct.flows.flow(at)
        decided: list[EndDecided] = []
        depends: list[str] = []
        for label, side, states in sides:
            found = answer(side.policies.policies, flow, _universe(side).nodes)
            _check(found, int(states.states[at]))
            decided += _decided(label, found)
            depends += _depends(found)
        span = Span(self._file, self._distinct.flows.lines[at], 1)
        count, denied = int(self._distinct.counts[at]), int(self._distinct.denied[at])
        return ReplayedFlow(kind, flow, count, denied, span, tuple(decided), tuple(depends))


def _universe(side: Read) -> Universe:
    return side.cluster.universe if side.cluster is not None else Universe()


def _changed(old: Column, new: Column, kind: ReplayKind) -> Flags:
    states = {ReplayKind.CLOSED: (ALLOWED, DENIED), ReplayKind.OPENED: (DENIED, ALLOWED)}
    before, after = states.get(kind, (-1, -1))
    found: Flags = (old == before) & (new == after)
    return found


def _check(found: Answer, state: int) -> None:
    """The semantics give the state that the batch gave."""
    expected = {DENY: DENIED, UNKNOWN: UNDECIDED}.get(found.verdict, ALLOWED)
    if expected != state:
        raise InternalError(f"compiled code and semantics differ on {found.flow}")


def _decided(label: str, found: Answer) -> Iterator[EndDecided]:
    """The ends that deny; of an allowed flow both, but for ends without a policy."""
    ends = (("egress", found.egress), ("ingress", found.ingress))
    for name, end in ends:
        is_denied = end.verdict == DENY
        if end.decider is None or (found.verdict == DENY and not is_denied):
            continue
        if not is_denied and isinstance(end.decider, AllowedByDefault):
            continue
        yield EndDecided(label, name, is_denied, end.decider)


def _depends(found: Answer) -> Iterator[str]:
    """Why the verdict is unknown."""
    for finding in found.findings("the flow", Span("", 0, 0)):
        yield finding.message.removeprefix("the flow: ")


def exit_code_of(result: ReplayResult) -> int:
    """1 if a flow is denied now or affected by the change; else 3 if one is undecided; else 0."""
    if result.n_findings:
        return 1
    return 3 if result.tally("undecided").flows else 0
