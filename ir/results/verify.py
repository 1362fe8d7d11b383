# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc verify`. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.results.common import Evidence, OpaquePart, Place, UniverseUsed, Witness


class IntentStatus(Enum):
    """What became of one intent."""

    HOLDS = "holds"
    """Proved for every flow of the universe."""
    BROKEN = "broken"
    """A witness breaks it."""
    VACUOUS = "vacuous"
    """No flow can ever break it, or none can satisfy it: it says nothing."""
    UNDECIDED = "undecided"
    """A solver gave up: never to be taken for holds."""


@dataclass(frozen=True, slots=True)
class IntentAnswer:
    """The answer for one intent.

    `title` is how messages call it, `words` what it promises, `reason` the author's, `place` where it
    was written. `witness` breaks it and `responsible` are the rules or policies that let that happen.
    `explanation` says why, for what is vacuous or undecided too.
    """

    status: IntentStatus
    title: str
    words: str
    place: Place
    key: str
    reason: str = ""
    explanation: str = ""
    witness: Witness | None = None
    responsible: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The answer to `policyc verify`: one for each intent, in the order they were written.

    `opaque` are the rules that ask for what is not decided.
    """

    intents: tuple[IntentAnswer, ...]
    universe: UniverseUsed
    evidence: Evidence
    notes: tuple[str, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
