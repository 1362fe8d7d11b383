# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc verify`. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.results.common import Evidence, OpaquePart, Place, UniverseUsed, Witness


class IntentStatus(Enum):
    """The result for one intent."""

    HOLDS = "holds"
    """Proved for every flow of the universe."""
    BROKEN = "broken"
    """A witness breaks it."""
    VACUOUS = "vacuous"
    """No flow can break it, or no flow can satisfy it: it states nothing."""
    UNDECIDED = "undecided"
    """A solver gave up: never to be read as "holds"."""


@dataclass(frozen=True, slots=True)
class IntentAnswer:
    """The answer for one intent.

    `title` is its name in messages, `words` what it promises, `reason` the author's, `place` its
    position in the source. `witness` breaks it, and `responsible` are the rules or policies that allow
    or deny the witness. `explanation` says why, also if the intent is vacuous or undecided.
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

    `opaque` are the rules with a requirement that policyc cannot decide.
    """

    intents: tuple[IntentAnswer, ...]
    universe: UniverseUsed
    evidence: Evidence
    notes: tuple[str, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
