# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc equiv`: a certificate that two policy sets are equal, or the difference.

Data only.
"""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.results.common import OpaquePart, UniverseUsed
from policyc.ir.results.diff import NONE_FOUND, Counts, Difference


class Equivalence(Enum):
    """Whether both sides give the same verdicts at both ends of every flow."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Obligation:
    """A goal that no flow may satisfy. `digest` is the SHA-256 of its SMT-LIB text, `answers` are
    (solver, version, answer).
    """

    what: str
    digest: str
    answers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class InputDigest:
    """A file of one side: `side` is `A`, `B` or `cluster`, `path` as it was given."""

    side: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proved of what, in which universe, by whom.

    `settings` are the (name, value) that the statement depends on, as text. `differences` are the
    regions shown, `counts` count all that were found. `checked` says what of an earlier certificate was
    found again, None where none was given; `faults` what was not. `opaque` are the rules that ask for
    what is not decided, `possible` what may differ because of them.
    """

    result: Equivalence
    before: str
    after: str
    universe: UniverseUsed
    method: str
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[InputDigest, ...]
    obligations: tuple[Obligation, ...]
    solvers: tuple[tuple[str, str], ...]
    differences: tuple[Difference, ...] = ()
    counts: Counts = NONE_FOUND
    possible: tuple[Difference, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
    undecided: str = ""
    checked: str | None = None
    faults: tuple[str, ...] = ()
