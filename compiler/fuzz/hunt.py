# SPDX-License-Identifier: Apache-2.0
"""The search: rounds of examples until the time or the number is reached, or a disagreement is found.

A round is one run of hypothesis with a seed of its own, so the same seed tries the same examples in the
same order. Hypothesis shrinks a failure, then `reduction` does, with its flow kept.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, Phase, Verbosity, errors, given, seed, settings

from policyc.compiler.frontend import ReadOptions
from policyc.compiler.fuzz.comparison import Disagreement, Tally, compare
from policyc.compiler.fuzz.flows import flows_of
from policyc.compiler.fuzz.reduction import reduced
from policyc.compiler.fuzz.stages.scenario import (
    FlowRecord,
    Scenario,
    read_draw,
    with_records,
)
from policyc.compiler.fuzz.stages.stage import Stage
from policyc.compiler.fuzz.strategies.draw import Draw
from policyc.compiler.fuzz.strategies.words import Strategy
from policyc.ir.errors import InputError

ROUND = 50
"""The number of examples in a round."""
FLOWS = 60
"""The number of flows of an example."""
SHRINKING = 60.0
"""Seconds for each of the two ways to reduce an example."""


@dataclass(frozen=True)
class Limits:
    """The limits of the search, whichever comes first; None: no such limit."""

    seconds: float | None
    examples: int | None
    shrinking: float = SHRINKING


@dataclass
class Outcome:
    """The result of a search. `refused`: examples that the front end or the datapath refuses."""

    examples: int = 0
    refused: int = 0
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    is_interrupted: bool = False
    found: Disagreement | None = None


class _FoundError(Exception):
    """Raised for hypothesis, which shrinks failures."""


@dataclass
class Hunt:
    """One search. `is_stopped` is called often; `show` gets a line about the progress."""

    stages: Sequence[Stage]
    options: ReadOptions
    strategy: Strategy
    seed: int
    limits: Limits
    is_stopped: Callable[[], bool] = lambda: False
    show: Callable[[str], None] = lambda _: None
    outcome: Outcome = field(default_factory=Outcome)
    _suspects: list[FlowRecord] = field(default_factory=list)
    _started: float = 0.0
    _until: float = float("inf")

    def run(self) -> Outcome:
        """Search until a disagreement is found or a limit is reached."""
        self._started = time.monotonic()
        for number, count in enumerate(self._rounds()):
            self._round(number, count)
            if self.outcome.found is not None or self._is_over():
                break
        found = self.outcome.found
        if found is not None:
            self.outcome.found = self._made_small(found)
        self.outcome.seconds = time.monotonic() - self._started
        self.outcome.is_interrupted = self.is_stopped()
        return self.outcome

    def _rounds(self) -> Iterator[int]:
        left = self.limits.examples
        while left is None or left > 0:
            yield ROUND if left is None else min(ROUND, left)
            left = None if left is None else left - ROUND

    def _is_over(self) -> bool:
        """Stop trying examples; once something is found, stop shrinking."""
        now = time.monotonic()
        if self.is_stopped() or now > self._until:
            return True
        limit = self.limits.seconds
        return self.outcome.found is None and limit is not None and now - self._started >= limit

    def _round(self, number: int, count: int) -> None:
        @seed(self.seed * 1_000_003 + number)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
        )
        @given(self.strategy)
        def one(draw: Draw) -> None:
            self._try(draw)

        try:
            one()
        except (_FoundError, errors.Flaky):
            if self.outcome.found is None:
                raise

    def _try(self, draw: Draw) -> None:
        if self._is_over():
            return
        is_first = self.outcome.found is None
        self.outcome.examples += is_first
        try:
            scenario = read_draw(draw, self.options)
        except InputError:
            self.outcome.refused += is_first
            return
        scenario = self._with_flows(scenario)
        found = compare(scenario, self._asked(), self.outcome.tally if is_first else None)
        self._report()
        if found is not None:
            self._note(found)
            raise _FoundError(found.describe())

    def _with_flows(self, scenario: Scenario) -> Scenario:
        """Flows that showed a disagreement come first, so that they stay when the rest changes."""
        flows = dict.fromkeys(with_records(scenario, self._suspects[-3:]).flows)
        return replace(
            scenario, flows=(*flows, *(f for f in flows_of(scenario, FLOWS) if f not in flows))
        )

    def _asked(self) -> Sequence[Stage]:
        """All stages; once something is found, the one at fault."""
        found = self.outcome.found
        return [s for s in self.stages if found is None or s.name == found.stage]

    def _note(self, found: Disagreement) -> None:
        if self.outcome.found is None:
            self._until = time.monotonic() + self.limits.shrinking
            self.show("found a difference, minimizing it")
        self.outcome.found = found
        self._suspects += [record for record in found.records if record not in self._suspects]

    def _report(self) -> None:
        done, spent = self.outcome, time.monotonic() - self._started
        self.show(f"{done.examples} examples, {done.tally.flows} flows, {spent:.0f} s")

    def _made_small(self, found: Disagreement) -> Disagreement:
        """The smallest example with this stage at fault about the same flow."""
        self._until = time.monotonic() + self.limits.shrinking
        stages = self._asked()
        smallest = found

        def fails(draw: Draw) -> bool:
            nonlocal smallest
            if self.is_stopped() or time.monotonic() > self._until:
                return False
            again = failure_of(draw, found.records, stages, self.options)
            if again is None or (again.question is None) != (found.question is None):
                return False
            smallest = again
            return True

        reduced(found.scenario.draw, fails)
        return smallest


def failure_of(
    draw: Draw, records: Sequence[FlowRecord], stages: Sequence[Stage], options: ReadOptions
) -> Disagreement | None:
    """The failure of an example on these flows, or on its own if none are given."""
    try:
        scenario = read_draw(draw, options)
    except InputError:
        return None
    scenario = (
        with_records(scenario, records)
        if records
        else replace(scenario, flows=flows_of(scenario, FLOWS))
    )
    return compare(scenario, stages)
