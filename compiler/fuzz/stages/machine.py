# SPDX-License-Identifier: Apache-2.0
"""A policy program in some execution engine, run one end at a time; its counters give the rule."""

import struct
from collections.abc import Mapping, Sequence
from typing import Protocol

from policyc.compiler.driver.compile.target import Backend
from policyc.compiler.fuzz.stages.answers import Answer
from policyc.compiler.fuzz.stages.programs import FlowWriter, Setting, settings_of
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.object import BpfObject, read_object

ENTRY = "pc_policy_run"
SCRATCH, COUNTS = "pc_scratch", "pc_counts"
FRAME = b"\xff" * 90
"""A broadcast frame, for all flows: a reject gets no answer, as no device of ours could send it."""
NEXT = 0xFFFFFFFF
"""TC_ACT_UNSPEC: the packet passes."""
Counts = Mapping[int, int]
"""Rule id -> packets, without zeros."""


class Machine(Protocol):
    """One program with filled maps."""

    def run(self, flow: bytes) -> int:
        """Run it on a flow; returns its 32 bits."""
        ...

    def counts(self) -> Counts:
        """The counters so far."""
        ...


def ask(machine: Machine, source: BpfObject, setting: Setting) -> Sequence[Answer | None]:
    """The answers of a machine to every question that policies decide."""
    writer = FlowWriter(source.btf, source.maps[SCRATCH].value_size)
    before = machine.counts()
    found: list[Answer | None] = []
    for question in setting.scenario.questions:
        if not question.is_decided:
            found.append(None)
            continue
        result = machine.run(writer.write(question, setting))
        after = machine.counts()
        counted = [rule for rule, packets in after.items() if packets != before.get(rule, 0)]
        if len(counted) != 1 or after[counted[0]] != before.get(counted[0], 0) + 1:
            raise InternalError(f"one packet of {question.flow} was counted for {counted}")
        found.append(setting.answer(counted[0], result == NEXT))
        before = after
    return found


def first_word(value: bytes) -> int:
    """The packets of a rule's counter."""
    return int(struct.unpack_from("<Q", value)[0])


def made_by(scenario: Scenario, backend: Backend) -> tuple[Setting, bytes, BpfObject]:
    """The setting of a scenario, and the object of a backend as bytes and parsed."""
    setting = settings_of(scenario)
    data = setting.program(backend)
    return setting, data, read_object(data)
