# SPDX-License-Identifier: Apache-2.0
"""The program's bytecode on numbers, by the executor that the proofs use."""

from collections.abc import Sequence
from dataclasses import dataclass

from policyc.compiler.driver.compile.target import Backend
from policyc.compiler.fuzz.stages.answers import Answer
from policyc.compiler.fuzz.stages.machine import (
    COUNTS,
    ENTRY,
    FRAME,
    SCRATCH,
    Counts,
    ask,
    first_word,
    made_by,
)
from policyc.compiler.fuzz.stages.programs import Contents
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.errors import InternalError
from policyc.verifier.bytecode import oracle
from policyc.verifier.bytecode.concrete import Around, run
from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.program import Program, link_program
from policyc.verifier.bytecode.state import State

_SECOND = 10**9


@dataclass(frozen=True)
class ExecutorStage:
    """The object of one backend."""

    backend: Backend

    @property
    def name(self) -> str:
        """`executor-c` or `executor-llvm`."""
        return f"executor-{self.backend.value}"

    def answers(self, scenario: Scenario) -> Sequence[Answer | None]:
        """Each end that policies decide, by one run."""
        setting, _, source = made_by(scenario, self.backend)
        program = link_program(source, ENTRY)
        return ask(_Executed(program, setting.contents(source.maps)), source, setting)


class _Clock(oracle.Oracle):
    """Each call advances the clock by a second; a random number is the number of calls so far."""

    def __init__(self) -> None:
        self._asked = 0

    def answer(self, state: State, name: str) -> oracle.Answer:
        self._asked += 1
        if name == "KTIME_GET_NS":
            return oracle.Answer(self._asked * _SECOND)
        if name == "GET_PRANDOM_U32":
            return oracle.Answer(self._asked)
        raise UnmodelledError(name)


class _Executed:
    """The machine."""

    def __init__(self, program: Program, contents: Contents) -> None:
        self._around = Around(program, oracle=_Clock())
        for name, entries in contents.items():
            found = self._around.map(name)
            for key, value in entries.items():
                found.put(key, value)

    def run(self, flow: bytes) -> int:
        self._around.map(SCRATCH).put(bytes(4), flow)
        result = run(self._around, FRAME, {"mark": 0}).result
        if not isinstance(result, int):
            raise InternalError("the policy program ended in a tail call")
        return result

    def counts(self) -> Counts:
        pairs = self._around.map(COUNTS).items().items()
        words = ((int.from_bytes(key, "little"), first_word(value)) for key, value in pairs)
        return {rule: packets for rule, packets in words if packets}
