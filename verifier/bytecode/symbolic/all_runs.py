# SPDX-License-Identifier: Apache-2.0
"""Every run of a program at once: each place is executed once, for all paths that reach it.

Soundness: both branches of a condition are taken, unless the guard excludes one. A state is merged or
kept, never dropped. An operation without a model ends the whole with an error.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.helpers import Helper
from policyc.verifier.bytecode.instructions import FRAME_POINTER, Exit
from policyc.verifier.bytecode.linked import CallFunction, CallHelper
from policyc.verifier.bytecode.machine import (
    Branch,
    Environment,
    Exited,
    TailCall,
    step,
)
from policyc.verifier.bytecode.memory import Cells
from policyc.verifier.bytecode.pointers import Pointer
from policyc.verifier.bytecode.program import Function, Program
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.symbolic.guards import Guard, joined
from policyc.verifier.bytecode.symbolic.liveness import live_places
from policyc.verifier.bytecode.symbolic.merging import forget_pointers, merged
from policyc.verifier.bytecode.symbolic.order import Key, Order, order_of
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Truth

MOST_STEPS = 2_000_000
"""The step limit of a program; a terminating loop of ours needs far fewer."""


@dataclass(frozen=True)
class Ended:
    """The end of a run: its guard, its r0 or the program of its tail call, and its memory."""

    guard: Guard
    state: State
    result: Bits | TailCall


@dataclass
class Run:
    """A state at a place. `rounds` counts, for each function called, the iterations of its loops."""

    guard: Guard
    state: State
    block: int
    rounds: Key
    above: tuple[tuple[Key, int, int, Key], ...] = ()
    """For each caller: the key of its place and the slot there, its block and its rounds."""
    entered: tuple[Guard, ...] = ()
    """For each call: the guard under which it was made."""
    is_alone: bool = False
    """No other run of the same call is at the place: all of them are merged in this one."""


@dataclass
class Runner:
    """`decide(guard, truth)`: True, False, or None if the solver does not know or was not called."""

    program: Program
    environment: Environment
    domain: TermDomain
    decide: Callable[[Guard, Truth], bool | None] = lambda guard, truth: guard.says(truth)
    guard: Guard = field(init=False)
    """The step that is being executed."""
    at: tuple[str, int] = ("", 0)
    n_steps: int = 0
    _orders: dict[str, Order] = field(default_factory=dict)
    _returning: dict[str, bool] = field(default_factory=dict)
    _live: dict[str, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    _queue: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    _waiting: dict[tuple[int, ...], list[Run]] = field(default_factory=dict)
    _ended: list[Ended] = field(default_factory=list)

    def run(self, first: State) -> list[Ended]:
        """All ends of the program from a state at its entry."""
        self._wait(Run(Guard(self.domain), first, 0, ()))
        while self._queue:
            key, _ = heapq.heappop(self._queue)
            merged_runs = _merged_runs(self._waiting.pop(key))
            for run in merged_runs:
                run.is_alone = len(merged_runs) == 1
                self._run_block(run)
        return self._ended

    def order(self, name: str) -> Order:
        """The order of a function's blocks, cached."""
        if name not in self._orders:
            self._orders[name] = order_of(self.program.functions[name])
        return self._orders[name]

    def live(self, name: str) -> Mapping[int, frozenset[int]]:
        """The `live_places` of a function, cached."""
        if name not in self._live:
            self._live[name] = live_places(self.program.functions[name])
        return self._live[name]

    def _wait(self, run: Run) -> None:
        """Wait for all runs that reach the same place; forget what no instruction reads any more."""
        state = run.state
        live = self.live(state.function)[state.at]
        for register in range(FRAME_POINTER):
            if register not in live:
                state.registers[register] = None
        stack = state.memory[state.frame]
        if isinstance(stack, Cells):
            forget_pointers(stack, live)
        key = self._key(run)
        if key not in self._waiting:
            self._waiting[key] = []
            heapq.heappush(self._queue, (key, len(self._queue)))
        self._waiting[key].append(run)

    def _key(self, run: Run) -> tuple[int, ...]:
        """Callers' places first. A number after each marks its end, and is above any position."""
        found: list[int] = []
        for place, slot, _, _ in run.above:
            found += [*place, _BEHIND, slot]
        own = self.order(run.state.function).key(run.block, run.rounds)
        return (*found, *own, _BEHIND, run.state.at)

    def _run_block(self, run: Run) -> None:
        """From its place to where paths split or join, or a function is entered or left."""
        state = run.state
        function = self.program.functions[state.function]
        last = function.blocks[run.block].last
        while True:
            depth, at = len(state.callers), state.at
            outcome = self._step(run, function)
            if isinstance(outcome, Exited):
                self._ended.append(Ended(run.guard, state, outcome.result))
                return
            if isinstance(outcome, TailCall):
                self._ended.append(Ended(run.guard, state.copy(), outcome))
            if isinstance(outcome, Branch):
                self._part(run, outcome)
                return
            if len(state.callers) > depth:
                self._enter(run, at)
                return
            if len(state.callers) < depth:
                self._leave(run, function)
                return
            if at == last or state.at in function.blocks:
                self._go_on(run, state, run.guard)
                return

    def _step(self, run: Run, function: Function) -> Branch | TailCall | Exited | None:
        self.n_steps += 1
        if self.n_steps > MOST_STEPS:
            raise UnmodelledError(
                f"{self.program.entry} is not at its end after {MOST_STEPS} steps"
            )
        state = run.state
        self.guard, self.at = run.guard, (state.function, state.at)
        instruction = function.code[state.at]
        try:
            return step(state, instruction, self.environment)
        except FaultError:
            _, state.at = self.at
            if not self._settle(run):
                raise
            return step(state, instruction, self.environment)

    def _settle(self, run: Run) -> bool:
        """Apply what the guard says about pointers that may be null; whether it said anything."""
        found = False
        for value in list(run.state.registers):
            if isinstance(value, Pointer) and not isinstance(value.null, bool):
                is_null = self.decide(run.guard, value.null)
                if is_null is not None:
                    run.state.refine(value.region, is_null=is_null)
                    found = True
        return found

    def _part(self, run: Run, branch: Branch) -> None:
        """Both branches of a condition, or the one that the guard leaves."""
        said = self.decide(run.guard, branch.condition)
        for is_taken in (False, True):
            if said is not None and said is not is_taken:
                continue
            condition = branch.condition if is_taken else run.state.domain.no(branch.condition)
            guard = run.guard.with_(condition)
            if guard is None:
                continue
            state = run.state.copy() if said is None and not is_taken else run.state
            branch.go(state, is_taken=is_taken)
            self._go_on(run, state, guard)

    def _go_on(self, run: Run, state: State, guard: Guard) -> None:
        """Go to the place at `state.at` in the same function."""
        block, rounds = run.block, run.rounds
        if state.at in self.program.functions[state.function].blocks:
            order = self.order(state.function)
            block, rounds = state.at, order.rounds_after(block, state.at, rounds)
        self._wait(Run(guard, state, block, rounds, run.above, run.entered))

    def _enter(self, run: Run, at: int) -> None:
        caller = run.state.callers[-1].function
        place = self.order(caller).key(run.block, run.rounds)
        above = (*run.above, (place, at, run.block, run.rounds))
        self._wait(Run(run.guard, run.state, 0, (), above, (*run.entered, run.guard)))

    def _leave(self, run: Run, function: Function) -> None:
        """If every path through the function is in this run, its guard is that of the call."""
        *above, (_, _, block, rounds) = run.above
        guard = run.guard
        if run.is_alone and self._always_returns(function):
            guard = run.entered[-1]
        left = Run(guard, run.state, block, rounds, tuple(above), run.entered[:-1])
        if run.state.at in self.program.functions[run.state.function].blocks:
            self._go_on(left, run.state, guard)
        else:
            self._wait(left)

    def _always_returns(self, function: Function) -> bool:
        """Whether all paths through it lead to its one exit: no tail call ends the program there."""
        if function.name not in self._returning:
            exits = sum(isinstance(each, Exit) for each in function.code.values())
            self._returning[function.name] = exits == 1 and not any(
                (isinstance(each, CallHelper) and each.number == Helper.TAIL_CALL)
                or (
                    isinstance(each, CallFunction)
                    and not self._always_returns(self.program.functions[each.name])
                )
                for each in function.code.values()
            )
        return self._returning[function.name]


_BEHIND = -1


def _merged_runs(runs: list[Run]) -> list[Run]:
    """The runs at one place, merged to as few as possible."""
    found: list[Run] = []
    for run in runs:
        for at, other in enumerate(found):
            guard = joined((other.guard, run.guard))
            condition = other.guard.apart(run.guard)
            state = merged(guard.domain, condition, other.state, run.state)
            if state is not None:
                found[at] = Run(guard, state, run.block, run.rounds, run.above, run.entered)
                break
        else:
            found.append(run)
    return found
