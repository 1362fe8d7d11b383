# SPDX-License-Identifier: Apache-2.0
"""Answers that cannot be computed here: clocks, random numbers, routes. The caller supplies them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.memory import Memory
from policyc.verifier.bytecode.pointers import Region, Value
from policyc.verifier.bytecode.state import State


@dataclass(frozen=True)
class Answer:
    """r0, the bytes written behind pointers in registers, and the packet if it was replaced.

    `memory`: regions that the program may read from now on, for example that of a pointer in r0.
    """

    result: Value
    written: Mapping[int, bytes] = field(default_factory=dict)
    packet: bytes | None = None
    memory: Mapping[Region, Memory] = field(default_factory=dict)


class Oracle(ABC):
    """Called for each helper or kfunc that has no model; arguments are in r1 to r5."""

    @abstractmethod
    def answer(self, state: State, name: str) -> Answer:
        """UnmodelledError if there is no answer."""


class NoOracle(Oracle):
    """An oracle without any answer."""

    def answer(self, state: State, name: str) -> Answer:
        """UnmodelledError, always."""
        raise UnmodelledError(f"{name} has no model, and no oracle gives its result")
